"""OTLP/HTTP logs: POST /v1/logs in protobuf and JSON into one recorder [OTLP/HTTP].

What the recorder refuses is told as partial success, as the protocol asks; a full spool is 503 with
Retry-After, so that the exporter keeps its records.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping
from typing import Final

from hub.errors import StoreError, VeenError
from hub.server.http import Request, Respond, Response
from recorder.adapters import otlp
from recorder.adapters.guard import AllowList
from recorder.adapters.otlp import OtlpError
from recorder.sdk import Recorder

logger = logging.getLogger("adapter.otlp")

LOGS: Final = "/v1/logs"
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
_GZIP: Final = 16 + zlib.MAX_WBITS


class OtlpAdapter:
    """One producer, one event type, one list of peers; the App of an HTTP server."""

    def __init__(
        self, recorder: Recorder, *, event_type: str, subject: str, allow: AllowList
    ) -> None:
        self._recorder = recorder
        self._event_type = event_type
        self._subject = subject
        self._allow = allow
        self.recorded = 0
        self.refused = 0

    def body_max(self, method: str, path: str, headers: Mapping[str, str]) -> int:  # noqa: ARG002
        """How large a body may be, before one byte of it is read."""
        return BODY_BYTES_MAX

    def refuse(self, code: str, detail: str, request_id: str) -> Response:  # noqa: ARG002
        """A refusal of the HTTP server itself."""
        status = {"E.SIZE": 413, "E.BUSY": 503, "E.INTERNAL": 500}.get(code, 400)
        return _problem(status, detail, JSON)

    def serve(self, request: Request, respond: Respond) -> None:
        """One export request."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        respond(self._answer(request, media))

    def _answer(self, request: Request, media: str) -> Response:
        if not self._allow.allows(request.peer):
            return _problem(403, "this address may not send", JSON)
        if request.path != LOGS:
            return _problem(404, f"only {LOGS} is served", JSON)
        if request.method != "POST":
            return _problem(405, "use POST", JSON)
        if media not in (JSON, PROTOBUF):
            return _problem(415, f"send {PROTOBUF} or {JSON}", JSON)
        try:
            body = _inflated(request)
            lines = otlp.read_json(body) if media == JSON else otlp.read_protobuf(body)
        except OtlpError as flaw:
            return _problem(400, str(flaw), media)
        return self._record(lines, media, request.peer)

    def _record(self, lines: list[otlp.LogLine], media: str, peer: str) -> Response:
        refused = 0
        reason = ""
        for number, line in enumerate(lines):
            found = line.event(event_type=self._event_type, subject=self._subject, peer=peer)
            try:
                self._recorder.record_json(found)
            except StoreError as full:
                if number == refused:  # Nothing of it is kept: the exporter may send it all again.
                    return _problem(503, full.detail, media)
                refused, reason = refused + len(lines) - number, full.detail
                break
            except VeenError as refusal:
                refused, reason = refused + 1, refusal.detail
            else:
                self.recorded += 1
        self.refused += refused
        return _success(refused, reason, media)


def _inflated(request: Request) -> bytes:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return request.body
    if encoding != "gzip":
        raise OtlpError("only gzip and identity are understood")
    inflate = zlib.decompressobj(_GZIP)
    try:
        body = inflate.decompress(request.body, BODY_BYTES_MAX)
    except zlib.error as flaw:
        raise OtlpError("not gzip") from flaw
    if inflate.unconsumed_tail or not inflate.eof:
        raise OtlpError(f"cut off, or more than {BODY_BYTES_MAX} bytes when inflated")
    return body


def _success(refused: int, reason: str, media: str) -> Response:
    if media == JSON:
        partial = {"rejectedLogRecords": str(refused), "errorMessage": reason}
        document = {"partialSuccess": partial} if refused else {}
        return Response(200, json.dumps(document).encode(), JSON)
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2  # noqa: PLC0415

    answer = logs_service_pb2.ExportLogsServiceResponse()
    if refused:
        answer.partial_success.rejected_log_records = refused
        answer.partial_success.error_message = reason
    return Response(200, answer.SerializeToString(), PROTOBUF)


def _problem(status: int, reason: str, media: str) -> Response:
    """A google.rpc.Status: field 2 is the message."""
    headers: tuple[tuple[str, str], ...] = (("Retry-After", "5"),) if status == 503 else ()
    if status == 405:
        headers = (("Allow", "POST"),)
    if media == JSON:
        return Response(status, json.dumps({"message": reason}).encode(), JSON, headers)
    text = reason.encode()[:127]
    return Response(status, b"\x12" + bytes((len(text),)) + text, PROTOBUF, headers)
