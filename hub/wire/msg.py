"""MSG: what a client signs and a hub orders without reading it [SSOT 4.1]."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

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
_SIG_ITEM_BYTES: Final = 66
_SHORTEST: Final = 208  # every number in one byte, no auth_ref, an empty ciphertext
_LONGEST_HEADS: Final = 52  # what long integers, an auth_ref and a length add to it
# array(10), ver 1 and three 32-byte strings stand at fixed offsets.
_PREFIX: Final = Struct(">4s32s2s32s2s32s")
_PREFIX_START: Final = b"\x8a\x01\x58\x20"
_BSTR32_ITEM: Final = Struct(">2s32s")
_HASH_AND_LENGTH: Final = Struct(">2s32sBH")
_SIG_ITEM: Final = Struct(">2s64s")
# First byte of a longer integer: how many bytes follow, and the least number that needs them.
_LONG_UINTS: Final = {0x18: (1, 24), 0x19: (2, 1 << 8), 0x1A: (4, 1 << 16), 0x1B: (8, 1 << 32)}


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
        return _items(
            profile_id=self.profile_id,
            label=self.label,
            client_id=self.client_id,
            client_seq=self.client_seq,
            prev_ack=self.prev_ack,
            auth_ref=self.auth_ref,
            ct_hash=self.ct_hash,
            ciphertext=self.ciphertext,
        )

    def signing_hash(self) -> bytes:
        """Ht("veen/sig", CBOR(array of the first nine))."""
        if self._bytes is not None:
            return hashing.SIG(_SIGNED_FIELDS, self._bytes[1:-_SIG_ITEM_BYTES])
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
        return LeafHash(
            hashing.LEAF(
                self.label
                + self.profile_id
                + self.ct_hash
                + self.client_id
                + u64be(self.client_seq)
            )
        )

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
        client_id = ClientId(key.public)
        ct_hash = Hash(hashing.h(ciphertext))
        items = _items(
            profile_id=profile_id,
            label=label,
            client_id=client_id,
            client_seq=client_seq,
            prev_ack=prev_ack,
            auth_ref=auth_ref,
            ct_hash=ct_hash,
            ciphertext=ciphertext,
        )
        msg = Msg(
            profile_id=profile_id,
            label=label,
            client_id=client_id,
            client_seq=client_seq,
            prev_ack=prev_ack,
            auth_ref=auth_ref,
            ct_hash=ct_hash,
            ciphertext=ciphertext,
            sig=key.sign(hashing.SIG(_SIGNED_FIELDS, items)),
        )
        return _keep_bytes(msg, _ALL_FIELDS + items + _BSTR64 + msg.sig)


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


def _items(
    *,
    profile_id: ProfileId,
    label: Label,
    client_id: ClientId,
    client_seq: int,
    prev_ack: int,
    auth_ref: AuthRef | None,
    ct_hash: Hash,
    ciphertext: bytes,
) -> bytes:
    """The nine signed items without their array head."""
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
    """The same for common lengths at known offsets, at under half the cost; None when in doubt.

    It may only accept what `_decode_by_field` accepts, with equal fields; the tests compare both
    on generated messages, on random edits of them and on every value of each structural byte.
    """
    size = len(data)
    if size < _SHORTEST:
        return None
    start, profile_id, head_1, label, head_2, client_id = _PREFIX.unpack_from(data)
    if start != _PREFIX_START or head_1 != _BSTR32 or head_2 != _BSTR32:
        return None
    pos = _PREFIX.size
    client_seq = data[pos]
    pos += 1
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
    sig_item = size - _SIG_ITEM_BYTES
    head_6, sig = _SIG_ITEM.unpack_from(data, sig_item)
    if (
        client_seq < 0
        or prev_ack < 0
        or head_4 != _BSTR32
        or head_5 != 0x59  # a ciphertext of 256 to 65535 bytes
        or length < 0x100
        or pos + length != sig_item
        or head_6 != _BSTR64
    ):
        return None
    msg = Msg(
        profile_id=profile_id,
        label=label,
        client_id=client_id,
        client_seq=ClientSeq(client_seq),
        prev_ack=prev_ack,
        auth_ref=auth_ref,
        ct_hash=ct_hash,
        ciphertext=data[pos:sig_item],
        sig=sig,
    )
    return _keep_bytes(msg, data)


def _long_uint(data: bytes, pos: int) -> tuple[int, int]:
    """The minimal integer whose first byte stands before `pos`, and its end; -1 for any other."""
    width, least = _LONG_UINTS.get(data[pos - 1], (0, 1))
    end = pos + width
    number = int.from_bytes(data[pos:end], "big")
    return (number, end) if number >= least else (-1, pos)


def end_at(data: bytes, pos: int) -> int | None:
    """Where the MSG at an offset of a sequence ends; None when in doubt.

    A walk over its items costs several times as much. It may only say what such a walk says.
    """
    if len(data) - pos < _SHORTEST + _LONGEST_HEADS:
        return None
    if (
        not data.startswith(_PREFIX_START, pos)
        or data[pos + 36 : pos + 38] != _BSTR32
        or data[pos + 70 : pos + 72] != _BSTR32
    ):
        return None
    at = pos + _PREFIX.size
    for _ in range(2):  # client_seq and prev_ack
        number = data[at]
        at += 1
        if number >= 24:
            number, at = _long_uint(data, at)
            if number < 0:
                return None
    if data[at] == cbor.NULL:
        at += 1
    elif data[at : at + 2] == _BSTR32:
        at += 34
    else:
        return None
    head, _, kind, length = _HASH_AND_LENGTH.unpack_from(data, at)
    end = at + _HASH_AND_LENGTH.size + int(length) + _SIG_ITEM_BYTES
    if head != _BSTR32 or kind != 0x59 or length < 0x100 or end > len(data):
        return None
    sig_item = end - _SIG_ITEM_BYTES
    return end if data[sig_item : sig_item + 2] == _BSTR64 else None
