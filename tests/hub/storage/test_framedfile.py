from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hub.storage import framedfile, frames
from hub.storage.disk import Disk
from hub.storage.framedfile import FramedFile
from hub.storage.frames import Damage
from tests.support.disks import Fault, FaultyDisk, RefusingDisk

RECORDS = [b"first", b"second" * 100, b"third"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "records.log"
    file = FramedFile(found, Disk())
    for record in RECORDS:
        file.append(record)
    return found


def test_records_come_back_in_order(path: Path) -> None:
    assert framedfile.read_all(path) == FramedFile(path, Disk()).records == RECORDS


def test_a_file_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert framedfile.read_all(tmp_path / "none") == []


def test_a_record_cut_off_by_a_stop_is_dropped_and_overwritten(path: Path) -> None:
    data = path.read_bytes()
    for cut in range(1, frames.HEAD_BYTES + len(RECORDS[-1])):
        path.write_bytes(data[:-cut])
        assert framedfile.read_all(path) == RECORDS[:-1]
    FramedFile(path, Disk()).append(b"other")
    assert framedfile.read_all(path) == [*RECORDS[:-1], b"other"]


def test_a_record_whose_sectors_never_arrived_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "records.log"
    file = FramedFile(path, Disk())
    file.append(b"first")
    kept = path.stat().st_size
    file.append(b"x" * 2000)
    data = path.read_bytes()
    path.write_bytes(data[:kept] + bytes(512 - kept) + data[512:])
    assert framedfile.read_all(path) == [b"first"]
    path.write_bytes(data[:1024] + bytes(512) + data[1536:])
    assert framedfile.read_all(path) == [b"first"]
    path.write_bytes(bytes(len(data)))
    assert framedfile.read_all(path) == []


def test_every_flipped_bit_is_damage_and_drops_nothing_in_silence(path: Path) -> None:
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(Damage):
            framedfile.read_all(path)


@pytest.mark.parametrize("fault", [Fault.EIO, Fault.EIO_DONE])
def test_a_record_that_was_refused_is_not_there(tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "records.log"
    FramedFile(path, Disk()).append(b"first")
    for at in range(2, 5):  # ftruncate, pwrite, fdatasync; opening and closing write nothing
        file = FramedFile(path, FaultyDisk(at, fault))
        with pytest.raises(OSError, match="error"):
            file.append(b"refused")
        assert framedfile.read_all(path) == file.records == [b"first"]


def test_a_file_goes_on_when_the_disk_does(path: Path) -> None:
    disk = RefusingDisk()
    file = FramedFile(path, disk)
    disk.error = errno.ENOSPC
    with pytest.raises(OSError, match="space"):
        file.append(b"fourth")
    disk.error = None
    file.append(b"fourth")
    assert framedfile.read_all(path) == [*RECORDS, b"fourth"]
