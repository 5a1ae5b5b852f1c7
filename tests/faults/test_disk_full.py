"""C16: a full or read-only disk refuses writes with a code; reads go on; it heals [assurance 1]."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.core import HubCore, Submission
from hub.storage import attachments
from hub.storage.fsck import run_fsck
from hub.storage.leaves import FLUSH_AT
from hub.storage.prune import prune_label
from hub.types import Hash
from tests.support.disks import RefusingDisk
from tests.support.hubs import Producer, contents, fill, label, open_core

WITHOUT_SYNC = RefusingDisk.WRITES - {"fdatasync", "sync_dir"}
ERRORS = [errno.ENOSPC, errno.EROFS, errno.EDQUOT]


@pytest.fixture
def disk() -> RefusingDisk:
    return RefusingDisk(WITHOUT_SYNC)


@pytest.fixture
def producer() -> Producer:
    return Producer("full", label("F"))


@pytest.fixture
def core(tmp_path: Path, disk: RefusingDisk, producer: Producer) -> Iterator[HubCore]:
    found = open_core(tmp_path / "d", disk, segment_bytes=5_000)
    fill(found, [producer], 8)
    yield found
    disk.error = None
    found.close()
    assert run_fsck(tmp_path / "d").findings == ()


def refused(core: HubCore, items: list[Submission]) -> None:
    for outcome in core.submit(items):
        assert isinstance(outcome, StoreError)
        assert outcome.code is ErrorCode.STORE


@pytest.mark.parametrize("error", ERRORS, ids=lambda number: errno.errorcode[number])
def test_a_disk_that_refuses_gives_e_store_keeps_reads_and_heals_without_restart(
    core: HubCore, disk: RefusingDisk, producer: Producer, error: int
) -> None:
    before = contents(core)
    disk.error = error
    waiting = producer.messages(3)
    refused(core, waiting)
    refused(core, waiting)
    assert contents(core) == before
    disk.error = None
    answers = core.submit(waiting)
    assert all(isinstance(answer, bytes) for answer in answers)
    assert core.reader.count(producer.label) == 11


def test_a_full_disk_refuses_checkpoints_retention_and_attachments_too(
    core: HubCore, disk: RefusingDisk, producer: Producer
) -> None:
    disk.error = errno.ENOSPC
    with pytest.raises((VeenError, OSError)):
        core.checkpoint()
    with pytest.raises((VeenError, OSError)):
        asyncio.run(prune_label(core.store, producer.label, 5))
    with pytest.raises(StoreError):
        attachments.write(core.store.layout, disk, Hash(h(b"sealed")), b"sealed")
    disk.error = None
    core.checkpoint()
    asyncio.run(prune_label(core.store, producer.label, 5))
    assert attachments.write(core.store.layout, disk, Hash(h(b"sealed")), b"sealed")


def test_a_disk_that_fills_up_while_a_segment_rolls_loses_nothing(
    core: HubCore, disk: RefusingDisk, producer: Producer
) -> None:
    while core.store.segments.end < core.store.segment_bytes:
        fill(core, [producer], 1)
    disk.error = errno.ENOSPC
    waiting = producer.messages(2)
    refused(core, waiting)
    disk.error = None
    assert all(isinstance(answer, bytes) for answer in core.submit(waiting))
    assert core.store.segments.end < core.store.segment_bytes


def test_a_batch_that_is_durable_when_the_index_fails_is_found_as_duplicate(
    tmp_path: Path, producer: Producer
) -> None:
    disk = RefusingDisk(frozenset({"pwrite"}))
    core = open_core(tmp_path / "d", disk)
    fill(core, [producer], 2)
    [item] = producer.messages(1)
    disk.full_after = "fdatasync"
    refused(core, [item])
    refused(core, [item])  # the index is still owed
    disk.error = None
    [again] = core.submit([item])
    assert isinstance(again, VeenError)
    assert again.code is ErrorCode.DUP
    assert core.find_leaf(item.leaf) == core.reader.receipt(producer.label, 3)
    core.close()
    assert run_fsck(tmp_path / "d").findings == ()


def test_a_failed_fsync_stops_writing_until_a_restart_has_read_the_disk(
    tmp_path: Path, producer: Producer
) -> None:
    disk = RefusingDisk(frozenset({"fdatasync"}))
    core = open_core(tmp_path / "d", disk)
    fill(core, [producer], 3)
    disk.error = errno.EIO
    [item] = producer.messages(1)
    refused(core, [item])
    disk.error = None
    refused(core, [item])  # a second fsync could lie
    assert len(contents(core)) == 3
    core.close()
    again = open_core(tmp_path / "d")
    [outcome] = again.submit([item])
    if isinstance(outcome, VeenError):
        assert outcome.code is ErrorCode.DUP
    assert again.find_leaf(item.leaf)
    again.close()
    assert run_fsck(tmp_path / "d").findings == ()


def test_a_failed_fsync_of_an_index_forbids_snapshots_but_not_writing(
    tmp_path: Path, producer: Producer
) -> None:
    disk = RefusingDisk(frozenset({"fdatasync"}))
    core = open_core(tmp_path / "d", disk)
    fill(core, [producer], 3)
    disk.error = errno.EIO
    with pytest.raises(OSError, match="fdatasync"):
        core.store.snapshot()
    disk.error = None
    assert not core.store.snapshot()
    fill(core, [producer], 3)
    with pytest.raises(StoreError, match="restart"):
        asyncio.run(prune_label(core.store, producer.label, 2))
    core.close()
    assert not (tmp_path / "d" / "snapshot").exists()
    again = open_core(tmp_path / "d")
    assert len(contents(again)) == 6
    again.close()
    assert run_fsck(tmp_path / "d").findings == ()


def test_a_leaf_index_that_refuses_gives_e_store_and_goes_on_later(
    tmp_path: Path, producer: Producer
) -> None:
    core = open_core(tmp_path / "d")
    fill(core, [producer], 4)
    database = core.store.leaves._db
    database.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="leaf index refuses"):
        core.store.leaves.flush(core.store.state.entries)
    database.execute("PRAGMA query_only = OFF")
    fill(core, [producer], FLUSH_AT, per_batch=64)
    assert core.store.leaves.pending() < FLUSH_AT
    core.close()
    assert run_fsck(tmp_path / "d").findings == ()
