"""A producer at work in the background: what is placed here is sent until it is answered [RESYNC0].

Whoever places items authors and stores them in its own thread; one thread of the lane sends. It
outlives every outage: a refusal that may pass is waited out, one for good is handed to the owner
and taken back, and a hub that contradicts itself stops the lane from believing it, never from
keeping what it holds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hub.client.author import Item, Placed
from hub.client.conveyor import Conveyor, take_row
from hub.client.keyed import KeyedState, Mark
from hub.client.outbox import Entry
from hub.client.outcome import TRANSIENT, RefusedError, Submitted
from hub.client.producer import Producer
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Label
from hub.wire.captoken import CapToken
from hub.wire.receipt import Receipt

if TYPE_CHECKING:
    from hub.client.hubclient import HubClient

logger = logging.getLogger(__name__)

PENDING_MAX: Final = 8192  # entries without receipt; a feeder waits or refuses beyond it
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0
_HEADS_EVERY_S: Final = 5.0


class KeyConflictError(VeenError):
    """The key was used before, for other content."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.DUP, "the key was used before with other content")


Outcome = Receipt | VeenError
Ticket = Callable[[Outcome], None]  # called once, in the lane's thread or in that of `place`


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    """How the lane is doing."""

    pending: int
    sent: int  # receipts since it was opened
    refused: int  # for good
    trouble: VeenError | None  # why nothing goes out at the moment


class Lane:
    """One signing key, one outbox, one sending thread; one thread of the owner places."""

    def __init__(
        self,
        client: HubClient,
        key: SigningKey,
        token: CapToken,
        *,
        on_refused: Callable[[Entry, VeenError], None] | None = None,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self._client = client
        self._token = token
        self._producer: Producer = client.producer(
            key, auth_ref=token.auth_ref(), retries_max=0, sleep=lambda _: None
        )
        self._producer.on_settled = self._settled
        self._conveyor = Conveyor(client, self._producer)
        self._on_refused = on_refused
        self.pending_max = pending_max
        self._changed = threading.Condition()
        self._waiting: deque[Entry] = deque()  # stored here, not sent yet
        self._own: dict[int, None] = {}  # stored here, without receipt, in the order of their ids
        self._recovered = self._counted()  # stored by an earlier process
        self._tickets: dict[int, list[Ticket]] = {}
        self._early: dict[int, Outcome] = {}  # answered before `place` had noted the entry
        self._known: set[Label] = set()
        self._sent = self._refused = 0
        self._trouble: VeenError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="veen-lane", daemon=True)
        self._thread.start()

    def _counted(self) -> int:
        try:
            return self._producer.pending()
        except VeenError:
            with contextlib.suppress(VeenError, OSError):  # Why it cannot be read is what counts.
                self._producer.close()
            raise

    # -- the owner's side

    @property
    def producer(self) -> Producer:
        """For its keys, marks and drafts."""
        return self._producer

    def state(self) -> LaneState:
        """How it is doing now."""
        with self._changed:
            return LaneState(
                pending=self._pending(),
                sent=self._sent,
                refused=self._refused,
                trouble=self._trouble,
            )

    def _pending(self) -> int:
        return len(self._own) + self._recovered

    def wait_for_room(self, timeout_s: float) -> bool:
        """Whether another entry may be placed, now or within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._pending() < self.pending_max, timeout_s)

    def pending_ids(self) -> tuple[int, int] | None:
        """The first and the last entry without receipt, 0 standing for those of earlier times."""
        with self._changed:
            if not self._pending():
                return None
            last = next(reversed(self._own), 0)
            return (0 if self._recovered else next(iter(self._own))), last

    def wait_idle(self, timeout_s: float | None) -> bool:
        """Whether everything placed so far is answered, now or within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending(), timeout_s)

    def place(
        self,
        items: Sequence[Item],
        tickets: Sequence[Ticket | None] = (),
        *,
        mark: Mark | None = None,
    ) -> list[Placed]:
        """Author, make durable, and have it sent; a ticket hears the receipt or the refusal."""
        placed = self._producer.enqueue_items(items, mark=mark)
        calls: list[tuple[Ticket, Outcome]] = []
        with self._changed:
            for place, one in enumerate(placed):
                ticket = tickets[place] if tickets else None
                if one.entry is not None:
                    self._note(one.entry, ticket, calls)
                elif ticket is not None:
                    assert one.state is not None
                    self._join(one.state, items[place].content, ticket, calls)
            self._changed.notify_all()
        for ticket, outcome in calls:
            ticket(outcome)
        return placed

    def _note(
        self, entry: Entry, ticket: Ticket | None, calls: list[tuple[Ticket, Outcome]]
    ) -> None:
        outcome = self._early.pop(entry.id, None)
        if outcome is None:
            self._own[entry.id] = None
            self._waiting.append(entry)
            if ticket is not None:
                self._tickets[entry.id] = [ticket]
        elif ticket is not None:
            calls.append((ticket, outcome))

    def _join(
        self,
        state: KeyedState,
        content: bytes,
        ticket: Ticket,
        calls: list[tuple[Ticket, Outcome]],
    ) -> None:
        """Wait for what an earlier call enqueued, unless it is answered already."""
        found = state if state.is_settled else self._producer.keyed(state.key)
        if not state.is_about(content):
            calls.append((ticket, KeyConflictError()))
        elif found is None:
            # Refused since it was looked up. The key is free again, so asking again is right.
            calls.append((ticket, VeenError(ErrorCode.BUSY, "refused meanwhile", retry_after_s=1)))
        elif found.receipt is not None:
            calls.append((ticket, found.receipt))
        else:
            assert found.entry_id is not None
            self._tickets.setdefault(found.entry_id, []).append(ticket)

    def renew(self, token: CapToken) -> None:
        """Author with a renewed capability from now on."""
        self._token = token
        self._producer.auth_ref = token.auth_ref()

    def close(self) -> None:
        """Stop sending; what has no receipt stays in the outbox."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._conveyor.interrupt()
        self._client.http.interrupt()
        self._thread.join()
        self._producer.close()

    def abandon(self) -> None:
        """In a forked child: let go of what the parent holds."""
        self._producer.abandon()

    # -- the sending thread

    def _run(self) -> None:
        is_smooth = False  # An earlier process may have left entries behind.
        saved_at = time.monotonic()
        while not self._stop.is_set():
            if is_smooth:
                if not self._waiting:
                    with contextlib.suppress(VeenError):  # The next entry will hear of it.
                        self._producer.rest()
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._waiting or self._stop.is_set(), _HEADS_EVERY_S
                    )
                is_smooth = self._convey()
            else:
                is_smooth = self._deliver()
            if time.monotonic() - saved_at > _HEADS_EVERY_S:
                saved_at = time.monotonic()
                with contextlib.suppress(OSError):  # A full disk; the outbox says so by itself.
                    self._client.heads.save()
        self._conveyor.close()

    def _convey(self) -> bool:
        """Send what waits in rows; whether all of it was answered well."""
        conveyor = self._conveyor
        try:
            while not self._stop.is_set():
                if self._waiting and conveyor.has_room():
                    with self._changed:
                        row = take_row(self._waiting)
                    if not all(self._is_known(entry.label) for entry in row):
                        break
                    conveyor.send(row)
                elif not len(conveyor):
                    return True
                elif conveyor.receive() is not None:
                    break
        except VeenError as broken:
            if broken.code not in TRANSIENT:
                self._set_trouble(broken)
        conveyor.close()
        return False

    def _is_known(self, label: Label) -> bool:
        if label not in self._known and self._producer.is_known(label):
            self._known.add(label)
        return label in self._known

    def _deliver(self) -> bool:
        """Send with care until nothing is pending; False only when stopping."""
        tries = 0
        while not self._stop.is_set():
            sent = self._sent
            trouble = self._try()
            if trouble is None:
                self._set_trouble(None)
                with self._changed:
                    self._waiting = deque(one for one in self._waiting if one.id in self._own)
                return True
            tries = tries + 1 if sent == self._sent else 1
            self._set_trouble(trouble)
            self._stop.wait(_pause_s(tries, trouble))
        return False

    def _try(self) -> VeenError | None:
        """Send until nothing is pending, or until something must be waited for."""
        while not self._stop.is_set():
            try:
                self._producer.flush()
            except RefusedError as refused:
                if refused.code in TRANSIENT or refused.code is ErrorCode.TIME:
                    return refused
                try:
                    self._overcome(refused)
                except VeenError as broken:
                    return broken
            except VeenError as broken:
                return broken
            else:
                return None
        return None

    def _overcome(self, refused: RefusedError) -> None:
        """Deal with a refusal so that sending may go on; raises what must be waited for."""
        if refused.code is ErrorCode.AUTH:
            # The authority may be admitted or renewed at any time, so its events wait for it.
            self._client.authorize(self._token)
            self._producer.flush()
            return
        if self._on_refused is not None:
            self._on_refused(refused.entry, refused)
        try:
            self._producer.withdraw(refused.entry)
        except VeenError as broken:
            if broken.code is ErrorCode.DUP:  # Committed after all: the next flush settles it.
                return
            raise
        self._finish([(refused.entry.id, refused)])

    def _settled(self, done: Sequence[tuple[Entry, Submitted]]) -> None:
        self._sent += len(done)
        self._set_trouble(None)
        self._finish([(entry.id, found.receipt) for entry, found in done])

    def _finish(self, outcomes: Sequence[tuple[int, Outcome]]) -> None:
        """Entries that are answered: count them and tell who waits."""
        calls: list[tuple[Ticket, Outcome]] = []
        with self._changed:
            for entry_id, outcome in outcomes:
                if isinstance(outcome, VeenError):
                    self._refused += 1
                if entry_id < self._producer.first_id:
                    self._recovered -= 1
                elif entry_id in self._own:
                    del self._own[entry_id]
                else:
                    self._early[entry_id] = outcome
                calls += [(ticket, outcome) for ticket in self._tickets.pop(entry_id, ())]
            self._changed.notify_all()
        for ticket, outcome in calls:
            ticket(outcome)

    def _set_trouble(self, trouble: VeenError | None) -> None:
        before, self._trouble = self._trouble, trouble
        if trouble is not None and (before is None or before.code is not trouble.code):
            logger.warning("lane.waits code=%s", trouble.code)
        elif trouble is None and before is not None:
            logger.info("lane.goes_on after=%s", before.code)


def _pause_s(tries: int, trouble: VeenError) -> float:
    if trouble.retry_after_s is not None:
        return float(min(trouble.retry_after_s, _PAUSE_MAX_S))
    return float(min(_PAUSE_FIRST_S * 2 ** min(tries - 1, 16), _PAUSE_MAX_S))
