"""C3 for the SDK's spool: the power goes at any moment; what was synced is read back whole."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from recorder import spool_files
from recorder.spool import SpoolWriter
from recorder.spool_files import SpoolEntry
from tests.support.disks import Inode, PowerCutDisk, Stopped

STEPS = 100


class SpoolDisk(PowerCutDisk):
    """Knows a file by whichever descriptor it is synced: the spool syncs duplicates."""

    def __init__(self, base: Path, stop_at: int) -> None:
        super().__init__(base, stop_at)
        self._inodes: dict[int, Inode] = {}

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self._inodes[os.fstat(fd).st_ino] = self._fds[fd]
        return fd

    def fdatasync(self, fd: int) -> None:
        self._fds[fd] = self._inodes[os.fstat(fd).st_ino]
        self._held.add(fd)
        super().fdatasync(fd)


class Story:
    """A service that records, and what it was told is durable."""

    def __init__(self, disk: SpoolDisk, rng: random.Random) -> None:
        self.disk = disk
        self.rng = rng
        self.appended: dict[str, list[bytes]] = {}
        self.synced: dict[str, int] = {}

    def run(self) -> None:
        spool = SpoolWriter(self.disk.base / "spool", bytes_max=65_536, disk=self.disk)
        for number in range(STEPS):
            if self.rng.random() < 0.15:
                spool.sync()
                self.synced = {name: len(bodies) for name, bodies in self.appended.items()}
            body = b"%05d" % number + self.rng.randbytes(self.rng.choice((5, 200, 900)))
            key = self.rng.choice((None, "k"))
            name, _ = spool.append(SpoolEntry(stream="record/app/x", body=body, key=key))
            self.appended.setdefault(name, []).append(body)
        spool.close()
        self.synced = {name: len(bodies) for name, bodies in self.appended.items()}


def read_back(path: Path) -> list[bytes]:
    bodies: list[bytes] = []
    start = spool_files.FIRST
    while True:
        piece = spool_files.read_piece(path, start, items_max=64)
        if not piece.entries:
            return bodies
        bodies += [entry.body for _, entry in piece.entries]
        start = piece.end


def test_what_was_synced_is_there_after_a_power_cut_and_nothing_else_is_made_up(
    tmp_path: Path, rng: random.Random, scaled: Callable[[int, int], int]
) -> None:
    was_cut = held = 0
    for number in range(scaled(150, 1_000)):
        base, target = tmp_path / f"{number}", tmp_path / f"{number}-left"
        base.mkdir()
        disk = SpoolDisk(base, stop_at=rng.randint(1, 300))
        disk.stop_before = rng.choice((None, "fdatasync", "sync_dir"))
        story = Story(disk, rng)
        try:
            story.run()
        except Stopped:
            was_cut += 1
        disk.stop_at = None
        disk.cut(target, rng)
        left = set(spool_files.names(target / "spool")) if (target / "spool").exists() else set()
        for name, bodies in story.appended.items():
            found = read_back(target / "spool" / name) if name in left else []
            assert len(found) >= story.synced.get(name, 0), (number, name)
            assert found == bodies[: len(found)], (number, name)
            held += story.synced.get(name, 0)
    assert was_cut > 50
    assert held > 1_000
