"""Build and sign a MSG, and open a received one [SSOT 4.2, 9]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from hub.crypto import aead, hpke
from hub.crypto.hpke import DhSecret, OpenContext
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.limits import DEFAULT, Limits
from hub.types import AuthRef, ClientId, ClientSeq, DhKey, Hash, Label, LeafHash
from hub.wire import attachment, ciphertext
from hub.wire.msg import Msg, Unsigned, aad_of, body_nonce_of
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile

_BODY_KEY: Final = b"veen/body-k"

ReaderSecret: TypeAlias = bytes | DhSecret


class Numbered(NamedTuple):
    """What a MSG is to hold, and its place among those of its author."""

    label: Label
    client_seq: ClientSeq
    prev_ack: int
    auth_ref: AuthRef | None
    reader_pk: DhKey
    header: PayloadHeader
    body: bytes
    attachments: Sequence[bytes] = ()
    profile: Profile = PRODUCT


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAttachment:
    """One attachment as a hub keeps it."""

    coid: Hash
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Authored:
    """A MSG ready to be stored and sent; resend these bytes, never author the event twice."""

    msg: Msg
    msg_bytes: bytes
    leaf_hash: LeafHash
    attachments: tuple[SealedAttachment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The plaintext of a MSG and what opens its attachments."""

    header: PayloadHeader
    body: bytes = field(repr=False)
    cap_mismatch: bool  # cap_ref is there and is not the MSG's auth_ref: ingest marks it
    _aad: bytes = field(repr=False)
    _context: OpenContext = field(repr=False, compare=False)

    @property
    def shared_secret(self) -> bytes:
        """Discloses this one message and no other: for an evidence pack."""
        return self._context.shared_secret

    def att_key(self, index: int) -> bytes:
        """The key of attachment `index`, counted from 0."""
        return attachment.att_key(self._context, index)

    def open_attachment(self, index: int, sealed: bytes) -> bytes:
        """The plaintext of attachment `index`, or E.FORMAT."""
        return attachment.open_(self._context, self._aad, index, sealed)

    def check_attachments(self, coids: Sequence[Hash]) -> None:
        """Raise E.FORMAT unless these are all the attachments, in order (I5)."""
        expected = attachment.att_root(coids) if coids else None
        if self.header.att_root != expected:
            raise WireError("att_root is not the root of these attachments")


def author(
    *,
    key: SigningKey,
    profile: Profile,
    label: Label,
    client_seq: ClientSeq,
    prev_ack: int,
    auth_ref: AuthRef | None,
    reader_pk: DhKey,
    header: PayloadHeader,
    body: bytes,
    attachments: Sequence[bytes] = (),
    limits: Limits = DEFAULT,
    ephemeral: bytes | None = None,
) -> Authored:
    """Seal to the reader's key and sign; `ephemeral` is for published vectors only.

    The HPKE context lives and dies here, so no two messages can share one.
    """
    item = Numbered(
        label=label,
        client_seq=client_seq,
        prev_ack=prev_ack,
        auth_ref=auth_ref,
        reader_pk=reader_pk,
        header=header,
        body=body,
        attachments=attachments,
        profile=profile,
    )
    _check_draft(item, limits)
    context = hpke.seal_setup(reader_pk, ephemeral=ephemeral)
    return _author(key, [item], [context], limits)[0]


def author_all(
    key: SigningKey, items: Sequence[Numbered], limits: Limits = DEFAULT
) -> list[Authored]:
    """`author` for many: each step is done for all before the next one begins.

    In the long steps only libsodium runs, without the GIL, and a thread beside this one gets on.
    """
    for item in items:
        _check_draft(item, limits)
    return _author(key, items, hpke.seal_setups([item.reader_pk for item in items]), limits)


def _author(
    key: SigningKey,
    items: Sequence[Numbered],
    contexts: Sequence[hpke.SealContext],
    limits: Limits,
) -> list[Authored]:
    client_id = ClientId(key.public)
    unsigned: list[Unsigned] = []
    attached: list[tuple[SealedAttachment, ...]] = []
    for item, context in zip(items, contexts, strict=True):
        joined, sealed = _seal(client_id, item, context, limits)
        attached.append(sealed)
        unsigned.append(
            Unsigned(
                item.profile.id, item.label, item.client_seq, item.prev_ack, item.auth_ref, joined
            )
        )
    made = []
    for msg, sealed in zip(Msg.sign_all(key, unsigned), attached, strict=True):
        msg_bytes = msg.encode()
        if len(msg_bytes) > limits.msg_bytes_max:
            detail = f"MSG of {len(msg_bytes)} bytes is over {limits.msg_bytes_max}"
            raise WireError(detail, ErrorCode.SIZE)
        made.append(
            Authored(msg=msg, msg_bytes=msg_bytes, leaf_hash=msg.leaf_hash(), attachments=sealed)
        )
    return made


def _seal(
    client_id: ClientId, item: Numbered, context: hpke.SealContext, limits: Limits
) -> tuple[bytes, tuple[SealedAttachment, ...]]:
    """The padded ciphertext of one MSG, and its attachments as a hub keeps them."""
    label, client_seq, prev_ack = item.label, item.client_seq, item.prev_ack
    profile, header = item.profile, item.header
    aad = aad_of(
        profile_id=profile.id,
        label=label,
        client_id=client_id,
        client_seq=client_seq,
        prev_ack=prev_ack,
        auth_ref=item.auth_ref,
    )
    sealed: tuple[SealedAttachment, ...] = ()
    if item.attachments:
        sealed = tuple(_seal_attachments(context, aad, item.attachments, limits))
        header = replace(header, att_root=attachment.att_root(one.coid for one in sealed))
    nonce = body_nonce_of(
        label=label, prev_ack=prev_ack, client_id=client_id, client_seq=client_seq
    )
    joined = ciphertext.join(
        context.enc,
        context.seal(_header_bytes(header), aad),
        aead.seal(context.export(_BODY_KEY), nonce, item.body, aad),
        profile.pad_block,
    )
    ciphertext.check_framing(joined, profile.pad_block, limits)
    return joined, sealed


# The messages of a stream have one header or few, and nothing of it differs with the message.
@lru_cache(maxsize=64)
def _header_bytes(header: PayloadHeader) -> bytes:
    return header.encode()


@lru_cache(maxsize=64)
def _header_of(data: bytes) -> PayloadHeader:
    return PayloadHeader.decode(data)


def _check_draft(item: Numbered, limits: Limits) -> None:
    header, attachments = item.header, item.attachments
    if header.cap_ref is not None and header.cap_ref != item.auth_ref:
        raise VeenError(ErrorCode.CAP, "payload_hdr.cap_ref is not MSG.auth_ref")
    if header.att_root is not None:
        # Attachments are sealed with keys of the new context, so nobody can know it beforehand.
        raise WireError("att_root is computed while authoring")
    if len(attachments) > limits.attachments_per_msg_max:
        detail = f"{len(attachments)} attachments are over {limits.attachments_per_msg_max}"
        raise WireError(detail, ErrorCode.SIZE)


def _seal_attachments(
    context: hpke.SealContext, aad: bytes, attachments: Sequence[bytes], limits: Limits
) -> list[SealedAttachment]:
    sealed_all = []
    for index, plaintext in enumerate(attachments):
        if len(plaintext) + aead.TAG_BYTES > limits.attachment_bytes_max:
            detail = f"attachment {index} is over {limits.attachment_bytes_max} bytes when sealed"
            raise WireError(detail, ErrorCode.SIZE)
        sealed = attachment.seal(context, aad, index, plaintext)
        sealed_all.append(SealedAttachment(coid=attachment.coid(sealed), sealed=sealed))
    return sealed_all


def open_message(
    msg: Msg,
    *,
    profile: Profile,
    secret: ReaderSecret | Sequence[ReaderSecret],
    limits: Limits = DEFAULT,
) -> Opened:
    """Open with the first of the stream's secrets, newest first, that fits; else E.FORMAT.

    Opening proves that the sealer knew the reader's public key, not who it was: `msg.verify()`
    comes first.
    """
    _check_profile(msg, profile)
    secrets = [secret] if isinstance(secret, bytes | DhSecret) else secret
    aad, nonce = msg.aad(), msg.body_nonce()
    header, body, context = open_sealed(msg.ciphertext, aad, nonce, profile, secrets, limits)
    return _opened(msg, header, body, aad, context)


def open_sealed(  # noqa: PLR0917 - asked for each of millions of messages
    sealed: bytes,
    aad: bytes,
    nonce24: bytes,
    profile: Profile,
    secrets: Sequence[ReaderSecret],
    limits: Limits = DEFAULT,
) -> tuple[PayloadHeader, bytes, OpenContext]:
    """Header, body and context of a ciphertext, for whoever has no Msg around it; else E.FORMAT."""
    enc, hdr_ct, body_ct = ciphertext.split(sealed, profile.pad_block, limits)
    for candidate in secrets:
        context = hpke.open_setup(enc, candidate)
        try:
            header_bytes = context.open(hdr_ct, aad)
        except WireError:
            continue  # Sealed to another key of the stream, or to none of ours.
        header = _header_of(header_bytes)
        return header, aead.open_(context.export(_BODY_KEY), nonce24, body_ct, aad), context
    raise WireError(f"does not open with any of {len(secrets)} reader keys")


def open_disclosed(
    msg: Msg, *, profile: Profile, shared_secret: bytes, limits: Limits = DEFAULT
) -> Opened:
    """Open one message with its disclosed HPKE shared secret (evidence pack)."""
    _check_profile(msg, profile)
    _, hdr_ct, body_ct = ciphertext.split(msg.ciphertext, profile.pad_block, limits)
    context = hpke.open_from_shared_secret(shared_secret)
    aad = msg.aad()
    header = _header_of(context.open(hdr_ct, aad))
    body = aead.open_(context.export(_BODY_KEY), msg.body_nonce(), body_ct, aad)
    return _opened(msg, header, body, aad, context)


def _check_profile(msg: Msg, profile: Profile) -> None:
    if msg.profile_id != profile.id:
        raise WireError(f"profile_id {msg.profile_id.hex()}", ErrorCode.PROFILE)


def _opened(
    msg: Msg, header: PayloadHeader, body: bytes, aad: bytes, context: OpenContext
) -> Opened:
    return Opened(
        header=header,
        body=body,
        cap_mismatch=header.cap_ref is not None and header.cap_ref != msg.auth_ref,
        _aad=aad,
        _context=context,
    )
