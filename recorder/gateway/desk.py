"""A producer's desk: its requests are judged, authored and sent off the event loop [architecture].

One thread judges and authors: what arrived from all requests while it was busy forms the next
batch. The lane's thread sends and brings the receipts. An event that is in the outbox is pending
and keeps its key; one that is refused before that leaves no trace.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hub.client import HubClient, Item, OutboxReader
from hub.client.keyed import KeyedState
from hub.client.lane import PENDING_MAX, KeyConflictError, Lane, LaneState, Outcome
from hub.client.outbox import Entry
from hub.client.outbox_file import outbox_path
from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.storage.disk import Disk
from hub.types import ClientId, PublicKey
from hub.wire.receipt import Receipt
from recorder import spool_files
from recorder.codes import RecordCode, RecordError
from recorder.deadletters import DeadLetters
from recorder.gateway.config import GatewayConfig, Held
from recorder.gateway.intake import judge, read_event, read_request
from recorder.gateway.rate import Bucket
from recorder.gateway.reply import PENDING, Reply, Result, error_result, refusal_of
from recorder.recorded import Recorded

logger = logging.getLogger("gateway")

KEPT_S: Final = 7 * 86_400
_JOBS_MAX: Final = 512  # requests that wait for the desk
_JOB_BYTES_MAX: Final = 64 * 1024 * 1024
_TAKE_BYTES: Final = 65_536
_BATCH_EVENTS: Final = 256  # authored in one go
_TIDY_EVERY_S: Final = 600.0
OUTBOX: Final = "outbox"


@dataclass(frozen=True, slots=True)
class Job:
    """One request."""

    body: bytes
    reply: Reply


class Jobs:
    """Requests that wait for the desk, bounded in number and bytes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._bytes = 0
        self._is_awake = False
        self._in_hand = False  # what was taken is not in the outbox yet

    def put(self, job: Job) -> bool:
        """Whether there was room for it."""
        with self._changed:
            if len(self._waiting) >= _JOBS_MAX or self._bytes >= _JOB_BYTES_MAX:
                return False
            self._waiting.append(job)
            self._bytes += len(job.body)
            self._changed.notify()
        return True

    def take(self, timeout_s: float) -> list[Job]:
        """What has come in, waiting for the first; few enough to be authored in one go or two."""
        with self._changed:
            self._in_hand = False
            self._changed.wait_for(lambda: self._waiting or self._is_awake, timeout_s)
            self._is_awake = False
            taken: list[Job] = []
            size = 0
            while self._waiting and (not taken or size < _TAKE_BYTES):
                taken.append(self._waiting.popleft())
                size += len(taken[-1].body)
            self._bytes -= size
            self._in_hand = bool(taken)
        return taken

    def is_idle(self) -> bool:
        """Whether every request that came in was judged and placed."""
        with self._changed:
            return not self._waiting and not self._in_hand

    def wake(self) -> None:
        """Let `take` return empty-handed."""
        with self._changed:
            self._is_awake = True
            self._changed.notify()


@dataclass(frozen=True, slots=True)
class _Line:
    """One judged event on its way into the outbox."""

    item: Item
    reply: Reply
    index: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """A key that was used before, and under which of the producer's keys."""

    principal: PublicKey
    state: KeyedState
    is_own: bool


class Desk:
    """One producer, its key, its outbox, two threads."""

    def __init__(self, config: GatewayConfig, held: Held, key: SigningKey, folder: Path) -> None:
        self._config = config
        self._held = held
        self._key = key
        self._folder = folder
        self._letters = DeadLetters(folder)
        self._bucket = Bucket(held.cap_token.rate, time.monotonic())
        self._jobs = Jobs()
        self._elders = _elders(folder / OUTBOX, held.principal)
        self._lane: Lane | None = None
        self._trouble: VeenError | None = None
        self._is_closing = False
        self._tidied_at = 0.0
        self.refused = 0  # events refused at the door
        self._thread = threading.Thread(target=self._run, name="gateway-desk", daemon=True)
        self._thread.start()

    # -- the event loop's side

    def submit(self, job: Job) -> None:
        """Queue a request, or refuse it: its producer asks for more than it is served."""
        if not self._jobs.put(job):
            job.reply.refuse(_rate_limited())

    def renew(self, config: GatewayConfig, held: Held) -> None:
        """Go on with a newer configuration."""
        if held.cap_token != self._held.cap_token:
            self._bucket = Bucket(held.cap_token.rate, time.monotonic())
            if self._lane is not None:
                self._lane.renew(held.cap_token)
        self._config, self._held = config, held

    def state(self) -> LaneState:
        """How its lane is doing."""
        lane = self._lane
        if lane is None:
            return LaneState(pending=0, sent=0, refused=0, trouble=self._trouble)
        return lane.state()

    def is_idle(self) -> bool:
        """Whether nobody waits for this desk and nothing it took lacks its receipt."""
        return self._jobs.is_idle() and not self.state().pending

    def close(self) -> None:
        """Stop; what has no receipt stays in the outbox."""
        self._is_closing = True
        self._jobs.wake()
        self._thread.join()

    # -- its thread

    def _run(self) -> None:
        while not self._is_closing:
            try:
                with self._open_client() as client, self._open_lane(client) as lane:
                    self._lane, self._trouble = lane, None
                    self._serve(lane)
            except VeenError as trouble:
                self._trouble = trouble
                logger.warning("desk.closed producer=%s code=%s", self._held.name, trouble.code)
                self._refuse_waiting(refusal_of(trouble), 1.0)
            finally:
                self._lane = None

    def _open_client(self) -> HubClient:
        config = self._config
        outbox = outbox_path(self._folder / OUTBOX, ClientId(self._held.principal))
        spool_files.make_folder(outbox.parent, Disk())
        return HubClient(
            config.hub_url,
            config.hub_pk,
            state_dir=self._folder,
            hub_id=config.hub_id,
            timeout_s=10.0,
        )

    def _open_lane(self, client: HubClient) -> contextlib.closing[Lane]:
        token = self._held.cap_token
        return contextlib.closing(Lane(client, self._key, token, on_refused=self._keep))

    def _refuse_waiting(self, refusal: RecordError, seconds: float) -> None:
        """Answer what comes in while there is no lane."""
        end = time.monotonic() + seconds
        while not self._is_closing and (left := end - time.monotonic()) > 0:
            for job in self._jobs.take(left):
                job.reply.refuse(refusal)

    def _serve(self, lane: Lane) -> None:
        while not self._is_closing:
            if time.monotonic() - self._tidied_at > _TIDY_EVERY_S:
                self._tidied_at = time.monotonic()
                lane.producer.forget_keys(int(time.time()) - KEPT_S)
            lines: list[_Line] = []
            for job in self._jobs.take(_TIDY_EVERY_S):
                self._judge(lane, job, lines)
            for start in range(0, len(lines), _BATCH_EVENTS):
                self._place(lane, lines[start : start + _BATCH_EVENTS])

    def _judge(self, lane: Lane, job: Job, lines: list[_Line]) -> None:
        """Read one request; what may be recorded becomes lines, the rest has its result."""
        try:
            events, is_batch = read_request(job.body)
        except RecordError as refusal:
            self.refused += 1
            job.reply.refuse(refusal)
            return
        if not job.reply.expect(len(events), is_batch=is_batch):
            return  # The client's patience was over before its request was read.
        config, held = self._config, self._held
        now_ms = time.time_ns() // 1_000_000
        state = lane.state()
        taken = {line.item.key for line in lines}
        for index, found in enumerate(events):
            prefix = f"/events/{index}" if is_batch else ""
            known = None
            try:
                asked = read_event(found, prefix=prefix, held=held, now_ms=now_ms)
                key = asked.key
                if key is not None and key not in taken:
                    known = self._known(lane, key)
                if known is not None and (again := self._again(known, asked.content)) is not None:
                    job.reply.set(index, again)
                    continue
                item = judge(asked, prefix=prefix, config=config, held=held)
                is_new = known is None and (key is None or key not in taken)
                if is_new:
                    self._check_room(state, len(lines), has_key=key is not None)
                    taken.add(key)
            except RecordError as refusal:
                if known is not None:  # It was taken when the streams were others, and waits.
                    job.reply.set(index, error_result(PENDING, is_pending=True))
                    continue
                self.refused += 1
                job.reply.set(index, error_result(refusal))
                continue
            lines.append(_Line(item, job.reply, index, is_new))

    def _known(self, lane: Lane, key: str) -> _Known | None:
        """What was recorded under a key, also with an earlier key of the producer's own."""
        state = lane.producer.keyed(key)
        if state is not None:
            return _Known(self._held.principal, state, is_own=True)
        for principal, elder in self._elders.items():
            state = elder.find([key]).get(key)
            if state is not None:
                return _Known(principal, state, is_own=False)
        return None

    def _again(self, known: _Known, content: bytes) -> Result | None:
        """The answer that the key got first, whatever streams there are now.

        None where its event waits in this desk's lane: whoever asks again waits with it.
        """
        if not known.state.is_about(content):
            return error_result(_conflict())
        if known.state.receipt is not None:
            return 200, self._recorded(known.principal, known.state.receipt).to_json()
        return None if known.is_own else error_result(PENDING, is_pending=True)

    def _recorded(self, principal: PublicKey, receipt: Receipt) -> Recorded:
        """With the name of the stream that the receipt is of: an event type may have moved on."""
        name = self._config.names.get(receipt.label, receipt.label.hex())
        return Recorded(stream=name, principal=principal, receipt=receipt)

    def _check_room(self, state: LaneState, ahead: int, *, has_key: bool) -> None:
        if state.trouble is not None and not has_key:
            # Without a key a retry would record twice, so nothing is taken that must wait.
            message = "the hub is away; an event without idempotency_key is not taken meanwhile"
            raise RecordError(RecordCode.HUB_UNAVAILABLE, message)
        if state.pending + ahead >= PENDING_MAX:
            raise RecordError(RecordCode.HUB_UNAVAILABLE, "too many events wait for the hub")
        if not self._bucket.take(time.monotonic()):
            raise _rate_limited()

    def _place(self, lane: Lane, lines: list[_Line]) -> None:
        try:
            lane.place([line.item for line in lines], [self._ticket(one) for one in lines])
        except VeenError as flaw:
            logger.warning("outbox.refused producer=%s code=%s", self._held.name, flaw.code)
            for line in lines:
                line.reply.set(line.index, error_result(refusal_of(flaw)))

    def _ticket(self, line: _Line) -> Callable[[Outcome], None]:
        principal: PublicKey = self._held.principal

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, KeyConflictError):
                line.reply.set(line.index, error_result(_conflict()))
            elif isinstance(outcome, VeenError):
                line.reply.set(line.index, error_result(refusal_of(outcome)))
            else:
                found = self._recorded(principal, outcome)
                line.reply.recorded(line.index, found, is_new=line.is_new)

        return answered

    def _keep(self, entry: Entry, refusal: VeenError) -> None:
        """An event that was pending and is refused for good is kept, not dropped."""
        assert self._lane is not None
        draft = self._lane.producer.draft(entry)
        stream = self._config.names.get(draft.label, draft.label.hex())
        self._letters.add(stream=stream, body=draft.body, key=None, refusal=refusal)
        logger.error("event.refused producer=%s code=%s", self._held.name, refusal.code)


def _elders(folder: Path, principal: PublicKey) -> dict[PublicKey, OutboxReader]:
    """The outboxes of keys that the producer had before; what they recorded still counts."""
    if not folder.exists():
        return {}
    others = [PublicKey(bytes.fromhex(path.name)) for path in sorted(folder.iterdir())]
    return {
        one: OutboxReader(outbox_path(folder, ClientId(one))) for one in others if one != principal
    }


def _conflict() -> RecordError:
    message = "the idempotency_key was used before with other content"
    return RecordError(RecordCode.IDEMPOTENCY_CONFLICT, message)


def _rate_limited() -> RecordError:
    return RecordError(RecordCode.RATE_LIMITED, "more events than the producer is allowed")
