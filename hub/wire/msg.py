"""MSG: what a client signs and a hub orders without reading it [SSOT 4.1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from hub.crypto import hashing, signing
from hub.crypto.hashing import u64be
from hub.crypto.signing import SigningKey
from hub.errors import WireError
from hub.types import (
    ZERO32,
    AuthRef,
    ClientId,
    ClientSeq,
    Hash,
    Label,
    LeafHash,
    ProfileId,
    Signature,
)
from hub.wire import cbor

VERSION: Final = 1
_FIELDS: Final = 10
_SIGNED_FIELDS: Final = b"\x89"  # array of the first nine
_ALL_FIELDS: Final = b"\x8a"
_BSTR32: Final = b"\x58\x20"
_BSTR64: Final = b"\x58\x40"
SIG_ITEM_BYTES: Final = 66  # the last item: the ciphertext ends right before it
_SHORTEST: Final = 208  # every number in one byte, no auth_ref, an empty ciphertext
# array(10), ver 1, three 32-byte strings and client_seq stand at fixed offsets.
_PREFIX: Final = Struct(">4s32s2s32s2s32sB")
_PREFIX_START: Final = b"\x8a\x01\x58\x20"
_BSTR32_ITEM: Final = Struct(">2s32s")
_HASH_AND_LENGTH: Final = Struct(">2s32sBH")
# First byte of a longer integer: how many bytes follow, and the least number that needs them.
_LONG_UINTS: Final = {0x18: (1, 24), 0x19: (2, 1 << 8), 0x1A: (4, 1 << 16), 0x1B: (8, 1 << 32)}


class Unsigned(NamedTuple):
    """What the author of a MSG decides; the rest follows from it and from the key."""

    profile_id: ProfileId
    label: Label
    client_seq: ClientSeq
    prev_ack: int
    auth_ref: AuthRef | None
    ciphertext: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Msg:
    """Field order is wire order: never reorder, never insert."""

    profile_id: ProfileId
    label: Label
    client_id: ClientId
    client_seq: ClientSeq
    prev_ack: int
    auth_ref: AuthRef | None
    ct_hash: Hash
    ciphertext: bytes
    sig: Signature
    # The received bytes. Not an argument, so that dataclasses.replace() cannot carry stale ones.
    _bytes: bytes | None = field(init=False, default=None, compare=False, repr=False)

    @classmethod
    def decode(cls, data: bytes) -> Msg:
        """Parse a MSG or raise E.FORMAT, so a Msg that exists is well formed."""
        return _decode_by_position(data) or _decode_by_field(data)

    def encode(self) -> bytes:
        """The exact bytes that were received, or the canonical ones of a new MSG."""
        if self._bytes is not None:
            return self._bytes
        return _ALL_FIELDS + self._signed_items() + _BSTR64 + self.sig

    def _signed_items(self) -> bytes:
        unsigned = Unsigned(
            self.profile_id,
            self.label,
            self.client_seq,
            self.prev_ack,
            self.auth_ref,
            self.ciphertext,
        )
        return _items(client_id=self.client_id, ct_hash=self.ct_hash, unsigned=unsigned)

    def signing_hash(self) -> bytes:
        """Ht("veen/sig", CBOR(array of the first nine))."""
        if self._bytes is not None:
            return hashing.SIG(_SIGNED_FIELDS, self._bytes[1:-SIG_ITEM_BYTES])
        return hashing.SIG(_SIGNED_FIELDS, self._signed_items())

    def verify(self) -> None:
        """Raise E.SIG unless client_id signed exactly these bytes."""
        signing.verify(self.client_id, self.sig, self.signing_hash())

    def check_ct_hash(self) -> None:
        """Raise E.FORMAT unless ct_hash is that of the ciphertext (I1)."""
        if hashing.h(self.ciphertext) != self.ct_hash:
            raise WireError("ct_hash is not the hash of the ciphertext")

    def leaf_hash(self) -> LeafHash:
        """The leaf of the log, which is also msg_id (I2)."""
        return leaf_of(self.label, self.profile_id, self.ct_hash, self.client_id, self.client_seq)

    def aad(self) -> bytes:
        """The associated data that binds header and body to this MSG."""
        return aad_of(
            profile_id=self.profile_id,
            label=self.label,
            client_id=self.client_id,
            client_seq=self.client_seq,
            prev_ack=self.prev_ack,
            auth_ref=self.auth_ref,
        )

    def body_nonce(self) -> bytes:
        """The 24 bytes of nonce of the body."""
        return body_nonce_of(
            label=self.label,
            prev_ack=self.prev_ack,
            client_id=self.client_id,
            client_seq=self.client_seq,
        )

    @staticmethod
    def sign(
        key: SigningKey,
        *,
        profile_id: ProfileId,
        label: Label,
        client_seq: ClientSeq,
        prev_ack: int,
        auth_ref: AuthRef | None,
        ciphertext: bytes,
    ) -> Msg:
        """A new MSG of the key's owner."""
        unsigned = Unsigned(profile_id, label, client_seq, prev_ack, auth_ref, ciphertext)
        return Msg.sign_all(key, [unsigned])[0]

    @staticmethod
    def sign_all(key: SigningKey, unsigned: Sequence[Unsigned]) -> list[Msg]:
        """New MSGs of the key's owner, signed one right after the other."""
        client_id = ClientId(key.public)
        hashes = [Hash(hashing.h(one.ciphertext)) for one in unsigned]
        spelled = [
            _items(client_id=client_id, ct_hash=ct_hash, unsigned=one)
            for one, ct_hash in zip(unsigned, hashes, strict=True)
        ]
        sigs = key.sign_all([hashing.SIG(_SIGNED_FIELDS, items) for items in spelled])
        made = []
        for one, ct_hash, items, sig in zip(unsigned, hashes, spelled, sigs, strict=True):
            profile_id, label, client_seq, prev_ack, auth_ref, ciphertext = one
            msg = Msg(
                profile_id=profile_id,
                label=label,
                client_id=client_id,
                client_seq=client_seq,
                prev_ack=prev_ack,
                auth_ref=auth_ref,
                ct_hash=ct_hash,
                ciphertext=ciphertext,
                sig=sig,
            )
            made.append(_keep_bytes(msg, _ALL_FIELDS + items + _BSTR64 + sig))
        return made


def leaf_of(
    label: Label, profile_id: ProfileId, ct_hash: Hash, client_id: ClientId, client_seq: int
) -> LeafHash:
    """Ht("veen/leaf", ...)."""
    return LeafHash(hashing.LEAF(label + profile_id + ct_hash + client_id + u64be(client_seq)))


def aad_of(
    *,
    profile_id: ProfileId,
    label: Label,
    client_id: ClientId,
    client_seq: int,
    prev_ack: int,
    auth_ref: AuthRef | None,
) -> bytes:
    """Ht("veen/aad", ...), the same for header and body."""
    return hashing.AAD(
        profile_id + label + client_id + u64be(client_seq) + u64be(prev_ack) + (auth_ref or ZERO32)
    )


def body_nonce_of(*, label: Label, prev_ack: int, client_id: ClientId, client_seq: int) -> bytes:
    """Trunc_24(Ht("veen/nonce", ...))."""
    return hashing.NONCE(label + u64be(prev_ack) + client_id + u64be(client_seq))[:24]


def _items(*, client_id: ClientId, ct_hash: Hash, unsigned: Unsigned) -> bytes:
    """The nine signed items without their array head."""
    profile_id, label, client_seq, prev_ack, auth_ref, ciphertext = unsigned
    assert len(profile_id) == len(label) == len(client_id) == len(ct_hash) == 32
    return b"".join((
        b"\x01\x58\x20", profile_id, _BSTR32, label, _BSTR32, client_id,
        cbor.uint(client_seq), cbor.uint(prev_ack),
        bytes((cbor.NULL,)) if auth_ref is None else cbor.bstr(auth_ref),
        _BSTR32, ct_hash, cbor.bstr(ciphertext),
    ))  # fmt: skip


def _keep_bytes(msg: Msg, data: bytes) -> Msg:
    object.__setattr__(msg, "_bytes", data)
    return msg


def _decode_by_field(data: bytes) -> Msg:
    """The rule: read each item strictly; every refusal names its byte."""
    reader = cbor.Reader(data).array(_FIELDS)
    reader.uint(exactly=VERSION)
    msg = Msg(
        profile_id=ProfileId(reader.bstr(32)),
        label=Label(reader.bstr(32)),
        client_id=ClientId(reader.bstr(32)),
        client_seq=ClientSeq(reader.uint()),
        prev_ack=reader.uint(),
        auth_ref=_auth_ref(reader.bstr_or_null(32)),
        ct_hash=Hash(reader.bstr(32)),
        ciphertext=reader.bstr(),
        sig=Signature(reader.bstr(64)),
    )
    reader.end()
    return _keep_bytes(msg, data)


def _auth_ref(data: bytes | None) -> AuthRef | None:
    return None if data is None else AuthRef(data)


def _decode_by_position(data: bytes) -> Msg | None:
    """The same for common lengths at known offsets, at under half the cost; None when in doubt."""
    msg = read_at(data, 0)
    return msg if msg is not None and len(msg.encode()) == len(data) else None


def read_at(data: bytes, pos: int) -> Msg | None:
    """The MSG at an offset of a sequence; None when in doubt.

    It may only accept what `_decode_by_field` accepts, with equal fields; the tests compare both
    on generated messages, on random edits of them and on every value of each structural byte.
    """
    found = heads_at(data, pos)
    if found is None:
        return None
    profile_id, label, client_id, client_seq, prev_ack, auth_ref, ct_hash, start, end = found
    msg = Msg(
        profile_id=profile_id,
        label=label,
        client_id=client_id,
        client_seq=client_seq,
        prev_ack=prev_ack,
        auth_ref=auth_ref,
        ct_hash=ct_hash,
        ciphertext=data[start:end],
        sig=Signature(data[end + 2 : end + SIG_ITEM_BYTES]),
    )
    return _keep_bytes(msg, data[pos : end + SIG_ITEM_BYTES])


Heads: TypeAlias = tuple[
    ProfileId, Label, ClientId, ClientSeq, int, AuthRef | None, Hash, int, int
]  # the fields before the ciphertext, where it starts, where it ends


def heads_at(data: bytes, pos: int) -> Heads | None:
    """What stands before the ciphertext of the MSG at an offset; None when in doubt.

    Common lengths at known offsets; a walk over the items costs several times as much.
    """
    if len(data) - pos < _SHORTEST:
        return None
    start, profile_id, head_1, label, head_2, client_id, client_seq = _PREFIX.unpack_from(data, pos)
    if start != _PREFIX_START or head_1 != _BSTR32 or head_2 != _BSTR32:
        return None
    pos += _PREFIX.size
    if client_seq >= 24:
        client_seq, pos = _long_uint(data, pos)
    prev_ack = data[pos]
    pos += 1
    if prev_ack >= 24:
        prev_ack, pos = _long_uint(data, pos)
    auth_ref = None
    if data[pos] == cbor.NULL:
        pos += 1
    else:
        head_3, auth_ref = _BSTR32_ITEM.unpack_from(data, pos)
        if head_3 != _BSTR32:
            return None
        pos += 34
    head_4, ct_hash, head_5, length = _HASH_AND_LENGTH.unpack_from(data, pos)
    pos += _HASH_AND_LENGTH.size
    end = pos + length
    if (
        client_seq < 0
        or prev_ack < 0
        or head_4 != _BSTR32
        or head_5 != 0x59  # a ciphertext of 256 to 65535 bytes
        or length < 0x100
        or end + SIG_ITEM_BYTES > len(data)
        or data[end : end + 2] != _BSTR64
    ):
        return None
    return profile_id, label, client_id, client_seq, prev_ack, auth_ref, ct_hash, pos, end


def _long_uint(data: bytes, pos: int) -> tuple[int, int]:
    """The minimal integer whose first byte stands before `pos`, and its end; -1 for any other."""
    width, least = _LONG_UINTS.get(data[pos - 1], (0, 1))
    end = pos + width
    number = int.from_bytes(data[pos:end], "big")
    return (number, end) if number >= least else (-1, pos)
