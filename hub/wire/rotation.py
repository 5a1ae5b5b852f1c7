"""Rotation and fork records: how a log gets a new key, and how trust follows it [KEX0.1].

Rotation: array[8] of ver, hub_id, old_pk, new_pk, ts, manifest_id of the last manifest signed by
old_pk, then signatures by old_pk and by new_pk over Ht("veen/hub-rotate", CBOR of the first six).
Fork: array[7] of ver, hub_id, parent hub_id, new_pk, ts, [[label, seq, root] sorted by label], and
a signature by new_pk over Ht("veen/hub-fork", CBOR of the first six).
CHECKPOINTs with two witness signatures prove no rotation: only a record signed by both keys does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, Self

from hub.crypto import signing
from hub.crypto.hashing import HUB_FORK, HUB_ID, HUB_ROTATE
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, WireError
from hub.types import (
    HubId,
    Label,
    ManifestId,
    MmrRoot,
    PublicKey,
    Signature,
    StreamSeq,
    UnixSeconds,
)
from hub.wire import cbor

VER: Final = 1
ROTATION_FIELDS: Final = 8
FORK_FIELDS: Final = 7
HEADS_MAX: Final = 2**32  # the bytes that remain bound it long before
_UNSIGNED: Final = Signature(b"")


def hub_id_of(first_pk: bytes) -> HubId:
    """The name of a log: it stays when the key rotates."""
    return HubId(HUB_ID(first_pk))


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationRecord:
    """Field order is wire order: never reorder, never insert."""

    hub_id: HubId
    old_pk: PublicKey
    new_pk: PublicKey
    ts: UnixSeconds
    manifest_id: ManifestId
    old_sig: Signature
    new_sig: Signature

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a rotation record or raise E.FORMAT."""
        reader = cbor.Reader(data).array(ROTATION_FIELDS)
        reader.uint(exactly=VER)
        record = cls(
            hub_id=HubId(reader.bstr(32)),
            old_pk=PublicKey(reader.bstr(32)),
            new_pk=PublicKey(reader.bstr(32)),
            ts=UnixSeconds(reader.uint()),
            manifest_id=ManifestId(reader.bstr(32)),
            old_sig=Signature(reader.bstr(64)),
            new_sig=Signature(reader.bstr(64)),
        )
        reader.end()
        return record

    def _signed_items(self) -> bytes:
        items: list[cbor.Value] = [
            VER,
            self.hub_id,
            self.old_pk,
            self.new_pk,
            self.ts,
            self.manifest_id,
        ]
        return cbor.encode(items)[1:]

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"\x88" + self._signed_items() + cbor.bstr(self.old_sig) + cbor.bstr(self.new_sig)

    def signing_hash(self) -> bytes:
        """What both keys sign."""
        return HUB_ROTATE(b"\x86", self._signed_items())

    def verify(self) -> None:
        """Raise unless both keys signed; whether the old one is trusted is for `follow`."""
        if self.old_pk == self.new_pk:
            raise ProofError("a rotation to the same key is none", ErrorCode.TRUST)
        digest = self.signing_hash()
        signing.verify(self.old_pk, self.old_sig, digest)
        signing.verify(self.new_pk, self.new_sig, digest)

    @classmethod
    def sign(
        cls,
        old_key: SigningKey,
        new_key: SigningKey,
        *,
        hub_id: HubId,
        ts: UnixSeconds,
        manifest_id: ManifestId,
    ) -> Self:
        """The record by which old_key hands the log over to new_key."""
        record = cls(
            hub_id=hub_id,
            old_pk=old_key.public,
            new_pk=new_key.public,
            ts=ts,
            manifest_id=manifest_id,
            old_sig=_UNSIGNED,
            new_sig=_UNSIGNED,
        )
        digest = record.signing_hash()
        return replace(record, old_sig=old_key.sign(digest), new_sig=new_key.sign(digest))


class ForkHead(NamedTuple):
    """Where a label of the parent stood when the fork left it."""

    label: Label
    stream_seq: StreamSeq
    root: MmrRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRecord:
    """Receipts up to the heads named here verify under the parent, later ones under new_pk."""

    hub_id: HubId
    parent_hub_id: HubId
    new_pk: PublicKey
    ts: UnixSeconds
    heads: tuple[ForkHead, ...]
    sig: Signature

    def __post_init__(self) -> None:
        names = [head.label for head in self.heads]
        if any(before >= after for before, after in pairwise(names)):
            raise WireError("heads are not sorted by label, each label once")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a fork record or raise E.FORMAT."""
        reader = cbor.Reader(data).array(FORK_FIELDS)
        reader.uint(exactly=VER)
        record = cls(
            hub_id=HubId(reader.bstr(32)),
            parent_hub_id=HubId(reader.bstr(32)),
            new_pk=PublicKey(reader.bstr(32)),
            ts=UnixSeconds(reader.uint()),
            heads=tuple(
                [_read_head(reader) for _ in range(reader.array_length(maximum=HEADS_MAX))]
            ),
            sig=Signature(reader.bstr(64)),
        )
        reader.end()
        return record

    def _signed_items(self) -> bytes:
        items: list[cbor.Value] = [
            VER,
            self.hub_id,
            self.parent_hub_id,
            self.new_pk,
            self.ts,
            self.heads,
        ]
        return cbor.encode(items)[1:]

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"\x87" + self._signed_items() + cbor.bstr(self.sig)

    def signing_hash(self) -> bytes:
        """What the fork's first key signs."""
        return HUB_FORK(b"\x86", self._signed_items())

    def verify(self) -> None:
        """Raise unless new_pk signed and hub_id is that of new_pk, the fork's own first key."""
        if self.hub_id != hub_id_of(self.new_pk):
            raise ProofError("a fork's hub_id is that of its own first key", ErrorCode.TRUST)
        if self.hub_id == self.parent_hub_id:
            raise ProofError("a fork is not its own parent", ErrorCode.TRUST)
        signing.verify(self.new_pk, self.sig, self.signing_hash())

    @classmethod
    def sign(
        cls,
        new_key: SigningKey,
        *,
        parent_hub_id: HubId,
        ts: UnixSeconds,
        heads: Iterable[tuple[Label, StreamSeq, MmrRoot]],
    ) -> Self:
        """The record of a new log that goes on from these heads of its parent."""
        record = cls(
            hub_id=hub_id_of(new_key.public),
            parent_hub_id=parent_hub_id,
            new_pk=new_key.public,
            ts=ts,
            heads=tuple(sorted(ForkHead(*head) for head in heads)),
            sig=_UNSIGNED,
        )
        return replace(record, sig=new_key.sign(record.signing_hash()))


def _read_head(reader: cbor.Reader) -> ForkHead:
    reader.array(3)
    label = Label(reader.bstr(32))
    stream_seq = StreamSeq(reader.uint())
    if stream_seq == 0:
        raise WireError("a head of sequence 0; labels without leaves are left out")
    return ForkHead(label, stream_seq, MmrRoot(reader.bstr(32)))


def decode_record(data: bytes) -> RotationRecord | ForkRecord:
    """One item of /rotations: eight fields are a rotation, seven a fork."""
    fields = cbor.Reader(data).array_length(minimum=FORK_FIELDS, maximum=ROTATION_FIELDS)
    return RotationRecord.decode(data) if fields == ROTATION_FIELDS else ForkRecord.decode(data)


def follow(
    pinned_pk: PublicKey,
    hub_id: HubId,
    records: Sequence[RotationRecord],
    *,
    revoked: Collection[bytes] = (),
) -> list[PublicKey]:
    """The keys of the log from the pinned one on, oldest first, as far as the records lead.

    Each step needs the same hub_id, both signatures and an old key that is not revoked. Two
    different records of one old_pk are equivocation. Records off this path are not judged.
    """
    keys = [pinned_pk]
    while True:
        offered = list(dict.fromkeys(item for item in records if item.old_pk == keys[-1]))
        if not offered:
            return keys
        for record in offered:
            if record.hub_id != hub_id:
                raise ProofError("a rotation record names another hub_id", ErrorCode.TRUST)
            record.verify()
        if len(offered) > 1:
            raise ProofError("one key handed the log over twice", ErrorCode.EQUIVOCATION)
        if keys[-1] in revoked:
            raise ProofError("a revoked key hands nothing over", ErrorCode.TRUST)
        if offered[0].new_pk in keys:
            raise ProofError("a rotation leads back to an earlier key", ErrorCode.TRUST)
        keys.append(offered[0].new_pk)
