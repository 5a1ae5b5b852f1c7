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
from hub.types import PublicKey
from recorder.codes import RecordCode, RecordError
from recorder.recorded import Recorded

_LOOK_MAX: Final = 500  # keys asked for at once


@dataclass(frozen=True, slots=True)
class _Waiting:
    stream: str
    content: bytes
    future: Future[Recorded]


Expect = Callable[[str, str, bytes], Future[Recorded]]  # key, stream, content


class Answers:
    """The futures of one process, by the key of their spool entry."""

    def __init__(self, principal: PublicKey, reader: OutboxReader) -> None:
        self._principal = principal
        self._reader = reader
        self._guard = threading.Lock()
        self._waiting: dict[str, list[_Waiting]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def expecting(self) -> Iterator[Expect]:
        """Append to the spool inside: no answer is heard before the future stands here."""
        with self._guard:
            yield self._expect

    def _expect(self, key: str, stream: str, content: bytes) -> Future[Recorded]:
        future: Future[Recorded] = Future()
        self._waiting.setdefault(key, []).append(_Waiting(stream, content, future))
        return future

    def answer(self, key: str, outcome: Outcome) -> None:
        """What became of an entry, told by the drainer of this process."""
        with self._guard:
            waiting = self._waiting.pop(key, [])
        for one in waiting:
            _resolve(one, outcome, self._principal)

    def look(self) -> None:
        """Ask the outbox that another process holds."""
        with self._guard:
            keys = list(self._waiting)[:_LOOK_MAX]
        for key, state in self._reader.find(keys).items():
            with self._guard:
                waiting = self._waiting.get(key, [])
                others = [one for one in waiting if not state.is_about(one.content)]
                if state.is_settled or len(others) == len(waiting):
                    self._waiting.pop(key, None)
                else:
                    self._waiting[key] = [one for one in waiting if one not in others]
            for one in others:
                _resolve(one, KeyConflictError(), self._principal)
            if state.receipt is not None:
                for one in waiting:
                    if one not in others:
                        _resolve(one, state.receipt, self._principal)

    def give_up(self) -> None:
        """The recorder is closed: events stay in the spool, and nobody waits for them here."""
        with self._guard:
            waiting = [one for row in self._waiting.values() for one in row]
            self._waiting.clear()
        for one in waiting:
            one.future.cancel()


def _resolve(one: _Waiting, outcome: Outcome, principal: PublicKey) -> None:
    if not one.future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, KeyConflictError):
        refusal = RecordError(RecordCode.IDEMPOTENCY_CONFLICT, outcome.detail)
        one.future.set_exception(refusal)
    elif isinstance(outcome, VeenError):
        one.future.set_exception(outcome)
    else:
        recorded = Recorded(stream=one.stream, principal=principal, receipt=outcome)
        one.future.set_result(recorded)
