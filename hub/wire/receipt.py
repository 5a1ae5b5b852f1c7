"""RECEIPT: the hub's signed promise of one message's place in one stream [SSOT 4.3]."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Self

from hub.crypto import hashing, signing
from hub.crypto.signing import SigningKey
from hub.errors import WireError
from hub.types import Label, LeafHash, MmrRoot, PublicKey, Signature, StreamSeq, UnixSeconds
from hub.wire import cbor

VERSION: Final = 1
_SIGNED_FIELDS: Final = b"\x86"
_ALL_FIELDS: Final = b"\x87"
_BSTR32: Final = b"\x58\x20"
_BSTR64: Final = b"\x58\x40"
_UINT32: Final = 0x1A
_SIG_ITEM_BYTES: Final = 66  # the last item
_SEQ_AT: Final = 36  # behind array head, version and label
_START: Final = b"\x87\x01\x58\x20"
_REST: Final = struct.Struct(">2s32s2s32sBI2s64s")
_SHORTEST: Final = len(_START) + 32 + _REST.size
_SEQ_HEADS: Final = {2: 0x18, 3: 0x19, 5: 0x1A}  # by the bytes that stream_seq takes
_SEQ_WIDTHS: Final = {head: width for width, head in _SEQ_HEADS.items()}
_SEQ_LEAST: Final = {2: 24, 3: 1 << 8, 5: 1 << 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Field order is wire order: never reorder, never insert."""

    label: Label
    stream_seq: StreamSeq
    leaf_hash: LeafHash
    mmr_root: MmrRoot
    hub_ts: UnixSeconds
    hub_sig: Signature
    # The received bytes. Not an argument, so that dataclasses.replace() cannot carry stale ones.
    _bytes: bytes | None = field(init=False, default=None, compare=False, repr=False)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a RECEIPT or raise E.FORMAT, so a Receipt that exists is well formed."""
        return cls._decode_by_position(data) or cls._decode_by_field(data)

    @classmethod
    def _decode_by_position(cls, data: bytes) -> Self | None:
        """The common spelling at known offsets, at a quarter of the cost; None when in doubt.

        It may only accept what `_decode_by_field` accepts, with equal fields.
        """
        size = len(data)
        width = size - _SHORTEST  # of stream_seq, with a hub_ts of five bytes
        if width not in _SEQ_HEADS or data[:4] != _START or data[36] != _SEQ_HEADS[width]:
            return None
        stream_seq = int.from_bytes(data[37 : 36 + width], "big")
        head_1, leaf_hash, head_2, root, head_3, hub_ts, head_4, sig = _REST.unpack_from(
            data, 36 + width
        )
        if (
            head_1 != _BSTR32
            or head_2 != _BSTR32
            or head_3 != _UINT32
            or head_4 != _BSTR64
            or hub_ts < 1 << 16
            or stream_seq < _SEQ_LEAST[width]
        ):
            return None
        receipt = cls(
            label=Label(data[4:36]),
            stream_seq=StreamSeq(stream_seq),
            leaf_hash=leaf_hash,
            mmr_root=root,
            hub_ts=hub_ts,
            hub_sig=sig,
        )
        object.__setattr__(receipt, "_bytes", data)
        return receipt

    @classmethod
    def read_at(cls, data: bytes, pos: int) -> tuple[Self, int] | None:
        """The RECEIPT at an offset of a sequence, and the offset behind it; None when in doubt."""
        if pos + _SHORTEST > len(data):
            return None
        end = pos + _SHORTEST + _SEQ_WIDTHS.get(data[pos + 36], 0)
        receipt = cls._decode_by_position(data[pos:end])
        return None if receipt is None else (receipt, end)

    @classmethod
    def _decode_by_field(cls, data: bytes) -> Self:
        """The rule: read each item strictly; every refusal names its byte."""
        reader = cbor.Reader(data).array(7)
        reader.uint(exactly=VERSION)
        receipt = cls(
            label=Label(reader.bstr(32)),
            stream_seq=StreamSeq(reader.uint()),
            leaf_hash=LeafHash(reader.bstr(32)),
            mmr_root=MmrRoot(reader.bstr(32)),
            hub_ts=UnixSeconds(reader.uint()),
            hub_sig=Signature(reader.bstr(64)),
        )
        reader.end()
        if receipt.stream_seq == 0:
            raise WireError("stream_seq is 0; sequences start at 1")
        return receipt

    def encode(self) -> bytes:
        """Canonical CBOR: the bytes that were received, where they were."""
        if self._bytes is not None:
            return self._bytes
        return _ALL_FIELDS + self._signed_items() + _BSTR64 + self.hub_sig

    def _signed_items(self) -> bytes:
        return _items(self.label, self.stream_seq, self.leaf_hash, self.mmr_root, self.hub_ts)

    def signing_hash(self) -> bytes:
        """Ht("veen/sig", CBOR(first six))."""
        if self._bytes is not None:
            return hashing.SIG(_SIGNED_FIELDS, self._bytes[1:-_SIG_ITEM_BYTES])
        return hashing.SIG(_SIGNED_FIELDS, self._signed_items())

    def verify(self, hub_pk: PublicKey) -> None:
        """Raise E.SIG unless hub_pk signed exactly these bytes."""
        signing.verify(hub_pk, self.hub_sig, self.signing_hash())

    @staticmethod
    def sign(  # noqa: PLR0917  the fields in wire order
        key: SigningKey,
        label: Label,
        stream_seq: StreamSeq,
        leaf_hash: LeafHash,
        mmr_root: MmrRoot,
        hub_ts: UnixSeconds,
    ) -> Receipt:
        """A RECEIPT of this hub key."""
        items = _items(label, stream_seq, leaf_hash, mmr_root, hub_ts)
        return Receipt(
            label=label,
            stream_seq=stream_seq,
            leaf_hash=leaf_hash,
            mmr_root=mmr_root,
            hub_ts=hub_ts,
            hub_sig=key.sign(hashing.SIG(_SIGNED_FIELDS, items)),
        )

    @staticmethod
    def encode_signed(  # noqa: PLR0917  the fields in wire order
        key: SigningKey,
        label: Label,
        stream_seq: StreamSeq,
        leaf_hash: LeafHash,
        mmr_root: MmrRoot,
        hub_ts: UnixSeconds,
    ) -> bytes:
        """`Receipt.sign(...).encode()` for the writer, which needs only the bytes."""
        items = _items(label, stream_seq, leaf_hash, mmr_root, hub_ts)
        return _ALL_FIELDS + items + _BSTR64 + key.sign(hashing.SIG(_SIGNED_FIELDS, items))


def stream_seq_of(receipt: bytes) -> int:
    """The stream_seq of a RECEIPT that is known to be one, without the rest."""
    first = receipt[_SEQ_AT]
    if first < 24:
        return first
    return int.from_bytes(receipt[_SEQ_AT + 1 : _SEQ_AT + 1 + (1 << first - 24)], "big")


def _items(
    label: Label, stream_seq: int, leaf_hash: LeafHash, mmr_root: MmrRoot, hub_ts: int
) -> bytes:
    """The six signed items without their array head."""
    assert len(label) == len(leaf_hash) == len(mmr_root) == 32
    assert stream_seq >= 1
    return b"".join((
        b"\x01\x58\x20", label, cbor.uint(stream_seq), _BSTR32, leaf_hash, _BSTR32, mmr_root,
        cbor.uint(hub_ts),
    ))  # fmt: skip
