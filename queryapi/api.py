"""The Query API over HTTP: submit, watch, page, compare [Query 7].

Answers are canonical JSON, so that numbers of any size arrive as they were recorded. Refusals are
rendered in config/errors.py.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from hashlib import sha256
from typing import IO, Any, ClassVar, Final, TypeVar

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from hub.errors import WireError
from queryapi import api_docs, queries, services
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor_reader import RECORDED_BYTES_MAX, recorded_from
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evidence import NOTES
from queryapi.models import OPEN, Execution, State
from recorder.api_view import ApiView, b64, check_parameters
from recorder.auth import READERS, caller_of
from recorder.codes import Detail, RecordCode, RecordError

JSON: Final = "application/json"
PAGE_DEFAULT: Final = 1_000
PAGE_MAX: Final = 10_000
LIST_DEFAULT: Final = 50
LIST_MAX: Final = 500
SYNC_ROWS_MAX: Final = 1_000
SYNC_WAIT_MAX_S: Final = 30.0
LOOK_S: Final = 0.03
_OFFSET_MAX: Final = 2**53
# Requests that wait hold a thread each; with more of them everyone is told to come back.
_WAITERS: Final = threading.BoundedSemaphore(3)
_BODY_BYTES_MAX: Final = 2 * RECORDED_BYTES_MAX
_Response = TypeVar("_Response", bound=HttpResponseBase)


class JsonBytes(BaseParser):
    """application/json as the bytes that came: the contract itself reads them."""

    media_type = JSON

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 - the framework's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:  # noqa: ANN401 - the stubs know only objects
        """The body, cut where it is too large for any descriptor."""
        return stream.read(_BODY_BYTES_MAX + 1)


def answer(value: Value, status: int = 200) -> HttpResponse:
    """Canonical JSON."""
    body = canonical_json.encode(value, depth_max=canonical_json.DEPTH_MAX + 8, is_bounded=False)
    return HttpResponse(body, status=status, content_type=JSON)


class Submit(ApiView):
    """Take a query; answered at once where it is small and quick."""

    roles = READERS
    parser_classes = [JsonBytes]  # noqa: RUF012 - the framework's
    operations: ClassVar = {"POST": api_docs.SUBMIT}

    def post(self, request: Request) -> HttpResponse:
        """202 once it is durable, 200 when the answer came within the synchronous budget."""
        check_parameters(request)
        wait_s = _wait_s(request)
        execution = services.submit_query(_body(request), caller_of(request))
        execution = _waited(execution, wait_s)
        if execution.state == State.COMPLETED:
            digest = queries.digest_of(execution)
            if digest.row_count <= SYNC_ROWS_MAX and queries.has_rows(execution):
                return _result(execution, digest, 0, SYNC_ROWS_MAX)
        return answer(
            {
                "query_id": execution.query_id,
                "result_id": execution.result_id,
                "status": execution.state,
            },
            202,
        )


def _body(request: Request) -> bytes:
    found: object = request.data
    return found if isinstance(found, bytes) else b""  # Nothing at all has no type.


def _wait_s(request: Request) -> float:
    """The synchronous budget, which a client may change by `Prefer` (RFC 7240)."""
    budget: float = settings.VEEN.query_sync_ms / 1000
    for preference in request.META.get("HTTP_PREFER", "").split(","):
        name, _, value = preference.strip().lower().partition("=")
        if name == "respond-async":
            return 0.0
        if name == "wait" and value.isascii() and value.isdigit() and len(value) < 5:
            budget = min(float(value), SYNC_WAIT_MAX_S)
    return budget


def _waited(execution: Execution, wait_s: float) -> Execution:
    """The execution once it is over, or as it is when the time is."""
    if execution.state not in OPEN or wait_s <= 0 or not _WAITERS.acquire(blocking=False):
        return execution
    try:
        end = time.monotonic() + wait_s
        while execution.state in OPEN and time.monotonic() < end:
            time.sleep(LOOK_S)
            execution = Execution.objects.get(pk=execution.pk)
    finally:
        _WAITERS.release()
    return execution


class Status(ApiView):
    """How far a query is."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.STATUS}

    def get(self, request: Request, result_id: str) -> HttpResponse:
        """The status object."""
        check_parameters(request)
        return answer(queries.status_of(queries.find(caller_of(request), result_id)))


class Result(ApiView):
    """Rows of a completed query, page by page."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.RESULT}

    def get(self, request: Request, result_id: str) -> HttpResponse:
        """A slice of the hashed bytes; 409 while there is none, and with its code for a failure."""
        check_parameters(request, "offset", "limit")
        offset = _number(request, "offset", 0, 0, _OFFSET_MAX)
        limit = _number(request, "limit", PAGE_DEFAULT, 1, PAGE_MAX)
        execution = queries.find(caller_of(request), result_id)
        digest = queries.digest_of(execution)
        etag = f'"{digest.rows_hash}-{offset}-{limit}"'
        if is_fresh(request, etag):
            return not_modified(etag)
        response = _result(execution, digest, offset, limit)
        if offset + limit < digest.row_count:
            after = f"{request.path}?offset={offset + limit}&limit={limit}"
            response["Link"] = f'<{after}>; rel="next"'
        return immutable(response, etag, sha256(response.content).digest())


def _result(execution: Execution, digest: ResultDigest, offset: int, limit: int) -> HttpResponse:
    """Digest, page and the rows themselves, which are never decoded on the way."""
    rows = queries.folder_of(execution).page(offset, limit)
    page: dict[str, Value] = {
        "offset": offset,
        "limit": limit,
        "total": digest.row_count,
        "has_more": offset + limit < digest.row_count,
        "sha256": sha256(rows).hexdigest(),
    }
    head: dict[str, Value] = {
        "evidence_note": NOTES[digest.evidence_policy.mode],
        "page": page,
        "record_event": queries.digest_event(execution, digest),
        "result_digest": digest.to_json(),
    }
    body = canonical_json.encode(head)[:-1] + b',"rows":' + rows + b"}"
    return HttpResponse(body, content_type=JSON)


class Descriptor(ApiView):
    """A query as it was recorded."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.DESCRIPTOR}

    def get(self, request: Request, query_id: str) -> HttpResponse:
        """The normalized descriptor and its event."""
        check_parameters(request)
        execution = queries.find_query(caller_of(request), query_id)
        etag = f'"{execution.result_id}"'
        recorded = queries.descriptor_event(execution)
        if recorded is not None and is_fresh(request, etag):
            return not_modified(etag)
        body = b'{"descriptor":' + execution.descriptor.encode() + b',"record_event":'
        response = HttpResponse(body + canonical_json.encode(recorded) + b"}", content_type=JSON)
        return response if recorded is None else immutable(response, etag)


class Cancel(ApiView):
    """Stop a query."""

    roles = READERS
    operations: ClassVar = {"POST": api_docs.CANCEL}

    def post(self, request: Request, result_id: str) -> HttpResponse:
        """The status object; what had ended stays as it is."""
        check_parameters(request)
        execution = queries.find(caller_of(request), result_id)
        return answer(queries.status_of(services.cancel(execution)))


class Listing(ApiView):
    """Queries, newest first."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.LIST}

    def get(self, request: Request) -> HttpResponse:
        """A page behind the result_id of `after`."""
        check_parameters(request, "after", "limit")
        limit = _number(request, "limit", LIST_DEFAULT, 1, LIST_MAX)
        after = request.query_params.get("after")
        found = queries.listed(caller_of(request), limit + 1, after=after)
        more = found[limit - 1].result_id if len(found) > limit else None
        return answer({"queries": [queries.status_of(one) for one in found[:limit]], "next": more})


class Replays(ApiView):
    """Ask a recorded query again."""

    roles = READERS
    parser_classes = [JsonBytes]  # noqa: RUF012 - the framework's
    operations: ClassVar = {"POST": api_docs.REPLAY_QUERY}

    def post(self, request: Request) -> HttpResponse:
        """202 with the id under which the comparison will be found."""
        check_parameters(request)
        descriptor, digest = _recorded(_body(request))
        replay = services.submit_replay(descriptor, digest, caller_of(request))
        return answer({"replay_id": str(replay.id), "status": replay.state}, 202)


def _recorded(body: bytes) -> tuple[Any, ResultDigest]:
    if len(body) > _BODY_BYTES_MAX:
        raise _flawed("", f"more than {_BODY_BYTES_MAX} bytes")
    try:
        found = canonical_json.parse(body, depth_max=canonical_json.DEPTH_MAX + 1)
    except JsonError as flaw:
        if flaw.is_syntax:
            raise QueryError(QueryCode.INVALID_JSON, flaw.reason) from flaw
        raise _flawed(flaw.pointer, flaw.reason) from flaw
    if not isinstance(found, dict):
        raise _flawed("", "not an object")
    for key in found:
        if key not in {"descriptor", "result_digest"}:
            raise _flawed(canonical_json.pointer(key), "unknown key")
    try:
        digest = ResultDigest.decode(found.get("result_digest"))
    except WireError as flaw:
        raise _flawed("/result_digest", flaw.detail) from flaw
    try:
        return recorded_from(found.get("descriptor")), digest
    except QueryError as refusal:
        details = [
            Detail(pointer=f"/descriptor{one.pointer}", reason=one.reason)
            for one in refusal.details
        ]
        raise QueryError(refusal.error_code, refusal.message, details=details) from refusal


def _flawed(pointer: str, reason: str) -> QueryError:
    message = "the replay is refused"
    flaw = Detail(pointer=pointer, reason=reason)
    return QueryError(QueryCode.INVALID_QUERY_DESCRIPTOR, message, details=[flaw])


class OneReplay(ApiView):
    """A replay and how it compares."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.REPLAYED}

    def get(self, request: Request, replay_id: uuid.UUID) -> HttpResponse:
        """Field by field, once it is completed."""
        check_parameters(request)
        return answer(queries.replay_of(queries.find_replay(caller_of(request), replay_id)))


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not least <= int(text) <= most:
        message = f"{name} is not a number from {least} to {most}."
        raise RecordError(RecordCode.INVALID_PARAMETER, message)
    return int(text)


def is_fresh(request: Request, etag: str) -> bool:
    """Whether the client holds this very answer."""
    given = request.META.get("HTTP_IF_NONE_MATCH", "")
    held = {one.strip().removeprefix("W/") for one in given.split(",")}
    return bool({etag, "*"} & held)


def not_modified(etag: str) -> HttpResponse:
    """304."""
    return immutable(HttpResponse(status=304), etag)


def immutable(response: _Response, etag: str, digest: bytes | None = None) -> _Response:
    """An answer that never changes: for its asker to keep, and to check where a hash is given."""
    response["ETag"] = etag
    response["Cache-Control"] = "private, immutable"
    if digest is not None:
        response["Repr-Digest"] = f"sha-256=:{b64(digest)}:"  # RFC 9530
    return response
