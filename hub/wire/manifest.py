"""The checkpoint manifest: every label's CHECKPOINT under one signature and one id [SDR0 3.2.4].

Bytes: array[7] of ver, hub_pk, profile_id, created_at, previous manifest_id or 32 zero bytes,
[CHECKPOINTs sorted by label_curr], sig over Ht("veen/manifest", CBOR of the first six as an array).
Labels without leaves are left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

from hub.crypto import signing
from hub.crypto.hashing import MANIFEST, MANIFEST_ID
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, WireError
from hub.types import ZERO32, Label, ManifestId, ProfileId, PublicKey, Signature, UnixSeconds
from hub.wire import cbor
from hub.wire.checkpoint import Checkpoint

VER: Final = 1
NO_MANIFEST: Final = ManifestId(ZERO32)
CHECKPOINTS_MAX: Final = 2**32  # the bytes that remain bound it long before


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Field order is wire order: never reorder, never insert."""

    hub_pk: PublicKey
    profile_id: ProfileId
    created_at: UnixSeconds
    previous: ManifestId
    checkpoints: tuple[Checkpoint, ...]
    sig: Signature

    def __post_init__(self) -> None:
        names = [checkpoint.label_curr for checkpoint in self.checkpoints]
        if any(before >= after for before, after in pairwise(names)):
            raise WireError("checkpoints are not sorted by label_curr, each label once")

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a manifest or raise E.FORMAT."""
        reader = cbor.Reader(data).array(7)
        reader.uint(exactly=VER)
        hub_pk = PublicKey(reader.bstr(32))
        profile_id = ProfileId(reader.bstr(32))
        created_at = UnixSeconds(reader.uint())
        previous = ManifestId(reader.bstr(32))
        length = reader.array_length(maximum=CHECKPOINTS_MAX)
        checkpoints = tuple([Checkpoint.read(reader) for _ in range(length)])
        sig = Signature(reader.bstr(64))
        reader.end()
        return cls(
            hub_pk=hub_pk,
            profile_id=profile_id,
            created_at=created_at,
            previous=previous,
            checkpoints=checkpoints,
            sig=sig,
        )

    def _signed_items(self) -> bytes:
        return b"".join(
            (
                cbor.uint(VER),
                cbor.bstr(self.hub_pk),
                cbor.bstr(self.profile_id),
                cbor.uint(self.created_at),
                cbor.bstr(self.previous),
                cbor.head(cbor.ARRAY, len(self.checkpoints)),
                *[checkpoint.encode() for checkpoint in self.checkpoints],
            )
        )

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"\x87" + self._signed_items() + cbor.bstr(self.sig)

    def signing_hash(self) -> bytes:
        """What the hub signs."""
        return MANIFEST(b"\x86", self._signed_items())

    @property
    def id(self) -> ManifestId:
        """What gets anchored, witnessed and named by a rotation record."""
        return ManifestId(MANIFEST_ID(self.encode()))

    def verify(self, hub_pk: PublicKey) -> None:
        """Raise unless this pinned key signed the manifest and every CHECKPOINT in it."""
        if self.hub_pk != hub_pk:
            raise ProofError("the manifest is of another hub key", ErrorCode.TRUST)
        signing.verify(hub_pk, self.sig, self.signing_hash())
        for checkpoint in self.checkpoints:
            checkpoint.verify(hub_pk)

    def checkpoint(self, label: Label) -> Checkpoint | None:
        """The CHECKPOINT of a label, found without a scan; None when the label has no leaves."""
        place = bisect_left(self.checkpoints, label, key=lambda item: item.label_curr)
        if place == len(self.checkpoints) or self.checkpoints[place].label_curr != label:
            return None
        return self.checkpoints[place]

    @classmethod
    def sign(
        cls,
        key: SigningKey,
        *,
        profile_id: ProfileId,
        created_at: UnixSeconds,
        checkpoints: Iterable[Checkpoint],
        previous: ManifestId = NO_MANIFEST,
    ) -> Self:
        """A manifest by the hub's key; the CHECKPOINTs are brought into wire order."""
        manifest = cls(
            hub_pk=key.public,
            profile_id=profile_id,
            created_at=created_at,
            previous=previous,
            checkpoints=tuple(sorted(checkpoints, key=lambda item: item.label_curr)),
            sig=Signature(b""),
        )
        return replace(manifest, sig=key.sign(manifest.signing_hash()))
