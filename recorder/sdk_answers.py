"""Who waits for a receipt, and where it is found: here, or in the draining process [SDR0 3.2.1]."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hub.client import OutboxReader
from hub.client.lane import KeyConflictError, Outcome
from hub.errors import VeenError
from hub.types import Label, PublicKey
from recorder.codes import RecordCode, RecordError
from recorder.event import stored_key
from recorder.recorded import Recorded
from recorder.spool_files import SpoolEntry

_LOOK_MAX: Final = 500  # keys asked for at once


Place = tuple[str, int]  # of a spool entry: its file, and the offset behind it


def outbox_key(place: Place, key: str | None) -> str:
    """The key of a spool entry in the outbox: the caller's own, else its place."""
    return f"s/{place[0]}/{place[1]}" if key is None else stored_key(key)


@dataclass(frozen=True, slots=True)
class _Waiting:
    key: str
    stream: str
    content: bytes
    future: Future[Recorded]


NameOf = Callable[[Label], str | None]
Expect = Callable[[Place, SpoolEntry], Future[Recorded]]


class Answers:
    """The futures of one process, by the place of their spool entry."""

    def __init__(self, principal: PublicKey, reader: OutboxReader, name_of: NameOf) -> None:
        self._principal = principal
        self._name_of = name_of
        self._reader = reader
        self._guard = threading.Lock()
        self._waiting: dict[Place, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def expecting(self) -> Iterator[Expect]:
        """Append to the spool inside: no answer is heard before the future stands here."""
        with self._guard:
            yield self._expect

    def _expect(self, place: Place, entry: SpoolEntry) -> Future[Recorded]:
        future: Future[Recorded] = Future()
        key = outbox_key(place, entry.key)
        self._waiting[place] = _Waiting(key, entry.stream, entry.content, future)
        return future

    def answer(self, place: Place, outcome: Outcome) -> None:
        """What became of an entry, told by the drainer of this process."""
        with self._guard:
            waiting = self._waiting.pop(place, None)
        if waiting is not None:
            self._resolve(waiting, outcome)

    def look(self) -> None:
        """Ask the outbox that another process holds."""
        with self._guard:
            asked = list(self._waiting.items())[:_LOOK_MAX]
        found = self._reader.find([one.key for _, one in asked])
        for place, one in asked:
            state = found.get(one.key)
            if state is not None and not state.is_about(one.content):
                self.answer(place, KeyConflictError())
            elif state is not None and state.receipt is not None:
                self.answer(place, state.receipt)

    def give_up(self) -> None:
        """The recorder is closed: events stay in the spool, and nobody waits for them here."""
        with self._guard:
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for one in waiting:
            one.future.cancel()

    def _resolve(self, one: _Waiting, outcome: Outcome) -> None:
        if not one.future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, KeyConflictError):
            refusal = RecordError(RecordCode.IDEMPOTENCY_CONFLICT, outcome.detail)
            one.future.set_exception(refusal)
        elif isinstance(outcome, VeenError):
            one.future.set_exception(outcome)
        else:
            # A key that was used before may have been for another stream than the type's of today.
            stream = self._name_of(outcome.label) or one.stream
            recorded = Recorded(stream=stream, principal=self._principal, receipt=outcome)
            one.future.set_result(recorded)
