"""Which keys a pinned hub key vouches for, and how far each one counts [KEX0.1].

Nothing is trusted on first use. From the pinned key the chain follows rotation records forwards;
backwards it finds the superseded keys that signed older receipts. Those count only where the leaf
is included under a statement of the key's end: the manifest that its rotation record names, or the
head that a fork record names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hub.crypto import signing
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import HubId, Label, ManifestId, MmrRoot, PublicKey
from hub.verify_report import predecessors
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord, decode_record, follow, hub_id_of


class Signed(Protocol):
    """A RECEIPT or a CHECKPOINT."""

    def verify(self, hub_pk: PublicKey) -> None:
        """Raise E.SIG unless hub_pk signed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """A signed end of one label: leaves up to `size` are those under `root`."""

    size: int
    root: MmrRoot


class KeyChain:
    """The keys of one log, oldest first, as far as the pinned one vouches for them."""

    def __init__(
        self,
        pinned: PublicKey,
        *,
        fetch_rotations: Callable[[], Sequence[bytes]],
        fetch_manifest: Callable[[ManifestId], bytes],
        hub_id: HubId | None = None,
    ) -> None:
        if len(pinned) != 32:
            raise VeenError(ErrorCode.TRUST, "a hub key has 32 bytes")
        self.pinned = pinned
        self._expected_hub_id = hub_id
        self._fetch_rotations = fetch_rotations
        self._fetch_manifest = fetch_manifest
        self._keys = [pinned]
        self._ends: dict[PublicKey, ManifestId] = {}
        self._fork: ForkRecord | None = None
        self._manifests: dict[ManifestId, Manifest] = {}
        self._parents: set[PublicKey] = set()
        self._fresh = False

    @property
    def current(self) -> PublicKey:
        """The newest key known, which signs new receipts."""
        return self._keys[-1]

    @property
    def hub_id(self) -> HubId:
        """The log's name, that of its first key."""
        return self._expected_hub_id or hub_id_of(self._keys[0])

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """All keys of the log, oldest first."""
        return tuple(self._keys)

    def trust_parent(self, keys: Sequence[PublicKey]) -> None:
        """Keys of the log this one was forked from; they count up to the fork's heads only."""
        self._parents.update(keys)

    def refresh(self) -> None:
        """Fetch the records again and follow them; raises when they contradict each other."""
        records = [decode_record(data) for data in self._fetch_rotations()]
        rotations = [one for one in records if isinstance(one, RotationRecord)]
        before = predecessors(self.pinned, rotations)
        hub_id = self._log_name(before, rotations)
        after = follow(self.pinned, hub_id, rotations)
        keys = [*before, *after]
        for record in rotations:
            if record.new_pk in keys and record.hub_id != hub_id:
                raise ProofError("a rotation record names another hub_id", ErrorCode.TRUST)
        ends = {one.old_pk: one.manifest_id for one in rotations if one.old_pk in keys[:-1]}
        for fork in records:
            if isinstance(fork, ForkRecord) and fork.new_pk == keys[0]:
                fork.verify()
                self._fork = fork
        self._keys, self._ends = keys, ends
        self._fresh = True

    def _log_name(self, before: list[PublicKey], rotations: Sequence[RotationRecord]) -> HubId:
        if self._expected_hub_id is not None:
            return self._expected_hub_id
        # The name in a record that the pinned key signed is as good as the pinned key.
        for record in rotations:
            if self.pinned in (record.old_pk, record.new_pk):
                return record.hub_id
        return hub_id_of(before[0] if before else self.pinned)

    def signer(self, signed: Signed) -> PublicKey:
        """The key that signed this, or V.TRUST when no key of the log did."""
        # Without a look at the records a key that was handed over long ago would count as current.
        found = self._find(signed) if self._fresh else None
        if found is None:
            self.refresh()
            found = self._find(signed)
        if found is None:
            detail = "signed by no key that the pinned hub key vouches for"
            raise ProofError(detail, ErrorCode.TRUST)
        return found

    def signed_by_current(self, receipts: Sequence[Receipt]) -> PublicKey | None:
        """The newest key if it signed them all; None when each is to be judged by itself."""
        if not self._fresh:
            return None
        key = self.current
        signed = [(key, one.hub_sig, one.signing_hash()) for one in receipts]
        return key if signing.are_valid(signed) else None

    def _find(self, signed: Signed) -> PublicKey | None:
        for key in (*reversed(self._keys), *self._parents):
            try:
                signed.verify(key)
            except VeenError as refusal:
                if refusal.code is not ErrorCode.SIG:
                    raise
                continue
            return key
        return None

    def is_current(self, key: PublicKey) -> bool:
        """Whether this key may sign without an end that covers what it signed."""
        return key == self.current

    def covers(self, label: Label) -> list[Cover]:
        """The ends of superseded keys for one label, by rising size."""
        found = []
        if self._fork is not None:
            found += [
                Cover(size=head.stream_seq, root=head.root)
                for head in self._fork.heads
                if head.label == label
            ]
        for key in self._keys[:-1]:
            checkpoint = self.last_manifest(key).checkpoint(label)
            if checkpoint is not None:
                found.append(Cover(size=checkpoint.upto_seq, root=checkpoint.mmr_root))
        return sorted(found, key=lambda cover: cover.size)

    def cover(self, label: Label, stream_seq: int) -> Cover | None:
        """The first end that covers a sequence; None when only the current key may speak of it."""
        for cover in self.covers(label):
            if cover.size >= stream_seq:
                return cover
        return None

    def last_manifest(self, key: PublicKey) -> Manifest:
        """The manifest that ended a superseded key, verified under that key."""
        manifest_id = self._ends[key]
        if manifest_id not in self._manifests:
            manifest = Manifest.decode(self._fetch_manifest(manifest_id))
            if manifest.id != manifest_id:
                detail = "the manifest is not the one that the rotation record names"
                raise ProofError(detail, ErrorCode.TRUST)
            manifest.verify(key)
            self._manifests[manifest_id] = manifest
        return self._manifests[manifest_id]
