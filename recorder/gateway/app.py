"""The gateway's routes: POST /api/record/events, and how it is doing [interfaces, Recorder].

The event loop only finds out who asks and hands the request to that producer's desk; it never
parses, authors or waits. Nothing can be read here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from hub.client import OutboxReader
from hub.client.outbox_file import outbox_path
from hub.errors import ErrorCode, VeenError
from hub.server.http import Request, Respond, Response
from hub.server.metrics import Counter, Gauge, render, snapshot
from hub.types import ClientId, PublicKey
from recorder.codes import RecordCode, RecordError
from recorder.gateway.config import GatewayConfig, Held, producer_folder
from recorder.gateway.desk import OUTBOX, Desk, Job
from recorder.gateway.reply import JSON, Reply, error_response
from recorder.gateway.watched import Watched

logger = logging.getLogger("gateway")

EVENTS: Final = "/api/record/events"
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
PATIENCE_S: Final = 10.0  # how long a request waits for its receipts
WATCH_EVERY_S: Final = 0.5
_OTHER_BODY_MAX: Final = 65_536
# Refusals of the HTTP server itself, in the words of this API.
_SERVER_CODES: Final = {
    ErrorCode.SIZE: RecordCode.EVENT_TOO_LARGE,
    ErrorCode.BUSY: RecordCode.HUB_UNAVAILABLE,
    ErrorCode.FORMAT: RecordCode.INVALID_PARAMETER,
}
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class GatewayApp:
    """The App behind the gateway's HTTP server; every call comes from the event loop's thread."""

    def __init__(self, state_dir: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._folder = state_dir / "gateway"
        self._watched = Watched(state_dir)
        self._patience_s = patience_s
        self._desks: dict[PublicKey, Desk] = {}
        self._loop = asyncio.get_running_loop()
        self._requests = Counter("veen_gateway_requests_total", "Requests, by status.", ("status",))

    # -- the App of the HTTP server

    def body_max(self, method: str, path: str, headers: Mapping[str, str]) -> int:  # noqa: ARG002
        """How large a body may be, before one byte of it is read."""
        return BODY_BYTES_MAX if method == "POST" and path == EVENTS else _OTHER_BODY_MAX

    def refuse(self, code: str, detail: str, request_id: str) -> Response:
        """A refusal of the HTTP server itself, as JSON like every other."""
        if code == ErrorCode.INTERNAL:
            document = {"error_code": "internal_error", "message": "the gateway failed"}
            body = json.dumps({**document, "request_id": request_id}).encode()
            return Response(500, body, JSON)
        record_code = _SERVER_CODES.get(ErrorCode(code), RecordCode.INVALID_PARAMETER)
        return error_response(RecordError(record_code, detail), request_id)

    def serve(self, request: Request, respond: Respond) -> None:
        """One request."""
        try:
            if request.path == EVENTS:
                self._record(request, respond)
            else:
                self._answer(self._read(request), respond)
        except RecordError as refusal:
            response = error_response(refusal, request.request_id)
            if refusal.error_code is RecordCode.METHOD_NOT_ALLOWED:
                allow = "POST" if request.path == EVENTS else "GET"
                response.headers += (("Allow", allow),)
            self._answer(response, respond)

    def _answer(self, response: Response, respond: Respond) -> None:
        self._requests.inc(str(response.status))
        respond(response)

    def _read(self, request: Request) -> Response:
        reads = {"/healthz": self._health, "/readyz": self._ready, "/metrics": self._metrics}
        read = reads.get(request.path)
        if read is None:
            raise RecordError(RecordCode.NOT_FOUND, "no such route")
        if request.method not in ("GET", "HEAD"):
            raise RecordError(RecordCode.METHOD_NOT_ALLOWED, "use GET")
        return read()

    # -- recording

    def _record(self, request: Request, respond: Respond) -> None:
        if request.method != "POST":
            raise RecordError(RecordCode.METHOD_NOT_ALLOWED, "use POST")
        desk = self._desk_of(request)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != JSON:
            raise RecordError(RecordCode.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")

        def done(response: Response) -> None:  # in whichever thread brought the last result
            self._loop.call_soon_threadsafe(answer, response)

        def answer(response: Response) -> None:
            timer.cancel()
            self._answer(response, respond)

        reply = Reply(request.request_id, done)
        timer = self._loop.call_later(self._patience_s, reply.end_patience)
        desk.submit(Job(request.body, reply))

    def _desk_of(self, request: Request) -> Desk:
        """The desk of the one producer whose token this is."""
        # Whoever was told that a token, a stream or a revocation is done may ask at once.
        self._take_over()
        config = self._watched.config
        if config is None:
            raise RecordError(RecordCode.HUB_UNAVAILABLE, "the gateway is not configured yet")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        name = None
        if scheme.lower() == "bearer":
            digest = sha256(bearer.strip().encode("latin-1")).digest()
            name = config.tokens.get(digest)
            if digest in config.other_tokens:
                message = "this token does not record: it is a reader's or an administrator's"
                raise RecordError(RecordCode.FORBIDDEN, message)
        if name is None:
            raise RecordError(RecordCode.UNAUTHORIZED, "a producer's bearer token is needed")
        held = config.producers.get(name)
        desk = None if held is None else self._desk(config, held)
        if desk is None:
            raise RecordError(RecordCode.HUB_UNAVAILABLE, "the producer is not served here yet")
        return desk

    def _desk(self, config: GatewayConfig, held: Held) -> Desk | None:
        desk = self._desks.get(held.principal)
        key = self._watched.keys.keys.get(held.principal)
        if desk is None and key is not None:
            folder = self._folder_of(held)
            desk = self._desks[held.principal] = Desk(config, held, key, folder)
        return desk

    def _folder_of(self, held: Held) -> Path:
        return producer_folder(self._folder, held.name)

    # -- configuration

    async def watch(self) -> None:
        """Follow the files for as long as the process lives."""
        while True:
            self.look()
            await asyncio.sleep(WATCH_EVERY_S)

    def look(self) -> None:
        """Take over a new configuration, and retire who is no longer in it."""
        self._take_over()
        config = self._watched.config
        if config is not None:
            self._retire({held.principal for held in config.producers.values()} | self._elders())

    def _take_over(self) -> None:
        if not self._watched.look():
            return
        config = self._watched.config
        assert config is not None
        for held in config.producers.values():
            if held.principal in self._desks:
                self._desks[held.principal].renew(config, held)
            elif self._has_pending(held):
                self._desk(config, held)

    def _elders(self) -> set[PublicKey]:
        """Rotated keys under which events wait; after a restart their desks are opened again."""
        config = self._watched.config
        waiting = [held for held in config.retiring if self._has_pending(held)] if config else []
        for held in waiting:
            assert config is not None
            self._desk(config, held)
        return {held.principal for held in waiting}

    def _has_pending(self, held: Held) -> bool:
        """Whether an earlier process left events that must go out without being asked for."""
        folder = self._folder_of(held) / OUTBOX
        reader = OutboxReader(outbox_path(folder, ClientId(held.principal)))
        try:
            return reader.exists() and reader.pending_ids() is not None
        except VeenError:
            return True  # Whoever opens it for writing can mend it.

    def _retire(self, current: set[PublicKey]) -> None:
        """Close the desks of producers that are gone, once nobody waits for them."""
        for principal in self._desks.keys() - current:
            if self._desks[principal].is_idle():
                desk = self._desks.pop(principal)
                self._loop.run_in_executor(None, desk.close)

    async def close(self) -> None:
        """Stop every desk; what is pending stays in the outboxes."""
        closing = [asyncio.to_thread(desk.close) for desk in self._desks.values()]
        await asyncio.gather(*closing)

    # -- how it is doing

    def _health(self) -> Response:
        return _json(200, {"ok": True})

    def _ready(self) -> Response:
        reasons = [] if self._watched.flaw is None else [f"configuration: {self._watched.flaw}"]
        troubles = [desk.state().trouble for desk in self._desks.values()]
        reasons += sorted({f"hub: {one.code}" for one in troubles if one is not None})
        status = 503 if reasons else 200
        return _json(status, {"ready": not reasons, "reasons": reasons})

    def _metrics(self) -> Response:
        states = [desk.state() for desk in self._desks.values()]
        recorded = Counter("veen_gateway_recorded_total", "Events with a verified receipt.")
        recorded.inc(by=sum(state.sent for state in states))
        refused = Counter("veen_gateway_refused_total", "Events refused at the door.")
        refused.inc(by=sum(desk.refused for desk in self._desks.values()))
        dead = Counter("veen_gateway_dead_letters_total", "Events that the hub refused for good.")
        dead.inc(by=sum(state.refused for state in states))
        pending = Gauge("veen_gateway_pending", "Events in the outboxes, without receipt.")
        pending.set(sum(state.pending for state in states))
        waiting = Gauge("veen_gateway_waiting_desks", "Producers whose events cannot go out now.")
        waiting.set(sum(state.trouble is not None for state in states))
        metrics = (self._requests, recorded, refused, dead, pending, waiting)
        return Response(200, render([snapshot(metrics)]).encode(), _TEXT)


def _json(status: int, document: dict[str, object]) -> Response:
    headers = (("Retry-After", "1"),) if status == 503 else ()
    return Response(status, json.dumps(document).encode(), JSON, headers)
