"""CHECKPOINT: the hub's signed statement of a whole log prefix [SSOT 4.4]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from hub.crypto import hashing, signing
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, WireError
from hub.types import Label, MmrRoot, PublicKey, Signature, StreamSeq
from hub.wire import cbor

VERSION: Final = 1
WITNESSES_MAX: Final = 64
_SIGNED_FIELDS: Final = 6
_FIELDS: Final = 7  # and an eighth only where there are witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Field order is wire order: never reorder, never insert."""

    label_prev: Label
    label_curr: Label
    upto_seq: StreamSeq
    mmr_root: MmrRoot
    epoch: int
    hub_sig: Signature
    witness_sigs: tuple[Signature, ...] = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a CHECKPOINT or raise E.FORMAT, so a Checkpoint that exists is well formed."""
        reader = cbor.Reader(data)
        checkpoint = cls.read(reader)
        reader.end()
        return checkpoint

    @classmethod
    def read(cls, reader: cbor.Reader) -> Self:
        """Read a CHECKPOINT where it stands inside another object."""
        length = reader.array_length(minimum=_FIELDS, maximum=_FIELDS + 1)
        reader.uint(exactly=VERSION)
        checkpoint = cls(
            label_prev=Label(reader.bstr(32)),
            label_curr=Label(reader.bstr(32)),
            upto_seq=StreamSeq(reader.uint()),
            mmr_root=MmrRoot(reader.bstr(32)),
            epoch=reader.uint(),
            hub_sig=Signature(reader.bstr(64)),
            witness_sigs=_read_witnesses(reader) if length > _FIELDS else (),
        )
        if checkpoint.upto_seq == 0:
            raise WireError("upto_seq is 0; an empty log has no root")
        return checkpoint

    def encode(self) -> bytes:
        """Canonical CBOR: seven items, or eight with witnesses."""
        head = cbor.head(cbor.ARRAY, _FIELDS + bool(self.witness_sigs))
        encoded = head + self._signed_items() + cbor.bstr(self.hub_sig)
        return encoded + cbor.encode(self.witness_sigs) if self.witness_sigs else encoded

    def _signed_items(self) -> bytes:
        return _items(self.label_prev, self.label_curr, self.upto_seq, self.mmr_root, self.epoch)

    def signing_hash(self) -> bytes:
        """Ht("veen/sig", CBOR(first six)): what hub and witnesses sign."""
        return _signing_hash(self._signed_items())

    def verify(self, hub_pk: PublicKey) -> None:
        """Raise E.SIG unless hub_pk signed exactly these bytes; says nothing of witnesses."""
        signing.verify(hub_pk, self.hub_sig, self.signing_hash())

    def verify_witnesses(self, pks: Sequence[PublicKey]) -> None:
        """Raise E.SIG unless the witnesses are exactly these keys, in this order.

        A witness signature proves no rotation by itself: it is over the same digest as any other.
        """
        if len(pks) != len(self.witness_sigs):
            detail = f"{len(self.witness_sigs)} witness signatures for {len(pks)} keys"
            raise WireError(detail, ErrorCode.SIG)
        digest = self.signing_hash()
        for public_key, signature in zip(pks, self.witness_sigs, strict=True):
            signing.verify(public_key, signature, digest)

    @staticmethod
    def sign(
        key: SigningKey,
        *,
        label_prev: Label,
        label_curr: Label,
        upto_seq: StreamSeq,
        mmr_root: MmrRoot,
        epoch: int = 0,
        witnesses: Sequence[SigningKey] = (),
    ) -> Checkpoint:
        """A CHECKPOINT of this hub key, witnessed by the keys given."""
        digest = _signing_hash(_items(label_prev, label_curr, upto_seq, mmr_root, epoch))
        return Checkpoint(
            label_prev=label_prev,
            label_curr=label_curr,
            upto_seq=upto_seq,
            mmr_root=mmr_root,
            epoch=epoch,
            hub_sig=key.sign(digest),
            witness_sigs=tuple(witness.sign(digest) for witness in witnesses),
        )


def _read_witnesses(reader: cbor.Reader) -> tuple[Signature, ...]:
    # An empty list would be a second spelling of "no witnesses", which is seven items.
    count = reader.array_length(minimum=1, maximum=WITNESSES_MAX)
    return tuple(Signature(reader.bstr(64)) for _ in range(count))


def _items(
    label_prev: Label, label_curr: Label, upto_seq: int, mmr_root: MmrRoot, epoch: int
) -> bytes:
    """The six signed items without their array head."""
    assert len(label_prev) == len(label_curr) == len(mmr_root) == 32
    assert upto_seq >= 1
    items: tuple[cbor.Value, ...] = (
        VERSION, label_prev, label_curr, upto_seq, mmr_root, epoch,
    )  # fmt: skip
    return b"".join(map(cbor.encode, items))


def _signing_hash(items: bytes) -> bytes:
    return hashing.SIG(cbor.head(cbor.ARRAY, _SIGNED_FIELDS), items)
