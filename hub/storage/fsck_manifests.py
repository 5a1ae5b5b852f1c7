"""The chain of manifests and the CHECKPOINT files made from it, for fsck [SDR0 3.2.4]."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from hub.crypto import signing
from hub.errors import ErrorCode, VeenError
from hub.storage import frames, manifests
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.fsck_indexes import Indexes
from hub.storage.fsck_notes import Claim, Notes, Signatures
from hub.storage.history import History
from hub.storage.labels import CHECKPOINT_BYTES, LabelFiles
from hub.storage.layout import Layout
from hub.storage.state import LabelState
from hub.types import Label, ManifestId, PublicKey
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest


def read_strictly(path: Path, manifest_id: ManifestId) -> Manifest:
    """A manifest file that holds one frame, that manifest, and nothing else."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as missing:
        raise Damage(str(path), 0, "manifest is missing") from missing
    found = frames.read_frame(data, 0, str(path))
    if found.end != len(data):
        raise Damage(str(path), found.end, "bytes behind the manifest")
    manifest = Manifest.decode(found.payload)
    if manifest.id != manifest_id:
        raise Damage(str(path), 0, "not the manifest of that name")
    return manifest


@dataclass(slots=True)
class ManifestWalk:
    """Follows `previous` from the newest manifest to the first."""

    layout: Layout
    notes: Notes
    history: History
    indexes: Indexes
    signatures: Signatures
    labels: Mapping[Label, LabelState]
    seen: set[ManifestId] = field(default_factory=set)
    _sizes: dict[Label, int] = field(default_factory=dict)  # of the next newer manifest

    def run(self) -> None:
        """Check the chain, the CHECKPOINT files beside it, and what no pointer reaches."""
        latest = self.layout.manifests / manifests.LATEST
        checkpoints = CheckpointFiles(self.layout, self.notes, self.indexes.checkpoints)
        created_at: int | None = None
        era = len(self.history.keys) - 1
        try:
            for manifest in self._chain():
                path = manifests.path_of(self.layout, manifest.id)
                era = self._check_era(manifest, path, era)
                if created_at is not None and manifest.created_at > created_at:
                    self.notes.flaw(path, 0, "manifest is younger than the one after it")
                created_at = manifest.created_at
                self._check_checkpoints(manifest, path)
                checkpoints.compare(manifest)
            if self.indexes.is_latest_known:
                checkpoints.finish()
        except VeenError as flaw:
            self.notes.refusal(latest, flaw)
        finally:
            checkpoints.close()
        self._check_unreferenced()

    def _chain(self) -> Iterator[Manifest]:
        wanted = self.indexes.latest
        while wanted is not None and any(wanted):
            if wanted in self.seen:
                reason = "manifests form a ring"
                raise Damage(str(manifests.path_of(self.layout, wanted)), 0, reason)
            self.seen.add(wanted)
            manifest = read_strictly(manifests.path_of(self.layout, wanted), wanted)
            self.notes.did("manifest")
            yield manifest
            wanted = manifest.previous

    def _check_era(self, manifest: Manifest, path: Path, era: int) -> int:
        """Keys only go back as the chain goes back; returns the number of this one's key."""
        self._claim(path, "manifest", manifest.hub_pk, manifest.sig, manifest.signing_hash())
        while era >= 0 and self.history.keys[era] != manifest.hub_pk:
            era -= 1
        if era < 0:
            self.notes.flaw(path, 0, "manifest is by no key of this log", ErrorCode.TRUST)
            return len(self.history.keys) - 1
        return era

    def _check_checkpoints(self, manifest: Manifest, path: Path) -> None:
        sizes: dict[Label, int] = {}
        for item in manifest.checkpoints:
            label = item.label_curr
            sizes[label] = item.upto_seq
            self._claim(path, "CHECKPOINT", manifest.hub_pk, item.hub_sig, item.signing_hash())
            self._check_witnesses(item, path)
            self._check_root(item, path)
        if any(self._sizes.get(label, 0) < size for label, size in sizes.items() if self._sizes):
            self.notes.flaw(path, 0, "manifest covers more than the one after it")
        self._sizes = sizes

    def _check_root(self, item: Checkpoint, path: Path) -> None:
        state = self.labels.get(item.label_curr)
        name = item.label_curr.hex()[:16]
        if state is None or state.size < item.upto_seq:
            reason = f"label {name}: {item.upto_seq} entries were signed, the log has fewer"
            self.notes.flaw(path, 0, reason, ErrorCode.BEHIND)
            return
        root = self.indexes.root_at(state, item.upto_seq)
        self.notes.did("CHECKPOINT root" if root else "CHECKPOINT root not recomputed")
        if root not in (item.mmr_root, None):
            self.notes.flaw(path, 0, f"label {name} has another root at {item.upto_seq}")

    def _check_witnesses(self, item: Checkpoint, path: Path) -> None:
        if not item.witness_sigs:
            return
        self.notes.did("witness signatures")
        for pair in pairwise(self.history.keys):
            try:
                item.verify_witnesses(pair)
            except VeenError:
                continue
            return
        # A stop between the manifest and the record leaves a next key that never came to be.
        if not _is_witness(self.history.keys, item):
            self.notes.flaw(path, 0, "witness is no key of this log", ErrorCode.TRUST)

    def _claim(self, path: Path, what: str, key: bytes, sig: bytes, digest: bytes) -> None:
        self.signatures.add(Claim(path, 0, what, (key,), sig, digest))

    def _check_unreferenced(self) -> None:
        """A stop before the pointer moved leaves a manifest that never left; others are flaws."""
        for folder, _, names in os.walk(self.layout.manifests):
            for name in names:
                path = Path(folder) / name
                if name == manifests.LATEST or name.endswith(".tmp"):
                    continue
                try:
                    manifest_id = ManifestId(bytes.fromhex(name))
                except ValueError:
                    self.notes.flaw(path, 0, "file is no manifest")
                    continue
                if manifest_id not in self.seen:
                    self._check_one_unreferenced(path, manifest_id)

    def _check_one_unreferenced(self, path: Path, manifest_id: ManifestId) -> None:
        try:
            manifest = read_strictly(path, manifest_id)
            manifest.verify(manifest.hub_pk)
        except VeenError as flaw:
            self.notes.refusal(path, flaw)
        else:
            self.notes.did("unreferenced manifest")


def _is_witness(keys: list[PublicKey], item: Checkpoint) -> bool:
    for key in keys:
        try:
            signing.verify(key, item.witness_sigs[0], item.signing_hash())
        except VeenError:
            continue
        return True
    return False


class CheckpointFiles:
    """Each label's CHECKPOINT file against the chain, both read from the newest back."""

    def __init__(self, layout: Layout, notes: Notes, counts: Mapping[Label, int]) -> None:
        self._notes = notes
        self._files = LabelFiles(layout, Disk(), writable=False)
        self._left = dict(counts)  # records of each file not yet met
        self._met: dict[Label, bytes] = {}

    def compare(self, manifest: Manifest) -> None:
        """Every CHECKPOINT of a manifest is in its label's file, where it belongs."""
        for item in manifest.checkpoints:
            label, wire = item.label_curr, item.encode()
            if self._met.get(label) == wire:
                continue  # the label had nothing new since
            left = self._left.get(label, 0)
            if left and self._record(label, left - 1) == wire:
                self._left[label] = left - 1
                self._met[label] = wire
                self._notes.did("CHECKPOINT record")
            elif label in self._met:
                path = self._files.path(label, "checkpoints")
                reason = f"CHECKPOINT at {item.upto_seq} is missing"
                self._notes.flaw(path, left * CHECKPOINT_BYTES, reason)
                self._met[label] = wire

    def finish(self) -> None:
        """No file may have a CHECKPOINT that no manifest has."""
        for label, left in self._left.items():
            if left:
                path = self._files.path(label, "checkpoints")
                place = (left - 1) * CHECKPOINT_BYTES
                self._notes.flaw(path, place, "CHECKPOINT of no manifest")

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def _record(self, label: Label, number: int) -> bytes | None:
        try:
            return self._files.checkpoint(label, number)[1]
        except Damage:
            return None
