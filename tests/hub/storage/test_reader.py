"""Reading without owning: only what is committed, only what verifies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.core import HubCore
from hub.storage.labels import INDEX_BYTES, Position
from hub.storage.reader import LogReader
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.hubs import Producer, Ticker, abandon, fill, label, open_core

A, B = label("A"), label("B")


@pytest.fixture
def clock() -> Ticker:
    return Ticker()


@pytest.fixture
def core(tmp_path: Path, clock: Ticker) -> Iterator[HubCore]:
    found = open_core(tmp_path / "d", clock=clock, segment_bytes=5_000)
    yield found
    found.close()


@pytest.fixture
def reader(core: HubCore) -> Iterator[LogReader]:
    found = LogReader(core.config.data_dir)
    yield found
    found.close()


def test_entries_receipts_and_order_are_what_was_answered(core: HubCore, reader: LogReader) -> None:
    producers = [Producer("a", A), Producer("b", B)]
    answers = fill(core, producers, 30)
    assert reader.labels() == sorted([A, B])
    assert [reader.receipt(A, seq) for seq in range(1, 16)] == answers[::2]
    for receipt, message in reader.entries(B, 1, 15):
        assert Msg.decode(message).leaf_hash() == Receipt.decode(receipt).leaf_hash
    assert reader.count(label("nobody")) == 0


def test_every_proof_verifies_against_the_signed_root(core: HubCore, reader: LogReader) -> None:
    fill(core, [Producer("a", A)], 21)
    for size in (1, 2, 7, 16, 21):
        for seq in range(1, size + 1):
            proof = reader.prove(A, seq, size)
            proof.verify(stream_seq=seq, mmr_size=size, root=reader.root_at(A, size))
        consistency = reader.prove_consistency(A, size, 21)
        consistency.verify(reader.root_at(A, size), reader.root_at(A, 21))
        reader.prove_range(A, 1, size, 21)


def test_the_first_entry_at_a_time_is_found(
    core: HubCore, reader: LogReader, clock: Ticker
) -> None:
    producer = Producer("a", A)
    start = int(clock.at)
    for step in (0, 0, 3, 2, 0):
        clock.at += step
        fill(core, [producer], 1)
    found = [reader.first_at_or_after(A, start + later) for later in (0, 1, 3, 4, 5, 6)]
    assert found == [1, 3, 3, 4, 4, 6]


def test_nothing_of_a_batch_is_visible_before_its_sync(tmp_path: Path) -> None:
    """The hub is stopped before every call of a commit; a reader sees the old head or the new."""
    producer = Producer("a", A)
    for at in range(1, 40):
        root = tmp_path / str(at) / "d"
        core = open_core(root, CountingDisk())
        fill(core, [producer], 3)
        core.close()
        disk = FaultyDisk(10_000, Fault.STOP)
        core = open_core(root, disk)
        disk._at = disk.calls + at
        synced = False
        start = disk.calls
        try:
            core.submit([producer.message()])
        except Stopped:
            synced = "fdatasync" in disk.names[start:-1]
        else:
            synced = True
        with_reader = LogReader(root)
        count = with_reader.count(A)
        if not synced and disk.names[-1] != "fdatasync":
            assert count == 3
        for seq in range(1, count + 1):
            with_reader.entry(A, seq)
            with_reader.prove(A, seq, count)
        with_reader.close()
        abandon(core)
        producer.client_seq = 0


def test_a_reader_beside_a_writer_always_sees_a_whole_log(core: HubCore) -> None:
    producer = Producer("a", A)
    stop = threading.Event()
    flaws: list[BaseException] = []

    def read() -> None:
        reader = LogReader(core.config.data_dir)
        try:
            while not stop.is_set():
                count = reader.count(A)
                if count:
                    reader.prove(A, max(1, count // 2), count)
                    receipt, _ = reader.entry(A, count)
                    assert Receipt.decode(receipt).stream_seq == count
        except BaseException as flaw:  # noqa: BLE001 - handed to the test
            flaws.append(flaw)
        finally:
            reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    fill(core, [producer], 400)
    stop.set()
    thread.join()
    assert flaws == []


def test_an_index_that_points_at_another_entry_is_not_believed(
    core: HubCore, reader: LogReader
) -> None:
    fill(core, [Producer("a", A), Producer("b", B)], 12)
    files = core.store.files
    path = files.path(A, "index")
    data = bytearray(path.read_bytes())
    for other in (files.position(A, 2), files.position(B, 3), Position(1, 5, 60, 7, 80, 1)):
        data[2 * INDEX_BYTES : 3 * INDEX_BYTES] = other.encode()
        path.write_bytes(data)
        with pytest.raises(VeenError) as caught:
            reader.entry(A, 3)
        assert caught.value.code is ErrorCode.DAMAGE


def test_a_node_that_is_wrong_gives_damage_and_no_proof(core: HubCore, reader: LogReader) -> None:
    fill(core, [Producer("a", A)], 8)
    path = core.store.files.path(A, "nodes")
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(VeenError, match="rebuild") as caught:
        reader.prove(A, 2, 8)
    assert caught.value.code is ErrorCode.DAMAGE
