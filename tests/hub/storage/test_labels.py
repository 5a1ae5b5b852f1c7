from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub import mmr
from hub.storage import labels
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.labels import LabelFiles, Position
from hub.storage.layout import Layout
from tests.support.disks import RefusingDisk
from tests.support.hubs import label
from tests.support.memory_log import MemoryLog, numbered_leaves

A = label("A")
POSITION = Position(3, 700, 1 << 40, 180, (1 << 40) + 709, 1_700_000_000)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LabelFiles]:
    found = LabelFiles(Layout(tmp_path), Disk(), writable=True)
    yield found
    found.close()


def test_a_position_has_40_bytes_and_comes_back() -> None:
    data = POSITION.encode()
    assert len(data) == labels.INDEX_BYTES == 40
    assert labels.decode_position(data, "index", 0) == POSITION


def test_every_flipped_bit_of_a_position_is_damage() -> None:
    data = POSITION.encode()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damage):
            labels.decode_position(bytes(changed), "index", 0)


def test_every_flipped_bit_of_a_checkpoint_record_is_damage() -> None:
    data = labels.encode_checkpoint(7, b"checkpoint" * 20)
    assert labels.decode_checkpoint(data, "checkpoints", 0) == (7, b"checkpoint" * 20)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damage):
            labels.decode_checkpoint(bytes(changed), "checkpoints", 0)


def test_nodes_are_found_by_height_and_index_after_appends_of_any_size(files: LabelFiles) -> None:
    log = MemoryLog()
    size = 0
    for count in (1, 2, 5, 1, 8, 16, 3):
        nodes: list[bytes] = []
        for leaf in numbered_leaves(size + count)[size:]:
            before = len(log.nodes)
            log.append(leaf)
            nodes += log.nodes[before:]
        files.append(A, size, nodes, [POSITION.encode()] * count)
        size += count
    assert files.count(A) == size
    for upto in range(1, size + 1):
        found = mmr.root_at(upto, lambda height, index: files.node(A, height, index))
        assert found == log.roots[upto]


def test_truncate_cuts_index_and_nodes_to_the_same_size(files: LabelFiles) -> None:
    log = MemoryLog(numbered_leaves(9))
    files.append(A, 0, log.nodes, [POSITION.encode()] * 9)
    files.truncate(A, 5)
    assert files.count(A) == 5
    assert files.holds(A, 5)
    assert not files.holds(A, 6)
    assert mmr.root_at(5, lambda height, index: files.node(A, height, index)) == log.roots[5]


def test_more_labels_than_open_files_work(files: LabelFiles) -> None:
    names = [label(f"many {number}") for number in range(labels.OPEN_FILES_MAX)]
    for name in names:
        files.append(name, 0, [b"n" * 32], [POSITION.encode()])
    assert len(files._open) <= labels.OPEN_FILES_MAX
    assert [files.count(name) for name in names] == [1] * len(names)


def test_checkpoints_that_the_disk_refused_are_written_later_in_order(tmp_path: Path) -> None:
    disk = RefusingDisk()
    files = LabelFiles(Layout(tmp_path), disk, writable=True)
    files.append_checkpoint(A, 1, b"one")
    disk.error = errno.ENOSPC
    files.append_checkpoint(A, 2, b"two")
    files.append_checkpoint(A, 3, b"three")
    assert files.checkpoint_count(A) == 1
    disk.error = None
    files.append_checkpoint(A, 4, b"four")
    found = [files.checkpoint(A, number) for number in range(files.checkpoint_count(A))]
    assert found == [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four")]
    files.close()


def test_has_checkpoint_cuts_a_damaged_end_off(files: LabelFiles) -> None:
    for number in range(1, 5):
        files.append_checkpoint(A, number, b"wire %d" % number)
    path = files.path(A, "checkpoints")
    data = bytearray(path.read_bytes())
    data[3 * labels.CHECKPOINT_BYTES + 20] ^= 1
    path.write_bytes(data)
    assert files.has_checkpoint(A, 3, b"wire 3")
    assert not files.has_checkpoint(A, 4, b"wire 4")
    assert files.checkpoint_count(A) == 3


def test_checkpoints_behind_the_end_of_the_log_are_cut(files: LabelFiles) -> None:
    for number in (2, 4, 6):
        files.append_checkpoint(A, number, b"wire")
    files.cut_checkpoints(A, 4)
    assert files.checkpoint_count(A) == 2


def test_a_reader_makes_no_files(tmp_path: Path) -> None:
    files = LabelFiles(Layout(tmp_path), Disk(), writable=False)
    with pytest.raises(FileNotFoundError):
        files.count(A)
    assert list(tmp_path.iterdir()) == []


def test_what_lies_among_the_labels_and_is_none_is_ignored(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    (layout.labels / A.hex()).mkdir(parents=True)
    (layout.labels / "lost+found").mkdir()
    (layout.labels / ("f" * 64)).write_bytes(b"")
    assert layout.label_names() == [A]
