"""The commit stage: one batch on its way to the disk, the next one signed meanwhile [OP0.5].

A message is judged by the cursors that all before it lead to, durable or not. So no answer of a
batch leaves, not even a refusal, before every earlier batch is durable; and when a sync fails, all
that was judged behind it is refused with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from hub.errors import ErrorCode, ScopeError, StoreError, VeenError
from hub.server.gate import Gate
from hub.storage.state import Entry
from hub.storage.store import Batch, Store
from hub.types import LeafHash

log = logging.getLogger("hub")
FAILED = VeenError(ErrorCode.INTERNAL, "the writer failed")


@dataclass(slots=True)
class Submission:
    """A MSG whose form and signature a worker has checked."""

    data: bytes
    leaf: LeafHash


Outcome = bytes | VeenError
Done = Callable[[list[Outcome]], None]
# Runs the sync of so many messages, at once or in a thread, and tells how it went.
SyncRunner = Callable[[int, Callable[[], None]], "Future[None]"]


def sync_at_once(messages: int, sync: Callable[[], None]) -> Future[None]:
    """For a hub without an event loop, and for a few messages."""
    del messages
    future: Future[None] = Future()
    try:
        sync()
    except Exception as failure:  # noqa: BLE001 - raised again where the result is taken
        future.set_exception(failure)
    else:
        future.set_result(None)
    return future


@dataclass(slots=True)
class _Load:
    """A batch and who waits for it."""

    batch: Batch
    outcomes: list[Outcome] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)  # which outcomes become RECEIPTs
    waiting: list[tuple[int, Done]] = field(default_factory=list)  # how many outcomes each

    def answer(self, failure: VeenError | None) -> None:
        """Tell everybody, in the order of arrival."""
        if failure is None:
            for index, receipt in zip(self.accepted, self.batch.receipts, strict=True):
                self.outcomes[index] = receipt
        else:
            self.outcomes = [failure] * sum(count for count, _ in self.waiting)
        start = 0
        for count, done in self.waiting:
            done(self.outcomes[start : start + count])
            start += count


class CommitLine:
    """Admits, signs and syncs in order. Not thread-safe: one caller, one writer."""

    def __init__(self, store: Store, gate: Gate, check_writable: Callable[[], None]) -> None:
        self.run_sync: SyncRunner = sync_at_once
        self.on_durable: Callable[[int], None] = lambda _messages: None
        self.on_stray: Callable[[Entry], None] = lambda _entry: None  # refused for its stream alone
        self.disk_flaw: str | None = None  # why the last batch was not written
        self._store = store
        self._gate = gate
        self._check_writable = check_writable
        self._entries_max = gate.config.limits.commit_entries_max
        self._open: _Load | None = None  # being signed
        self._flight: tuple[_Load, Future[None]] | None = None  # being synced

    @property
    def is_syncing(self) -> bool:
        """Whether a batch is on its way to the disk."""
        return self._flight is not None

    @property
    def room(self) -> int:
        """How many more items make a full batch; none while a new segment waits for a sync."""
        if self._open is not None:
            return max(0, self._entries_max - len(self._open.outcomes))
        return 0 if self.is_syncing and self._store.is_roll_due else self._entries_max

    def submit(self, items: list[Submission]) -> list[Outcome]:
        """Admit and commit up to one batch, and wait for it."""
        outcomes: list[Outcome] = []
        self.drain()
        self.add(items, outcomes.extend)
        self.drain()
        return outcomes

    def add(self, items: list[Submission], done: Done) -> None:
        """Admit and sign into the open batch; `done` hears of every item on its own."""
        try:
            self._check_writable()
        except StoreError as refusal:
            done([refusal] * len(items))
            return
        load = self._open
        if load is None:
            if self._store.is_roll_due:
                self.land()  # a new segment waits for the sync of the old one
            load = self._open = _Load(self._store.begin())
        load.waiting.append((len(items), done))
        batch = load.batch
        try:
            self._admit(load, items)
        except Exception:  # nothing is written of it yet, and the next message may do better
            log.exception("writer.admit_failed")
            self._fail(FAILED)
            return
        if len(batch.receipts) < len(batch.order):
            failure = self._tried(lambda: self._store.extend(batch, self._gate.identity.key))
            if failure is not None:
                self._fail(failure)

    def _admit(self, load: _Load, items: list[Submission]) -> None:
        admit, batch, outcomes = self._gate.admit, load.batch, load.outcomes
        for item in items:
            try:
                entry = Entry.of(item.data, item.leaf)
                admit(batch, entry)
                load.accepted.append(len(outcomes))
                outcomes.append(b"")
            except VeenError as refusal:
                if isinstance(refusal, ScopeError):
                    self.on_stray(entry)
                outcomes.append(refusal)

    def launch(self) -> None:
        """Send the open batch to the disk, unless another is on its way there."""
        load = self._open
        if load is None or self.is_syncing:
            return
        if not load.accepted:
            self._open = None
            load.answer(None)
            return
        failure = self._tried(lambda: self._store.seal(load.batch))
        if failure is not None:
            self._fail(failure)
            return
        self._open = None
        self._flight = (load, self.run_sync(len(load.accepted), self._store.sync))

    def _tried(self, step: Callable[[], None]) -> VeenError | None:
        """Why a step failed; a flaw of ours is said and logged, and the line moves on."""
        try:
            step()
        except StoreError as failure:
            return failure
        except Exception:
            # Whether the batch is in the log is unknown: only a start that re-reads it may go on.
            self._store.segments.failed = "a batch failed half way; restart the hub"
            log.exception("writer.commit_failed")
            return FAILED
        return None

    def _fail(self, failure: VeenError) -> None:
        """Refuse the open batch; the writer cuts what it left behind the log."""
        load, self._open = self._open, None
        assert load is not None
        self.disk_flaw = failure.detail
        load.answer(failure)

    def land(self, is_done: Future[None] | None = None) -> None:
        """Wait for the sync that is under way, send the next batch after it, then answer.

        A caller that was told of a sync names it: somebody else may have landed it before.
        """
        if self._flight is None or is_done not in (None, self._flight[1]):
            return
        load, synced = self._flight
        failure = self._tried(synced.result) or self._tried(self._store.landed)
        self._flight = None
        if failure is None:
            self.disk_flaw = None
            self.on_durable(len(load.batch.order))
            self.launch()
            failure = self._tried(self._store.settle)
        elif self._open is not None:
            self._fail(failure)
        if failure is not None:
            self.disk_flaw = failure.detail
        load.answer(failure)

    def land_what_is_done(self) -> None:
        """Answer whatever needs no waiting, and send what stands behind it."""
        while self._flight is not None and self._flight[1].done():
            self.land()

    def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._open is not None or self._flight is not None:
            self.launch()
            self.land()
