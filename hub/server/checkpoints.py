"""CHECKPOINTs of every label under one signed manifest, on schedule and on demand [SDR0 3.2.4]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hub import mmr
from hub.crypto.signing import SigningKey, verify
from hub.storage import manifests
from hub.storage.store import Store
from hub.types import Label, ManifestId, PublicKey, StreamSeq, UnixSeconds
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import NO_MANIFEST, Manifest
from hub.wire.profile import PRODUCT


@dataclass(slots=True)
class Checkpointer:
    """Makes manifests and knows what is new since the last one."""

    store: Store
    is_housekeeping: Callable[[Label], bool]
    latest: ManifestId | None = None
    created_at: int = 0
    _covered: dict[Label, tuple[int, bytes]] = field(default_factory=dict)  # size, CHECKPOINT
    _due_since: int | None = None
    _signed_by: PublicKey | None = None  # every CHECKPOINT of _covered
    _is_latest_unknown: bool = False  # a write failed, and may have moved the pointer all the same
    _unkept: list[Checkpoint] = field(default_factory=list)  # in a manifest, not by label yet

    def load(self) -> None:
        """Take up the chain where the directory left it."""
        self.latest = manifests.latest_id(self.store.layout)
        self._is_latest_unknown = False
        if self.latest is None:
            return
        data = manifests.read(self.store.layout, self.latest)
        assert data is not None
        manifest = Manifest.decode(data)
        self.created_at = manifest.created_at
        self._signed_by = manifest.hub_pk
        for checkpoint in manifest.checkpoints:
            self._covered[checkpoint.label_curr] = (checkpoint.upto_seq, checkpoint.encode())

    def mend(self) -> None:
        """Index what the newest manifest says and a stop kept from its labels."""
        files = self.store.files
        for label, (upto_seq, wire) in self._covered.items():
            if label not in self.store.state.labels:
                continue
            count = files.checkpoint_count(label)
            if count == 0 or files.checkpoint(label, count - 1)[1] != wire:
                files.append_checkpoint(label, upto_seq, wire)

    def new_messages(self) -> int:
        """Messages no manifest covers yet."""
        labels = self.store.state.labels.values()
        return sum(state.size - self._size(state.label) for state in labels)

    def _size(self, label: Label) -> int:
        covered = self._covered.get(label)
        return covered[0] if covered else 0

    def is_due(self, now: int, interval_s: int, messages: int) -> bool:
        """By volume, or by time when something other than housekeeping is new."""
        new = self.new_messages()
        if new >= messages:
            return True
        if new == 0 or now - self.created_at < interval_s:
            return False
        return any(
            state.size > self._size(state.label)
            for state in self.store.state.labels.values()
            if not self.is_housekeeping(state.label)
        )

    def late_s(self, now: int, interval_s: int, messages: int) -> int | None:
        """Seconds since it was first seen that a checkpoint is due; None when none is.

        An idle hub has no lateness: what counts is how long the news has waited, not how old the
        last manifest is.
        """
        if not self.is_due(now, interval_s, messages):
            self._due_since = None
            return None
        self._due_since = min(now, self._due_since or now)
        return now - self._due_since

    def make(self, key: SigningKey, now: int, witnesses: Sequence[SigningKey] = ()) -> Manifest:
        """Sign a manifest over every label, verify it, store it."""
        self._keep_all()
        if self._is_latest_unknown:
            self.load()
            self.mend()
        checkpoints = [
            self._checkpoint(key, label, witnesses)
            for label in sorted(self.store.state.labels)
            if self.store.state.labels[label].size
        ]
        manifest = Manifest.sign(
            key,
            profile_id=PRODUCT.id,
            created_at=UnixSeconds(max(now, self.created_at)),
            previous=self.latest or NO_MANIFEST,
            checkpoints=checkpoints,
        )
        data = manifest.encode()
        self._check(Manifest.decode(data), key)
        self._is_latest_unknown = True
        self.latest = manifests.write(self.store.layout, self.store.disk, data)
        self._is_latest_unknown = False
        self.created_at = manifest.created_at
        self._unkept.extend(checkpoints)
        self._keep_all()
        self._signed_by = key.public
        return manifest

    def _check(self, manifest: Manifest, key: SigningKey) -> None:
        """What a client would check, before it leaves; unchanged labels were checked before."""
        verify(key.public, manifest.sig, manifest.signing_hash())
        for checkpoint in manifest.checkpoints:
            if not self._is_reusable(checkpoint.label_curr, key):
                checkpoint.verify(key.public)

    def _is_reusable(self, label: Label, key: SigningKey) -> bool:
        """An idle label would be signed to the same bytes again: Ed25519 has no dice."""
        return (
            self._signed_by == key.public
            and self._size(label) == self.store.state.labels[label].size
        )

    def _keep_all(self) -> None:
        """What a full disk refused is tried again before the next manifest."""
        while self._unkept:
            self._keep(self._unkept[0])
            self._unkept.pop(0)

    def _checkpoint(
        self, key: SigningKey, label: Label, witnesses: Sequence[SigningKey]
    ) -> Checkpoint:
        state = self.store.state.labels[label]
        if not witnesses and self._is_reusable(label, key):
            return replace(Checkpoint.decode(self._covered[label][1]), witness_sigs=())
        return Checkpoint.sign(
            key,
            label_prev=state.label_prev or label,
            label_curr=label,
            upto_seq=StreamSeq(state.size),
            mmr_root=mmr.root(state.peaks),
            epoch=state.epoch,
            witnesses=witnesses,
        )

    def _keep(self, checkpoint: Checkpoint) -> None:
        """Index a CHECKPOINT by its label, unless it says what the last one said."""
        wire = checkpoint.encode()
        label = checkpoint.label_curr
        if self._covered.get(label) == (checkpoint.upto_seq, wire):
            return
        self.store.files.append_checkpoint(label, checkpoint.upto_seq, wire)
        self._covered[label] = (checkpoint.upto_seq, wire)
