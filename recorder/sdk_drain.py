"""Draining a spool: one process of a host takes its entries over [architecture, Outbox rule].

An entry is authored and stored together with the mark that says how far its file was taken, in one
transaction, so that a stop at any point neither loses nor doubles it. Files go when they are taken
whole and their writer has let go of them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hub.client import HubClient, Item, Mark
from hub.client.draft import Draft
from hub.client.lane import KeyConflictError, Lane, LaneState, Outcome
from hub.client.outbox import Entry
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import DirectoryLock, Disk
from hub.wire.payload import PayloadHeader
from recorder import spool_files
from recorder.deadletters import DeadLetters
from recorder.event import SCHEMA
from recorder.sdk_answers import Place, outbox_key
from recorder.sdk_standing import Standing
from recorder.spool_files import SpoolEntry
from recorder.streams import EVENT_BYTES_LIMIT

logger = logging.getLogger(__name__)

LOCK: Final = "drain.lock"
STATE: Final = "hub"  # the folder of the hub client's state
KEPT_S: Final = 7 * 86_400  # how long an idempotency key is remembered
_ANSWER_KEPT_S: Final = 3600  # how long a receipt waits for whoever asked for it
_TAKE_MAX: Final = 128
# What a service records faster than any hub takes it has to wait in the spool anyway. Draining
# meanwhile would only make the service wait for the interpreter lock, so it goes first.
_BURST_PER_S: Final = 5_000
_BURST_MIN: Final = 64  # few entries at once are none
_BURST_TAKE_MAX: Final = 16
_BURST_REST_S: Final = 0.02
_LOOK_EVERY_S: Final = 0.05  # for entries of other processes
_TAKE_OVER_EVERY_S: Final = 0.2
_TIDY_EVERY_S: Final = 600.0
_HEADER: Final = PayloadHeader(schema=SCHEMA)

OnAnswer = Callable[[Place, Outcome], None]


class _Pace:
    """How fast this process records."""

    def __init__(self, now: float) -> None:
        self._at = now
        self._count = 0

    def is_burst(self, count: int, now: float) -> bool:
        """Whether more came since the last call than a hub takes in that time."""
        is_burst = count - self._count > max(_BURST_MIN, _BURST_PER_S * (now - self._at))
        self._count, self._at = count, now
        return is_burst


class Drainer:
    """The thread that drains, in the one process of this host that holds the lock."""

    def __init__(
        self, standing: Standing, key: SigningKey, folder: Path, on_answer: OnAnswer
    ) -> None:
        self._standing = standing
        self._key = key
        self._folder = folder
        self._on_answer = on_answer
        self._letters = DeadLetters(folder)
        self._lane: Lane | None = None
        self._marks: dict[str, int] = {}
        self._lock: DirectoryLock | None = None
        self._trouble: VeenError | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._tidied_at = 0.0
        self._appended = 0  # entries of this process; threads that meet may lose a count
        self._thread = threading.Thread(target=self._run, name="veen-drain", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was appended in this process."""
        self._appended += 1
        if not self._wake.is_set():
            self._wake.set()

    @property
    def is_draining(self) -> bool:
        """Whether it is this process that drains."""
        return self._lane is not None

    def state(self) -> LaneState | None:
        """How the lane is doing, where it is this process that drains."""
        lane = self._lane
        return None if lane is None else lane.state()

    @property
    def trouble(self) -> VeenError | None:
        """Why nothing goes out at the moment, as far as this process knows."""
        state = self.state()
        return self._trouble if state is None else state.trouble

    def progress(self) -> tuple[dict[str, int], tuple[int, int] | None] | None:
        """How far each file is taken, and the entries without receipt; None if others drain."""
        lane = self._lane
        return None if lane is None else (dict(self._marks), lane.pending_ids())

    def renew(self) -> None:
        """The standing has a newer capability."""
        if self._lane is not None:
            self._lane.renew(self._standing.token)

    def close(self) -> None:
        """Hand over: another process may drain from now on."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def abandon(self) -> None:
        """In a forked child: let go of what the parent holds."""
        if self._lane is not None:
            self._lane.abandon()
        if self._lock is not None:
            self._lock.release()

    # -- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._lock = DirectoryLock(self._folder / LOCK)
            except VeenError as held:
                if held.code is not ErrorCode.LOCKED:
                    self._set_trouble(held)
                self._stop.wait(_TAKE_OVER_EVERY_S)
                continue
            except OSError as refusal:  # A full disk or a missing folder; it may be well again.
                self._set_trouble(refusal)
                self._stop.wait(1.0)
                continue
            try:
                self._drain()
            except (VeenError, OSError) as trouble:
                self._set_trouble(trouble)
                self._stop.wait(1.0)
            finally:
                self._lock.release()
                self._lock = None

    def _set_trouble(self, trouble: VeenError | OSError) -> None:
        if isinstance(trouble, OSError):
            trouble = VeenError(ErrorCode.STORE, trouble.strerror or str(trouble))
        self._trouble = trouble
        logger.warning("spool.not_drained code=%s", trouble.code)

    def _drain(self) -> None:
        connection = self._standing.connection
        with (
            HubClient(
                connection.hub_url,
                connection.hub_pk,
                state_dir=self._folder / STATE,
                hub_id=connection.hub_id,
                timeout_s=10.0,
            ) as client,
            contextlib.closing(
                Lane(client, self._key, self._standing.token, on_refused=self._refused)
            ) as lane,
        ):
            self._lane = lane
            self._trouble = None
            try:
                self._take_all(lane)
            finally:
                self._lane = None

    def _take_all(self, lane: Lane) -> None:
        marks = self._marks = lane.producer.marks()
        for gone in marks.keys() - set(spool_files.names(self._folder)):
            lane.producer.drop_mark(gone)
        pace = _Pace(time.monotonic())
        while not self._stop.is_set():
            self._wake.clear()
            took = False
            is_burst = pace.is_burst(self._appended, time.monotonic())
            take_max = _BURST_TAKE_MAX if is_burst else _TAKE_MAX
            for names in spool_files.by_writer(self._folder).values():
                if self._may_take(lane):
                    # A writer's next file is begun only when all before it is taken.
                    took |= any(self._take(lane, name, marks, take_max) for name in names)
            if is_burst:
                self._stop.wait(_BURST_REST_S)
            if time.monotonic() - self._tidied_at > _TIDY_EVERY_S:
                self._tidy(lane)
            if not took:
                self._wake.wait(_LOOK_EVERY_S)

    def _may_take(self, lane: Lane) -> bool:
        """Whether the outbox takes more; on a full disk what it holds is sent and removed first."""
        if not lane.wait_for_room(_LOOK_EVERY_S):
            return False
        return lane.pending_ids() is None or spool_files.has_room_to_take(self._folder)

    def _tidy(self, lane: Lane) -> None:
        self._tidied_at = time.monotonic()
        now = int(time.time())
        lane.producer.forget_keys(now - KEPT_S)
        lane.producer.forget_keys(now - _ANSWER_KEPT_S, "s/")

    def _take(self, lane: Lane, name: str, marks: dict[str, int], take_max: int) -> bool:
        """Take a few entries of one file over; whether there were any."""
        path = self._folder / name
        start = marks.get(name, spool_files.FIRST)
        # Asked first: what is written between the two steps is seen by the reading.
        is_let_go = spool_files.is_let_go(path)
        piece = spool_files.read_piece(path, start, items_max=take_max)
        if piece.entries:
            fit = [((name, end), one) for end, one in piece.entries if self._is_fit(one)]
            lane.place(
                [self._item(place, one) for place, one in fit],
                [self._ticket(place, one) for place, one in fit],
                mark=Mark(source=name, position=piece.end),
            )
            marks[name] = piece.end
        elif is_let_go:
            self._remove(lane, path, piece.end, is_whole=not piece.has_more)
            marks.pop(name, None)
        return bool(piece.entries)

    def _is_fit(self, entry: SpoolEntry) -> bool:
        """Whether it can be authored; a newer connection file may have lost the stream."""
        refusal = None
        if not self._standing.has(entry.stream):
            refusal = VeenError(ErrorCode.CAP, "the connection file no longer has the stream")
        elif len(entry.body) > EVENT_BYTES_LIMIT:
            refusal = VeenError(ErrorCode.SIZE, "the event is larger than any stream takes")
        if refusal is not None:
            self._letters.add(stream=entry.stream, body=entry.body, key=entry.key, refusal=refusal)
        return refusal is None

    def _item(self, place: Place, entry: SpoolEntry) -> Item:
        standing = self._standing
        draft = Draft(
            label=standing.label(entry.stream),
            reader_pk=standing.reader_pk(entry.stream),
            header=_HEADER,
            body=entry.body,
        )
        if entry.key is None and not entry.wants_receipt:
            return Item(draft=draft)
        return Item(draft=draft, key=outbox_key(place, entry.key), content=entry.content)

    def _ticket(self, place: Place, entry: SpoolEntry) -> Callable[[Outcome], None] | None:
        if entry.key is None and not entry.wants_receipt:
            return None

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KeyConflictError):
                self._letters.add(
                    stream=entry.stream, body=entry.body, key=entry.key, refusal=outcome
                )
            self._on_answer(place, outcome)

        return answered

    def _remove(self, lane: Lane, path: Path, end: int, *, is_whole: bool) -> None:
        disk = Disk()
        if is_whole or spool_files.is_torn(path, end):
            disk.unlink(path)
        else:
            logger.error("spool.damaged file=%s offset=%d", path.name, end)
            disk.rename(path, path.with_suffix(".damaged"))
        # The mark may go only after the file is gone for good: it would be taken over again.
        disk.sync_dir(self._folder)
        lane.producer.drop_mark(path.name)

    def _refused(self, entry: Entry, refusal: VeenError) -> None:
        """Keep what the hub refuses for good, before it leaves the outbox."""
        assert self._lane is not None
        draft = self._lane.producer.draft(entry)
        names = {one.label: one.name for one in self._standing.connection.streams}
        self._letters.add(
            stream=names.get(draft.label, draft.label.hex()),
            body=draft.body,
            key=self._lane.producer.key_of(entry),
            refusal=refusal,
        )
        logger.error("event.refused code=%s", refusal.code)
