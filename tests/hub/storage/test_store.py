"""One batch: durable at once, verified before it is signed, counted by its syncs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.core import HubCore
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.storage.state import read_snapshot
from hub.wire.receipt import Receipt
from tests.support.disks import CountingDisk
from tests.support.hubs import Producer, contents, fill, label, open_core, opened

A, B = label("A"), label("B")


class LyingDisk(CountingDisk):
    """Gives back another bit than was written, once."""

    is_lying = False

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        if self.is_lying and size > 200:
            return data[:150] + bytes((data[150] ^ 1,)) + data[151:]
        return data


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def core(tmp_path: Path, disk: CountingDisk) -> Iterator[HubCore]:
    found = open_core(tmp_path / "d", disk)
    yield found
    found.close()


def test_one_batch_costs_one_sync_however_many_entries_and_labels(
    core: HubCore, disk: CountingDisk
) -> None:
    producers = [Producer(f"p{number}", label(f"P{number}")) for number in range(5)]
    fill(core, producers, 5)
    start = len(disk.names)
    fill(core, producers, 100, per_batch=100)
    assert disk.names[start:].count("fdatasync") == 1


def test_receipts_come_back_in_the_order_of_arrival(core: HubCore) -> None:
    a, b = Producer("a", A), Producer("b", B)
    items = [a.message(), b.message(), b.message(), a.message()]
    found = [Receipt.decode(answer) for answer in core.submit(items) if isinstance(answer, bytes)]
    assert [receipt.leaf_hash for receipt in found] == [item.leaf for item in items]
    assert [(receipt.label, receipt.stream_seq) for receipt in found] == [
        (A, 1),
        (B, 1),
        (B, 2),
        (A, 2),
    ]


def test_an_empty_batch_writes_nothing(core: HubCore, disk: CountingDisk) -> None:
    before = len(disk.names)
    assert core.submit([]) == []
    assert disk.names[before:] == []


def test_bytes_that_the_disk_changed_are_never_signed(tmp_path: Path) -> None:
    disk = LyingDisk()
    core = open_core(tmp_path / "d", disk)
    producer = Producer("a", A)
    fill(core, [producer], 2)
    disk.is_lying = True
    [outcome] = core.submit([producer.message()])
    assert isinstance(outcome, StoreError)
    assert "differ" in outcome.detail
    disk.is_lying = False
    [again] = core.submit([producer.forge(3)])
    assert isinstance(again, StoreError)  # until a restart has looked
    core.close()
    with opened(tmp_path / "d") as reopened:
        assert len(contents(reopened)) == 2
        [answer] = reopened.submit([producer.forge(3)])
        assert isinstance(answer, bytes)


def test_the_same_message_twice_is_one_entry_in_a_batch_or_later(core: HubCore) -> None:
    producer = Producer("a", A)
    item = producer.message()
    first, second = core.submit([item, item])
    [third] = core.submit([item])
    assert isinstance(first, bytes)
    for refused in (second, third):
        assert isinstance(refused, VeenError)
        assert refused.code is ErrorCode.DUP
    assert core.find_leaf(item.leaf) == first
    assert core.reader.count(A) == 1


def test_a_segment_rolls_at_its_size_and_the_log_reads_through(tmp_path: Path) -> None:
    root = tmp_path / "d"
    with opened(root, segment_bytes=3_000) as core:
        answers = fill(core, [Producer("a", A)], 30)
        numbers = Layout(root).segment_numbers()
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 3
        assert [core.reader.receipt(A, seq) for seq in range(1, 31)] == answers
    assert run_fsck(root).segments == len(numbers)


def test_a_snapshot_says_where_the_log_stands(tmp_path: Path) -> None:
    root = tmp_path / "d"
    with opened(root) as core:
        fill(core, [Producer("a", A), Producer("b", B)], 10)
        expected = core.store.state
    found = read_snapshot(Layout(root).snapshot)
    assert found == expected
    assert found is not None
    assert found.entries == 10


def test_a_snapshot_with_a_flipped_bit_is_none(tmp_path: Path) -> None:
    root = tmp_path / "d"
    with opened(root) as core:
        fill(core, [Producer("a", A)], 2)
    path = Layout(root).snapshot
    data = path.read_bytes()
    for place in range(8, len(data)):
        path.write_bytes(data[:place] + bytes((data[place] ^ 0x10,)) + data[place + 1 :])
        assert read_snapshot(path) is None


def test_sixteen_labels_in_one_batch_get_sixteen_heads(core: HubCore) -> None:
    producers = [Producer(f"p{number}", label(f"P{number}")) for number in range(16)]
    fill(core, producers, 64, per_batch=32)
    assert {core.reader.count(producer.label) for producer in producers} == {4}
    assert core.store.state.entries == 64
