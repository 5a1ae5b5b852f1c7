"""The two ways of `veen recorder record`: the SDK of this host, or a gateway [interfaces]."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import click

from hub import canonical_json, keystore
from hub.cli.output import Document
from hub.errors import ErrorCode, VeenError
from recorder.codes import Detail, RecordCode, RecordError
from recorder.connection import Connection
from recorder.gateway_client import GatewayAnswer, GatewayClient
from recorder.recorded import Recorded
from recorder.sdk import Recorder

EVENTS: Final = "/api/record/events"
_AHEAD_MAX: Final = 2048  # events on their way before the oldest answer is awaited
_BATCH: Final = 100
_PAUSE_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.05
_NOTHING_YET: Final = object()
_END: Final = object()
_Sent = bytes  # an event as it is sent


@dataclass(frozen=True, slots=True)
class _Failed:
    flaw: BaseException


class SdkWay:
    """Through the spool of this host."""

    def __init__(self, connection: Path, spool_dir: Path | None, timeout_s: float) -> None:
        self._recorder = Recorder(connection, spool_dir)
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Everything was awaited, or its time is over."""
        self._recorder.close(timeout=0)

    def send(self, events: Iterable[object]) -> Iterator[Document | VeenError]:
        """One answer for each event, in their order."""
        ahead: deque[Future[Recorded] | VeenError] = deque()
        for event in _as_they_come(events):
            if event is not _NOTHING_YET:
                ahead.append(self._submit(event))
            while len(ahead) > _AHEAD_MAX or (ahead and _is_done(ahead[0])):
                yield self._answer(ahead.popleft())
        while ahead:
            yield self._answer(ahead.popleft())

    def _submit(self, event: object) -> Future[Recorded] | VeenError:
        if isinstance(event, VeenError):
            return event
        try:
            return self._recorder.submit_json(event)
        except VeenError as refusal:
            return refusal

    def _answer(self, future: Future[Recorded] | VeenError) -> Document | VeenError:
        if isinstance(future, VeenError):
            return future
        try:
            return future.result(self._timeout_s).to_json()
        except TimeoutError:
            trouble = self._recorder.state().trouble
            why = "" if trouble is None else f" ({trouble})"
            message = f"no receipt yet{why}; the event stays in the spool"
            return RecordError(RecordCode.HUB_UNAVAILABLE, message)
        except VeenError as refusal:
            return refusal


def _as_they_come(events: Iterable[object]) -> Iterator[object]:
    """The events, with pauses in which answers can be told: a source may be silent for hours."""
    line: queue.Queue[object] = queue.Queue(maxsize=_AHEAD_MAX)

    def read() -> None:
        try:
            for event in events:
                line.put(event)
            line.put(_END)
        except BaseException as flaw:  # noqa: BLE001 - raised again where it is waited for
            line.put(_Failed(flaw))

    threading.Thread(target=read, name="veen-reader", daemon=True).start()
    while True:
        try:
            found = line.get(timeout=_LOOK_EVERY_S)
        except queue.Empty:
            found = _NOTHING_YET
        if found is _END:
            return
        if isinstance(found, _Failed):
            raise found.flaw
        yield found


def _is_done(future: Future[Recorded] | VeenError) -> bool:
    return isinstance(future, VeenError) or future.done()


class GatewayWay:
    """In batches to a gateway; each event has a key, so that a batch may be sent again."""

    def __init__(self, client: GatewayClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._run = secrets.token_hex(8)
        self._count = 0

    @classmethod
    def open(
        cls, connection: Path | None, token_file: Path, url: str | None, timeout_s: float
    ) -> Self:
        """The gateway that was named, or that of the connection file."""
        if url is None and connection is not None:
            found = Connection.parse(keystore.read_private(connection))
            url = found.gateway_url or found.web_url
        if url is None:
            raise click.UsageError("which gateway? give --url, or a --connection that names one")
        token = keystore.read_private(token_file).decode("ascii", "replace").strip()
        return cls(GatewayClient(url, token, timeout_s=timeout_s), timeout_s)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def send(self, events: Iterable[object]) -> Iterator[Document | VeenError]:
        """One answer for each event, in their order."""
        batch: list[_Sent | VeenError] = []
        for event in _as_they_come(events):
            if event is not _NOTHING_YET:
                batch.append(self._spelled(event))
            # A source that pauses has its events sent: the next one may be hours away.
            if len(batch) == _BATCH or (batch and event is _NOTHING_YET):
                yield from self._flush(batch)
                batch = []
        yield from self._flush(batch)

    def _flush(self, batch: list[_Sent | VeenError]) -> Iterator[Document | VeenError]:
        good = [event for event in batch if not isinstance(event, VeenError)]
        answers = iter(self._post(good) if good else [])
        for event in batch:
            yield event if isinstance(event, VeenError) else next(answers)

    def _spelled(self, event: object) -> _Sent | VeenError:
        """The canonical text of an event with its key, or its own refusal."""
        if isinstance(event, VeenError):
            return event
        try:
            depth_max = canonical_json.DEPTH_MAX + 1
            return canonical_json.encode(self._keyed(event), depth_max=depth_max)
        except canonical_json.JsonError as flaw:
            detail = Detail(pointer=flaw.pointer, reason=flaw.reason)
            return RecordError(RecordCode.INVALID_EVENT, "the event is refused", details=[detail])

    def _keyed(self, event: object) -> object:
        self._count += 1
        if isinstance(event, dict) and event.get("idempotency_key") is None:
            return {**event, "idempotency_key": f"cli-{self._run}-{self._count}"}
        return event

    def _post(self, events: list[_Sent]) -> list[Document | VeenError]:
        """Send a batch until the gateway has judged every event or the time is over."""
        body = b'{"events":[%s]}' % b",".join(events)
        end = time.monotonic() + self._timeout_s
        while True:
            trouble, pause_s = self._try(body, len(events))
            if isinstance(trouble, list):
                waiting = [one for one in trouble if isinstance(one, RecordError)]
                if not any(one.status in (429, 503) for one in waiting):
                    return trouble
            if time.monotonic() + pause_s >= end:
                return trouble if isinstance(trouble, list) else [trouble] * len(events)
            time.sleep(pause_s)

    def _try(self, body: bytes, count: int) -> tuple[list[Document | VeenError] | VeenError, float]:
        """The answers, or the refusal of the whole; and how long to wait before asking again."""
        try:
            answer = self._client.post(EVENTS, body)
        except VeenError as broken:
            if broken.code is not ErrorCode.UNREACHABLE:
                raise
            return broken, _PAUSE_S
        pause_s = float(answer.retry_after_s or _PAUSE_S)
        if answer.status in (429, 503):
            return _refusal(answer.body), pause_s
        if answer.status != 200:
            raise _refusal(answer.body)
        return _results(answer, count), pause_s


def _results(answer: GatewayAnswer, count: int) -> list[Document | VeenError]:
    found = answer.body.get("results") if isinstance(answer.body, dict) else None
    if not isinstance(found, list) or len(found) != count:
        raise VeenError(ErrorCode.PROTOCOL, "the gateway did not answer every event")
    return [_refusal(one) if "error_code" in one else one for one in found]


def _refusal(found: Any) -> VeenError:  # noqa: ANN401 - JSON of another process
    """The refusal that an error object stands for."""
    try:
        details = [
            Detail(pointer=str(one["pointer"]), reason=str(one["reason"]))
            for one in found.get("details", ())
        ]
        code = RecordCode(found["error_code"])
        return RecordError(code, str(found["message"]), details=details)
    except (AttributeError, KeyError, TypeError, ValueError):
        return VeenError(ErrorCode.PROTOCOL, "the gateway's refusal is not as expected")
