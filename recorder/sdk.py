"""Recording from a service: `Recorder(connection_file).record(...)` [SDR0 3.2; interfaces].

`record` judges the event, appends it to the spool of this host and returns. Everything else happens
behind: one process of the host authors, stores and sends, through any outage, and checks every
receipt. Nothing is trusted but the connection file.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NotRequired, Self, TypedDict, Unpack

from hub.canonical_json import Encodable
from hub.client import OutboxReader
from hub.client.outbox_file import outbox_path
from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage.disk import Disk
from hub.types import ClientId
from recorder import sdk_readerkeys, sdk_standing, spool_files
from recorder.codes import RecordError
from recorder.deadletters import DeadLetters
from recorder.event import check_size, content_of, read_incoming, stored_key
from recorder.recorded import Recorded
from recorder.sdk_answers import Answers
from recorder.sdk_drain import STATE, Drainer
from recorder.sdk_standing import Standing
from recorder.spool import BYTES_MAX, SpoolWriter
from recorder.spool_files import SpoolEntry

logger = logging.getLogger(__name__)

_SYNC_EVERY_S: Final = 0.1
_LOOK_EVERY_S: Final = 0.02
_RELOAD_EVERY_S: Final = 5.0
_ASK_EVERY_S: Final = 60.0  # for newer reader keys


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderState:
    """How the spool of this host is doing."""

    spooled_bytes: int
    is_draining: bool  # by this process
    pending: int | None  # authored, without receipt; known to the draining process
    dead_letters: int
    trouble: VeenError | None


class EventFields(TypedDict):
    """What `record` takes; None is as good as nothing."""

    event_type: str
    subject_id: str
    payload: NotRequired[Encodable]
    origin: NotRequired[str | None]  # the producer's name by default
    event_time: NotRequired[str | None]  # like 2026-03-01T09:00:00.250Z; now by default
    idempotency_key: NotRequired[str | None]
    stream: NotRequired[str | None]  # refused unless the event type belongs there


class Recorder:
    """One producer on this host; threads may share it, processes share its spool directory."""

    def __init__(
        self,
        connection_file: Path | str,
        spool_dir: Path | str | None = None,
        *,
        token_file: Path | str | None = None,
        spool_bytes_max: int = BYTES_MAX,
    ) -> None:
        """With a token of the web process, newer reader keys are asked for now and then."""
        self._file = Path(connection_file)
        self._token_file = None if token_file is None else Path(token_file)
        connection = sdk_standing.read_connection(self._file)
        assert connection.producer is not None
        self._name = connection.producer.name
        self._key = sdk_standing.producer_key(connection)
        default = sdk_standing.default_spool_dir(connection)
        self.spool_dir = default if spool_dir is None else Path(spool_dir)
        sdk_standing.claim(self.spool_dir, connection)
        self.standing = Standing(connection, self.spool_dir)
        folder = self.spool_dir / STATE / "outbox"
        outbox = outbox_path(folder, ClientId(self._key.public))
        spool_files.make_folder(outbox.parent, Disk())
        self._outbox = OutboxReader(outbox)
        self._spool_bytes_max = spool_bytes_max
        self._read_at = self._file.stat().st_mtime_ns
        self._guard = threading.Lock()
        self._is_closed = False
        self._begin()
        _ALIVE.add(self)

    def _begin(self) -> None:
        """What belongs to one process; threads are started when they are first needed."""
        self._spool = SpoolWriter(self.spool_dir, bytes_max=self._spool_bytes_max)
        self._answers = Answers(self._key.public, self._outbox, self.standing.name_of)
        self._stop = threading.Event()
        self._drainer: Drainer | None = None
        self._keeper: threading.Thread | None = None
        self._sync_flaw: StoreError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- recording

    def record(self, **event: Unpack[EventFields]) -> None:
        """Have an event recorded; returns when it is in the spool.

        Raises RecordError for an event that is refused, and StoreError when the spool is full or
        cannot be written: then nothing was recorded.
        """
        self._append(_given(event), wants_receipt=False)

    def record_json(self, found: object) -> None:
        """As `record`, for an event as the gateway would take it; unknown keys are refused."""
        self._append(found, wants_receipt=False)

    def submit(self, **event: Unpack[EventFields]) -> Future[Recorded]:
        """As `record`, with a future of the verified receipt."""
        return self.submit_json(_given(event))

    def record_and_wait(
        self, *, timeout: float | None = None, **event: Unpack[EventFields]
    ) -> Recorded:
        """As `record`, but returns with the receipt; TimeoutError leaves the event on its way."""
        return self.submit(**event).result(timeout)

    def submit_json(self, found: object) -> Future[Recorded]:
        """As `submit`, for an event as the gateway would take it; unknown keys are refused."""
        future = self._append(found, wants_receipt=True)
        assert future is not None
        return future

    def _append(self, found: object, *, wants_receipt: bool) -> Future[Recorded] | None:
        if self._is_closed:
            raise _closed()
        incoming = read_incoming(
            found, now_ms=time.time_ns() // 1_000_000, default_origin=self._name
        )
        standing = self.standing
        body = incoming.event.encode()
        key = incoming.idempotency_key
        try:
            config = standing.map.route(
                incoming.event.event_type, asked=incoming.stream, allowed=standing.allowed
            )
            check_size(body, config.event_bytes_max)
            stream = config.name
        except RecordError:
            if key is None or (before := self._stream_before(key)) is None:
                raise
            stream = before
        entry = SpoolEntry(
            stream=stream,
            body=body,
            key=key,
            content=b"" if key is None else h(content_of(found)),
            wants_receipt=wants_receipt,
        )
        if self._drainer is None:
            self._start()
        if not wants_receipt:
            self._spool.append(entry)
            self._wake()
            return None
        # Noted before the drainer can answer: it must find who waits.
        with self._answers.expecting() as expect:
            future = expect(self._spool.append(entry), entry)
        self._wake()
        return future

    def _stream_before(self, key: str) -> str | None:
        """Where a key's event was recorded: its first answer holds, whatever streams there are."""
        stored = stored_key(key)
        state = self._outbox.find([stored]).get(stored) if self._outbox.exists() else None
        if state is None or state.receipt is None:
            return None
        return self.standing.name_of(state.receipt.label)

    def _wake(self) -> None:
        drainer = self._drainer
        if drainer is not None:
            drainer.wake()

    # -- the rest of its life

    def flush(self, timeout: float | None = None) -> bool:
        """Whether everything recorded by this process so far is answered, now or within the time.

        Raises where the spool could not be synced to the disk since the last call.
        """
        self._start()
        self._spool.sync()
        flaw, self._sync_flaw = self._sync_flaw, None
        if flaw is not None:
            raise flaw
        end = None if timeout is None else time.monotonic() + timeout
        written = dict(self._spool.ends)
        last: list[int] = []
        return _until(lambda: self._is_answered(written, last), end)

    def _is_answered(self, written: dict[str, int], last: list[int]) -> bool:
        """Whether these files are taken over, and every entry up to that moment is answered."""
        found = None if self._drainer is None else self._drainer.progress()
        if found is None:
            try:
                if not self._outbox.exists():
                    return not written
                found = self._outbox.marks(), self._outbox.pending_ids()
            except StoreError:  # It is being opened, or was left by a killed process and is mended.
                return False
        marks, pending = found
        if not last:
            if not self._is_taken(written, marks):
                return False
            last.append(0 if pending is None else pending[1])
        return pending is None or pending[0] > last[0]

    def _is_taken(self, written: dict[str, int], marks: dict[str, int]) -> bool:
        there = set(spool_files.names(self.spool_dir))
        for name in written.keys() - there:
            self._spool.ends.pop(name, None)
        return all(marks.get(name, 0) >= end for name, end in written.items() if name in there)

    def state(self) -> RecorderState:
        """How the spool is doing."""
        drainer = self._drainer
        lane = None if drainer is None else drainer.state()
        return RecorderState(
            spooled_bytes=spool_files.total_bytes(self.spool_dir),
            is_draining=lane is not None,
            pending=None if lane is None else lane.pending,
            dead_letters=DeadLetters(self.spool_dir).count(),
            trouble=None if drainer is None else drainer.trouble,
        )

    def close(self, timeout: float = 5.0) -> bool:
        """Give the rest so much time, then stop; what is left stays in the spool.

        Whether nothing was left.
        """
        with self._guard:
            if self._is_closed:
                return True
            self._is_closed = True
        is_done = self._drainer is None or self.flush(timeout)
        self._stop.set()
        if self._drainer is not None:
            self._drainer.close()
        if self._keeper is not None:
            self._keeper.join()
        self._answers.give_up()
        self._spool.close()
        _ALIVE.discard(self)
        return is_done

    # -- the keeper: syncs, hears answers of other processes, follows the connection file

    def _start(self) -> None:
        with self._guard:
            if self._drainer is None:
                self._keeper = threading.Thread(target=self._keep, name="veen-keeper", daemon=True)
                self._keeper.start()
                if self._token_file is not None:
                    asker = (self._token_file,)
                    threading.Thread(target=self._ask, args=asker, daemon=True).start()
                self._drainer = Drainer(
                    self.standing, self._key, self.spool_dir, self._answers.answer
                )

    def _keep(self) -> None:
        synced_at = reloaded_at = time.monotonic()
        while not self._stop.wait(_LOOK_EVERY_S if len(self._answers) else _SYNC_EVERY_S):
            now = time.monotonic()
            try:
                if now - synced_at >= _SYNC_EVERY_S:
                    synced_at = now
                    self._spool.sync()
                if len(self._answers) and self._drainer and not self._drainer.is_draining:
                    self._answers.look()
                if now - reloaded_at >= _RELOAD_EVERY_S:
                    reloaded_at = now
                    self.reload()
            except StoreError as flaw:
                self._sync_flaw = flaw
                logger.warning("spool.not_synced code=%s", flaw.code)
            except VeenError as refusal:
                logger.warning("connection.not_renewed code=%s", refusal.code)

    def _ask(self, token_file: Path) -> None:
        """Look for newer reader keys; a thread of its own, since the web process may be slow."""
        while True:
            try:
                sdk_readerkeys.refresh(self.standing, token_file)
            except VeenError as refusal:
                logger.warning("reader_keys.not_refreshed code=%s", refusal.code)
            except OSError:  # A full disk: they are asked for again, and remembered then.
                logger.warning("reader_keys.not_refreshed code=%s", ErrorCode.STORE)
            if self._stop.wait(_ASK_EVERY_S):
                return

    def reload(self) -> bool:
        """Follow a connection file that was replaced; whether it was."""
        try:
            changed_at = self._file.stat().st_mtime_ns
        except OSError:
            return False  # What was read at the start is held on to.
        if changed_at == self._read_at:
            return False
        self._read_at = changed_at
        self.standing.renew(sdk_standing.read_connection(self._file))
        if self._drainer is not None:
            self._drainer.renew()
        return True

    def after_fork(self) -> None:
        """In a forked child: leave the parent's files and threads alone, begin anew."""
        _ORPHANS.append((self._spool, self._drainer, self._answers))
        self._spool.abandon()
        if self._drainer is not None:
            self._drainer.abandon()
        self._guard = threading.Lock()
        self._begin()


_ALIVE: weakref.WeakSet[Recorder] = weakref.WeakSet()
_ORPHANS: list[object] = []  # of a parent process; closing them here would disturb it


def _after_fork() -> None:
    for recorder in list(_ALIVE):
        recorder.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _closed() -> VeenError:
    return VeenError(ErrorCode.CONFIG, "the recorder is closed; the event was not recorded")


def _given(event: EventFields) -> dict[str, object]:
    return {name: value for name, value in event.items() if value is not None}


def _until(is_true: Callable[[], bool], end: float | None) -> bool:
    while not is_true():
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True
