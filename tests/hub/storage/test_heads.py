from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from hub.storage import heads
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.heads import HeadsFile
from hub.types import HubId
from tests.support.disks import Fault, FaultyDisk, RefusingDisk
from tests.support.hubs import label, seed

HUB = HubId(seed("hub"))
A, B = label("A"), label("B")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "d.heads"


def test_the_newest_head_of_each_label_is_read_back(path: Path) -> None:
    file = HeadsFile(path, Disk(), HUB, {})
    file.append([(A, 1, seed("1")), (B, 1, seed("2"))])
    file.append([(A, 2, seed("3"))])
    file.close()
    owner, found, _ = heads.read(path) or pytest.fail("no heads")
    assert owner == HUB
    assert found == {A: (2, seed("3")), B: (1, seed("2"))}


def test_no_file_is_not_an_empty_file(path: Path) -> None:
    assert heads.read(path) is None
    path.write_bytes(b"")
    with pytest.raises(Damage):
        heads.read(path)


def test_a_long_file_is_written_anew_with_one_record_for_each_label(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "COMPACT_AT", 2_000)
    file = HeadsFile(path, Disk(), HUB, {})
    for seq in range(1, 200):
        file.append([(A, seq, seed(str(seq)))])
    assert path.stat().st_size <= 2_000 + heads.RECORD_BYTES
    file.close()
    assert (heads.read(path) or pytest.fail("no heads"))[1] == {A: (199, seed("199"))}


def test_every_flipped_bit_is_damage(path: Path) -> None:
    file = HeadsFile(path, Disk(), HUB, {})
    file.append([(A, 1, seed("1")), (B, 1, seed("2"))])
    file.close()
    data = path.read_bytes()
    for bit in range(8 * heads.START, 8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(Damage):
            heads.read(path)


def test_heads_that_a_power_cut_took_leave_the_others(path: Path) -> None:
    file = HeadsFile(path, Disk(), HUB, {})
    for seq in range(1, 31):
        file.append([(A, seq, seed(str(seq)))])
    file.close()
    data = path.read_bytes()
    path.write_bytes(data[:1024] + bytes(512) + data[1536:])
    assert (heads.read(path) or pytest.fail("no heads"))[1] == {A: (30, seed("30"))}
    path.write_bytes(data[:1536] + bytes(len(data) - 1536))
    _, found, _ = heads.read(path) or pytest.fail("no heads")
    assert found[A][0] == (1536 - heads.START) // heads.RECORD_BYTES


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.EIO_DONE])
def test_a_rewrite_that_fails_at_any_call_never_loses_a_head(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(heads, "COMPACT_AT", 600)
    for at in range(8, 60):
        path.unlink(missing_ok=True)
        file = HeadsFile(path, FaultyDisk(at, fault), HUB, {})
        for seq in range(1, 20):
            try:
                file.append([(A, seq, seed(str(seq)))])
            except OSError:
                file.append([(A, seq, seed(str(seq)))])  # as the store does before the next batch
        with contextlib.suppress(OSError):  # what it says is asked here, not its durability
            file.close()
        assert (heads.read(path) or pytest.fail("no heads"))[1] == {A: (19, seed("19"))}, at


def test_after_a_failed_sync_everything_is_written_anew(path: Path) -> None:
    disk = RefusingDisk(frozenset({"fdatasync"}))
    file = HeadsFile(path, disk, HUB, {})
    file.append([(A, 1, seed("1"))])
    before = path.stat().st_ino
    disk.error = errno.EIO
    with pytest.raises(OSError, match="fdatasync"):
        file.sync()
    disk.error = None
    file.sync()
    assert path.stat().st_ino != before
    file.close()
    assert (heads.read(path) or pytest.fail("no heads"))[1] == {A: (1, seed("1"))}
