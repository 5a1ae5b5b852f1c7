"""Two batches under way: what is written, and what may be said, before a sync has returned."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError, VeenError
from hub.server.core import HubCore, Outcome
from hub.server.line import sync_at_once
from hub.storage import frames
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.storage.replay import batches
from hub.storage.segments import read_header
from hub.wire.receipt import Receipt
from tests.support.disks import CountingDisk
from tests.support.hubs import Producer, abandon, contents, label, open_core, opened

A = label("A")


class HeldSyncs:
    """Syncs that return when the test says so."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], None], Future[None]]] = []

    def __call__(self, messages: int, sync: Callable[[], None]) -> Future[None]:
        del messages
        future: Future[None] = Future()
        self.held.append((sync, future))
        return future

    def finish(self, failure: StoreError | None = None) -> Future[None]:
        """The oldest sync returns."""
        sync, future = self.held.pop(0)
        if failure is None:
            sync()
            future.set_result(None)
        else:
            future.set_exception(failure)
        return future


class Desk:
    """Hands batches to the line of a hub and keeps what it said."""

    def __init__(self, core: HubCore) -> None:
        self.core = core
        self.line = core.line
        self.syncs = HeldSyncs()
        self.line.run_sync = self.syncs
        self.producer = Producer("a", A)
        self.said: list[list[Outcome]] = []

    def send(self, count: int) -> None:
        self.line.add(self.producer.messages(count), self.said.append)
        self.line.launch()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    core = open_core(tmp_path / "d", CountingDisk())
    yield Desk(core)
    abandon(core)


def committed(core: HubCore) -> int:
    """Entries that COMMIT frames on the disk cover."""
    path = Layout(core.config.data_dir).segment(1)
    data = path.read_bytes()
    _, offset = read_header(data, 1, str(path))
    found = 0
    try:
        for batch in batches(data, offset, str(path)):
            found += len(batch.entries)
    except frames.Damage as tail:
        assert tail.reason == "batch without commit"  # noqa: PT017 - any other is a failure
    return found


def test_the_next_batch_is_written_and_signed_but_not_committed_during_a_sync(desk: Desk) -> None:
    desk.send(2)
    desk.send(3)
    segment = Layout(desk.core.config.data_dir).segment(1)
    assert committed(desk.core) == 2
    assert segment.stat().st_size > desk.core.store.segments.end  # its MSGs stand behind the log
    assert desk.said == []
    assert desk.core.reader.count(A) == 0  # nobody sees what is not durable
    desk.line.land(desk.syncs.finish())
    assert committed(desk.core) == 5
    assert [len(outcomes) for outcomes in desk.said] == [2]
    assert desk.core.reader.count(A) == 2
    desk.line.land(desk.syncs.finish())
    seqs = [Receipt.decode(one).stream_seq for part in desk.said for one in part]  # type: ignore[arg-type]
    assert seqs == [1, 2, 3, 4, 5]
    assert run_fsck(desk.core.config.data_dir).findings == ()


def test_a_batch_grows_until_the_disk_is_free(desk: Desk) -> None:
    for count in (1, 2, 3, 4):
        desk.send(count)
    assert len(desk.syncs.held) == 1
    desk.line.land(desk.syncs.finish())
    desk.line.land(desk.syncs.finish())
    assert [len(outcomes) for outcomes in desk.said] == [1, 2, 3, 4]
    assert desk.syncs.held == []


def test_a_refusal_that_rests_on_a_batch_waits_until_it_is_durable(desk: Desk) -> None:
    desk.send(1)
    desk.line.add([desk.producer.forge(1)], desk.said.append)  # the same again
    desk.line.add([desk.producer.forge(7)], desk.said.append)
    desk.line.launch()
    assert desk.said == []
    desk.line.land(desk.syncs.finish())
    codes = [one.code for part in desk.said for one in part if isinstance(one, VeenError)]
    assert codes == [ErrorCode.DUP, ErrorCode.SEQ]


def test_a_failed_sync_refuses_whatever_was_judged_behind_it(desk: Desk) -> None:
    desk.send(2)
    desk.send(2)
    desk.line.add([desk.producer.forge(1)], desk.said.append)
    desk.core.store.segments.failed = "fsync failed"
    desk.line.land(desk.syncs.finish(StoreError("disk refuses")))
    outcomes = [one for part in desk.said for one in part]
    assert len(outcomes) == 5
    assert {one.code for one in outcomes if isinstance(one, VeenError)} == {ErrorCode.STORE}
    assert desk.core.reader.count(A) == 0
    [refused] = desk.core.submit([desk.producer.message()])
    assert isinstance(refused, StoreError)  # until a start has looked


def test_a_write_that_fails_during_a_sync_costs_only_its_own_batch(tmp_path: Path) -> None:
    class Full(CountingDisk):
        is_full = False

        def pwrite(self, fd: int, data: bytes, offset: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "no space left")
            super().pwrite(fd, data, offset)

    disk = Full()
    desk = Desk(open_core(tmp_path / "d", disk))
    desk.send(2)
    disk.is_full = True
    desk.send(2)
    [refused] = desk.said
    assert {one.code for one in refused if isinstance(one, VeenError)} == {ErrorCode.STORE}
    disk.is_full = False
    desk.line.land(desk.syncs.finish())
    desk.producer.client_seq = 2
    desk.send(1)
    desk.line.land(desk.syncs.finish())
    assert [type(one) for part in desk.said[1:] for one in part] == [bytes] * 3
    abandon(desk.core)
    with opened(tmp_path / "d") as again:
        assert len(contents(again)) == 3
    assert run_fsck(tmp_path / "d").findings == ()


def test_a_new_segment_waits_for_the_sync_of_the_old_one(tmp_path: Path) -> None:
    desk = Desk(open_core(tmp_path / "d", CountingDisk(), segment_bytes=500))
    desk.send(1)
    assert desk.line.room == 0
    desk.line.land(desk.syncs.finish())
    assert desk.line.room > 0
    desk.send(1)
    desk.line.land(desk.syncs.finish())
    assert Layout(tmp_path / "d").segment_numbers() == [1, 2]
    abandon(desk.core)


def test_an_act_of_the_hub_waits_for_what_is_under_way(desk: Desk) -> None:
    desk.send(2)
    desk.send(2)
    while desk.syncs.held:
        desk.syncs.finish()
    desk.line.run_sync = sync_at_once
    desk.core.checkpoint()
    assert [len(outcomes) for outcomes in desk.said] == [2, 2]
    assert desk.core.checkpoints.new_messages() == 0
