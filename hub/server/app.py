"""The routes of the data plane in one worker: what is checked here, what the writer decides.

Form and signature are checked before anything reaches the writer; the queue between the two is
bounded, and a full one answers E.BUSY at once [OP0.4].
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from hub.errors import ErrorCode, StoreError, VeenError
from hub.limits import Limits
from hub.server import ipc
from hub.server.answers import (
    CBOR,
    CBOR_SEQ,
    cbor_response,
    error_map,
    error_response,
    naming,
    plain,
    readiness,
    single,
    unauthorized,
)
from hub.server.batch import BatchQueue, BatchSubmit, cut_items
from hub.server.checks import Checks
from hub.server.http import Request, Respond, Response
from hub.server.metrics import Snapshot, hub_metrics
from hub.server.params import Params
from hub.server.reads import Reads
from hub.server.refusals import RefusalBudget
from hub.server.submitlog import SubmitLog
from hub.server.tokens import EpochScope, ReadToken, TokenFile
from hub.server.uploads import Uploads, hex_bytes
from hub.storage.layout import Layout
from hub.storage.reader import LogReader
from hub.types import Hash
from hub.wire.profile import Profile

_OPEN_READS = ReadToken(name="open", labels=None)
_ATTACHMENT = "/attachment/"
Answer = Callable[[int, bytes], None]  # kind, payload


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneSettings:
    """What a worker is told by the writer."""

    data_dir: Path
    hub_pk: bytes
    hub_id: bytes
    open_admission: bool
    open_reads: bool
    stream_scoping: bool
    routing_key: bytes | None  # only where labels change with the epoch
    log_submits: bool
    queue_max: int
    profiles: tuple[Profile, ...]
    limits: Limits


class DataPlane:
    """The App behind one worker's HTTP server."""

    def __init__(self, settings: PlaneSettings, writer: ipc.Peer) -> None:
        self._settings = settings
        self._writer = writer
        self._hub_pk, self._hub_id = settings.hub_pk, settings.hub_id
        self._limits = settings.limits
        self._metrics = hub_metrics()
        self._refusals = RefusalBudget(self._limits.refusals_per_s, self._limits.refusals_burst)
        layout = Layout(settings.data_dir)
        self._reader = LogReader(settings.data_dir)
        self._reads = Reads(self._reader, settings.limits, self._metrics)
        self._tokens = TokenFile(layout.tokens, _epoch_scope(settings, self._reader))
        self.checks = Checks(
            {profile.id: profile for profile in settings.profiles},
            self._limits,
            settings.queue_max,
            self._refusals,
            self._metrics,
            SubmitLog(sys.stderr.buffer if settings.log_submits else None),
        )
        self._uploads = Uploads(layout, self.ask, is_open=settings.open_admission)
        self._batches = BatchQueue()
        self._waiting: dict[int, Answer] = {}
        self._next_id = 0
        self._is_stopping = False

    # -- the App of the HTTP server

    def body_max(self, method: str, path: str, headers: Mapping[str, str]) -> int:
        """How large a body may be, before one byte of it is read."""
        limits = self._limits
        if method == "POST" and path == "/submit":
            sequence = _media(headers) == CBOR_SEQ
            return limits.batch_bytes_max if sequence else limits.msg_bytes_max
        if method == "PUT" and path.startswith(_ATTACHMENT):
            return limits.attachment_bytes_max
        # A small body of a wrong method is read, so that its refusal says what is wrong.
        return 0 if method == "GET" else limits.cap_bytes_max

    def refuse(self, code: str, detail: str, request_id: str) -> Response:
        """A refusal of the HTTP server itself; a failure of ours names its request."""
        if code == ErrorCode.INTERNAL:
            detail = f"{detail}; request {request_id}"
        return error_response(VeenError(ErrorCode(code), detail))

    def serve(self, request: Request, respond: Respond) -> None:
        """One request."""
        respond = naming(respond, request.request_id)
        try:
            if request.path == "/submit" and request.method == "POST":
                self._submit(request, respond)
            else:
                self._route(request, respond)
        except VeenError as refusal:
            respond(error_response(refusal))
        except OSError as failure:  # a file that is gone or a disk that does not read
            respond(error_response(StoreError(f"disk refuses: {failure.strerror}")))

    def _route(self, request: Request, respond: Respond) -> None:
        path, method = request.path, request.method
        if path in _POSTS or path == "/submit":
            if method != "POST":
                respond(_method_not_allowed("POST"))
                return
            _check_media(request, CBOR)
            self._refusals.check(request.peer)
            self.ask(
                _POSTS[path], request.body, lambda k, p: self._act_done(request, respond, k, p)
            )
        elif path.startswith(_ATTACHMENT):
            self._attachment(request, respond)
        elif method not in ("GET", "HEAD"):
            known = path in self._reads.routes or path in _OPEN_GETS
            respond(_method_not_allowed("GET") if known else _no_route())
        else:
            self._get(request, respond)

    def _get(self, request: Request, respond: Respond) -> None:
        path = request.path
        if path == "/profile":
            respond(self._profile())
        elif path == "/rotations":
            respond(self._reads.rotations())
        elif path == "/healthz":
            self.ask(ipc.HEALTH, b"", lambda k, p: respond(plain(k, p)))
        elif path == "/readyz":
            self.ask(ipc.READY, b"", lambda k, p: respond(readiness(k, p)))
        elif path == "/receipt" and "leaf_hash=" in request.query:
            params = Params(request.query)
            leaf = params.hash("leaf_hash")
            params.end()
            self.ask(ipc.FIND_LEAF, leaf or b"", lambda k, p: respond(plain(k, p)))
        elif path == "/metrics":
            self._with_token(request, respond, self._serve_metrics)
        elif path in self._reads.routes:
            route = self._reads.routes[path]
            self._with_token(
                request,
                respond,
                lambda token, done: done(route(Params(request.query), token)),
            )
        else:
            respond(_no_route())

    def _with_token(
        self, request: Request, respond: Respond, serve: Callable[[ReadToken, Respond], None]
    ) -> None:
        try:
            token = self._bearer(request)
        except VeenError as refusal:
            if refusal.code is not ErrorCode.AUTH:
                raise
            respond(unauthorized(refusal))
            return
        serve(token, respond)

    def _bearer(self, request: Request) -> ReadToken:
        if self._settings.open_reads:
            return _OPEN_READS
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not bearer:
            raise VeenError(ErrorCode.AUTH, "a bearer token is needed")
        return self._tokens.find(bearer.strip())

    def _serve_metrics(self, token: ReadToken, respond: Respond) -> None:
        token.check_all()

        def done(kind: int, payload: bytes) -> None:
            if kind != ipc.OK:
                respond(plain(kind, payload))
                return
            respond(Response(200, payload, "text/plain; version=0.0.4; charset=utf-8"))

        self.ask(ipc.METRICS, b"", done)

    def _profile(self) -> Response:
        settings = self._settings
        return cbor_response(
            {
                "ver": 1,
                "hub_pk": self._hub_pk,
                "hub_id": self._hub_id,
                "profile_ids": sorted(profile.id for profile in settings.profiles),
                "limits": self._limits.published(),
                "stream_scoping": settings.stream_scoping,
                "open_admission": settings.open_admission,
                "open_reads": settings.open_reads,
            }
        )

    # -- the writer's side

    def ask(self, kind: int, payload: bytes, answer: Answer) -> None:
        self._next_id += 1
        self._waiting[self._next_id] = answer
        self._writer.send(kind, self._next_id, payload)
        if self._is_stopping:
            self.writer_gone()

    def answered(self, kind: int, ident: int, payload: bytes) -> None:
        """An answer of the writer."""
        answer = self._waiting.pop(ident, None)
        if answer is not None:
            answer(kind, payload)

    def writer_gone(self) -> None:
        """Answer whoever waits for a writer that stops: it may be committed, so ask again."""
        self._is_stopping = True
        gone = ipc.refusal(VeenError(ErrorCode.BUSY, "the hub is stopping", retry_after_s=1))
        for ident in list(self._waiting):
            self.answered(ipc.REFUSED, ident, gone)

    def refresh(self, said: Mapping[str, str]) -> None:
        """The hub's key changed, or files were replaced."""
        self._hub_pk = bytes.fromhex(said["hub_pk"])
        self._hub_id = bytes.fromhex(said["hub_id"])
        self._reader.reopen()

    def sample(self, connections: int) -> Snapshot:
        """This worker's metrics."""
        self._metrics.queue_depth.set(self.checks.queued)
        self._metrics.queue_full.set(int(self.checks.was_full))
        self.checks.was_full = False
        self._metrics.http_connections.set(connections)
        self._metrics.process_rss.set(_rss_bytes(), "worker")
        return self._metrics.snapshot()

    def _act_done(self, request: Request, respond: Respond, kind: int, payload: bytes) -> None:
        if kind != ipc.OK:
            self._refusals.spend(request.peer, ipc.as_error(payload).code)
        respond(plain(kind, payload))

    # -- submit

    def _submit(self, request: Request, respond: Respond) -> None:
        media = _media(request.headers)
        if media == CBOR:
            self._submit_one(request, respond)
        elif media == CBOR_SEQ:
            items = cut_items(request.body, self._limits.batch_items_max)
            self._batches.add(BatchSubmit(self, items, request.peer, respond))
        else:
            raise VeenError(ErrorCode.FORMAT, f"send {CBOR} or {CBOR_SEQ}")

    def _submit_one(self, request: Request, respond: Respond) -> None:
        """Check form and signature, hand the MSG to the writer, answer with what it says."""
        at = request.received_at
        [item] = self.checks.verified([request.body], request.peer)
        if isinstance(item, VeenError):
            respond(error_response(item))
            return
        handed_at = perf_counter()

        def answered(kind: int, payload: bytes) -> None:
            [outcome] = self.checks.settled([item], [(kind, payload)], handed_at, at)
            respond(single(outcome))

        self.ask(ipc.SUBMIT, item.leaf + item.data, answered)

    # -- attachments

    def _attachment(self, request: Request, respond: Respond) -> None:
        name = request.path[len(_ATTACHMENT) :]
        coid = Hash(hex_bytes(name, 32, "coid", ErrorCode.FORMAT))
        if request.method == "PUT":
            self._uploads.put(request, coid, respond)
        elif request.method in ("GET", "HEAD"):
            self._with_token(
                request, respond, lambda token, done: done(self._reads.attachment(coid, token))
            )
        else:
            respond(_method_not_allowed("GET, PUT"))


_POSTS: Mapping[str, int] = {
    "/authorize": ipc.AUTHORIZE,
    "/report_equivocation": ipc.EQUIVOCATION,
}
_OPEN_GETS = frozenset({"/profile", "/rotations", "/healthz", "/readyz", "/metrics"})


def _epoch_scope(settings: PlaneSettings, reader: LogReader) -> EpochScope | None:
    if settings.routing_key is None:
        return None
    epochs = frozenset(profile.epoch_sec for profile in settings.profiles if profile.epoch_sec)
    return EpochScope(reader, settings.routing_key, epochs, settings.limits.clock_skew_epochs)


def _media(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_media(request: Request, wanted: str) -> None:
    if _media(request.headers) != wanted:
        raise VeenError(ErrorCode.FORMAT, f"send {wanted}")


def _method_not_allowed(allow: str) -> Response:
    refusal = VeenError(ErrorCode.FORMAT, f"use {allow}")
    return Response(405, error_map(refusal), CBOR, (("Allow", allow),))


def _no_route() -> Response:
    return error_response(VeenError(ErrorCode.NOTFOUND, "no such route"))


def _rss_bytes() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096
