"""C3: the power goes at any moment; what was not synced may be lost or torn [assurance 1]."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode
from hub.server.core import HubCore, Submission
from hub.storage import attachments, manifests
from hub.storage.fsck import run_fsck
from hub.storage.prune import prune_label
from hub.storage.rebuild import run_rebuild
from hub.types import Hash, LeafHash
from hub.wire.manifest import Manifest
from hub.wire.rotation import RotationRecord
from tests.support.disks import PowerCutDisk, Stopped, copy_outside
from tests.support.hubs import Producer, abandon, label, open_core, overlapped, seed

SEGMENT_BYTES = 4_000


@dataclass
class Holdings:
    """What clients hold when the power goes: all of it was answered."""

    receipts: dict[LeafHash, bytes] = field(default_factory=dict)
    manifests: list[Manifest] = field(default_factory=list)
    rotations: list[RotationRecord] = field(default_factory=list)
    attachments: list[bytes] = field(default_factory=list)
    outbox: list[Submission] = field(default_factory=list)


class Story:
    """A random but seeded life on a disk that forgets."""

    def __init__(self, root: Path, disk: PowerCutDisk, rng: random.Random) -> None:
        self.root = root
        self.disk = disk
        self.rng = rng
        self.held = Holdings()
        self.producers = [Producer(f"p{number}", label(f"P{number}")) for number in range(4)]
        self.core: HubCore | None = None

    def run(self) -> None:
        steps: list[Callable[[HubCore], None]] = [self._submit] * 8
        steps += [self._overlap] * 6
        steps += [self._checkpoint, self._attach, self._prune, self._rotate, self._sync_heads]
        self.core = open_core(self.root, self.disk, segment_bytes=SEGMENT_BYTES)
        for _ in range(30):
            self.rng.choice(steps)(self.core)
        self.core.close()
        self.core = open_core(self.root, self.disk, segment_bytes=SEGMENT_BYTES)
        for _ in range(10):
            self.rng.choice(steps)(self.core)
        self.core.close()
        self.core = None

    def _submit(self, core: HubCore) -> None:
        size = self.rng.choice((40, 300, 1200))
        batch = [self.rng.choice(self.producers).message(size) for _ in range(1, 4)]
        self.held.outbox = batch
        for item, outcome in zip(batch, core.submit(batch), strict=True):
            assert isinstance(outcome, bytes)
            self.held.receipts[item.leaf] = outcome
        self.held.outbox = []

    def _overlap(self, core: HubCore) -> None:
        """Three batches, each written while the one before it is not synced yet."""
        batch = [self.rng.choice(self.producers).message(300) for _ in range(6)]
        self.held.outbox = batch
        for item, outcome in zip(batch, overlapped(core, batch), strict=True):
            assert isinstance(outcome, bytes)
            self.held.receipts[item.leaf] = outcome
        self.held.outbox = []

    def _checkpoint(self, core: HubCore) -> None:
        self.held.manifests.append(Manifest.decode(core.checkpoint()))

    def _attach(self, core: HubCore) -> None:
        sealed = seed(f"attachment {len(self.held.attachments)}") * 50
        attachments.write(core.store.layout, core.store.disk, Hash(h(sealed)), sealed)
        self.held.attachments.append(sealed)

    def _prune(self, core: HubCore) -> None:
        where = self.rng.choice(self.producers).label
        if core.reader.count(where):
            asyncio.run(prune_label(core.store, where, self.rng.randint(1, 6)))

    def _rotate(self, core: HubCore) -> None:
        self.held.rotations.append(core.rotate())

    @staticmethod
    def _sync_heads(core: HubCore) -> None:
        assert core.store.heads is not None
        core.store.heads.sync()


def cut_power(base: Path, target: Path, rng: random.Random) -> Story:
    """A story that ends in the dark; what the disk kept of it lies below `target`."""
    disk = PowerCutDisk(base, stop_at=rng.randint(1, rng.choice((60, 900))))
    # Most is at stake right before a sync.
    disk.stop_before = rng.choice((None, "fdatasync", "fdatasync", "sync_dir"))
    story = Story(base / "d", disk, rng)
    try:
        story.run()
    except Stopped:
        pass
    finally:
        disk.stop_at = None
        disk.cut(target, rng)
        copy_outside(disk, base / "d", target / "d", rng)
        if story.core is not None:
            abandon(story.core)
    return story


def check_after_power_loss(target: Path, story: Story) -> None:
    held = story.held
    if not (target / "d").is_dir():
        assert held == Holdings()
        return
    core = open_core(target / "d", segment_bytes=SEGMENT_BYTES)
    try:
        assert core.read_only is None
        assert run_fsck(target / "d").findings == ()
        for leaf, receipt in held.receipts.items():
            assert core.find_leaf(leaf) == receipt
        for manifest in held.manifests:
            assert manifests.read(core.store.layout, manifest.id) == manifest.encode()
        kept = core.identity.records.records
        assert [record.encode() for record in held.rotations] == kept[: len(held.rotations)]
        for sealed in held.attachments:
            assert attachments.read(core.store.layout, Hash(h(sealed))) == sealed
        for item, outcome in zip(held.outbox, core.submit(held.outbox), strict=True):
            if not isinstance(outcome, bytes):
                assert outcome.code is ErrorCode.DUP
                assert core.find_leaf(item.leaf)
        core.checkpoint()
    finally:
        core.close()
    assert run_fsck(target / "d").findings == ()


@pytest.mark.slow
def test_every_held_receipt_verifies_after_any_power_cut(
    tmp_path: Path, seed: int, scaled: Callable[[int, int], int]
) -> None:
    for number in range(scaled(60, 1000)):
        rng = random.Random(f"{seed} power {number}")
        base, target = tmp_path / "before", tmp_path / "after"
        base.mkdir()
        try:
            story = cut_power(base, target, rng)
            check_after_power_loss(target, story)
        except BaseException as flaw:
            flaw.add_note(f"cut {number} of seed {seed}")
            raise
        shutil.rmtree(base)
        shutil.rmtree(target)


def test_the_model_loses_what_was_not_synced_and_keeps_what_was(tmp_path: Path, seed: int) -> None:
    base = tmp_path / "base"
    base.mkdir()
    kept, lost = bytes(range(256)) * 8, b"\xff" * 4096
    outcomes = set()
    disk = PowerCutDisk(base)
    disk.write_atomic(base / "safe", kept)
    fd = disk.open(base / "safe", 2)
    disk.pwrite(fd, lost, len(kept))
    disk.close(fd)
    rng = random.Random(seed)
    for number in range(20):
        disk.cut(tmp_path / str(number), rng)
        data = (tmp_path / str(number) / "safe").read_bytes()
        assert data[: len(kept)] == kept
        outcomes.add(data[len(kept) :])
    assert len(outcomes) > 10


def test_power_loss_in_a_rebuild_leaves_what_the_next_start_completes(
    tmp_path: Path, seed: int, scaled: Callable[[int, int], int]
) -> None:
    for number in range(scaled(10, 200)):
        rng = random.Random(f"{seed} rebuild {number}")
        base, target = tmp_path / f"{number}", tmp_path / f"{number}after"
        base.mkdir()
        disk = PowerCutDisk(base)
        story = Story(base / "d", disk, rng)
        story.run()
        disk.stop_at = disk.calls + rng.randint(1, 120)
        with contextlib.suppress(Stopped):
            run_rebuild(base / "d", disk=disk)
        disk.stop_at = None
        disk.cut(target, rng)
        copy_outside(disk, base / "d", target / "d", rng)
        check_after_power_loss(target, story)
