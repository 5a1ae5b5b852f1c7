"""How refusals and results become HTTP answers of the data plane [interfaces, Hub]."""

from __future__ import annotations

from hub.errors import ERRORS, ErrorCode, VeenError
from hub.server import ipc
from hub.server.http import Respond, Response
from hub.wire import cbor

CBOR = "application/cbor"
CBOR_SEQ = "application/cbor-seq"
RETRY_AFTER_S = 1
_STATUS_OF_TOOL_CODES = {ErrorCode.DAMAGE: ErrorCode.STORE}


def error_map(refusal: VeenError) -> bytes:
    """CBOR {code, detail?}; codes of the tools never travel."""
    code = _STATUS_OF_TOOL_CODES.get(refusal.code, refusal.code)
    body: dict[str, cbor.Value] = {"code": str(code)}
    if refusal.detail:
        body["detail"] = refusal.detail
    return cbor.encode(body)


def error_response(refusal: VeenError, *, status: int | None = None) -> Response:
    """A refusal with the status of its code."""
    code = _STATUS_OF_TOOL_CODES.get(refusal.code, refusal.code)
    status = status or ERRORS[code].status
    headers: tuple[tuple[str, str], ...] = ()
    if status in (429, 503):
        headers = (("Retry-After", str(refusal.retry_after_s or RETRY_AFTER_S)),)
    return Response(status, error_map(refusal), CBOR, headers)


def naming(respond: Respond, request_id: str) -> Respond:
    """Answers that name their request where the failure is ours, so that it can be reported."""

    def named(response: Response) -> None:
        if response.status == ERRORS[ErrorCode.INTERNAL].status:
            assert isinstance(response.body, bytes)
            said = cbor.decode(response.body)
            assert isinstance(said, dict)
            detail = f"{said.get('detail', 'the hub failed')}; request {request_id}"
            response = error_response(VeenError(ErrorCode.INTERNAL, detail))
        respond(response)

    return named


def unauthorized(refusal: VeenError) -> Response:
    """A read without a known bearer token."""
    return Response(401, error_map(refusal), CBOR, (("WWW-Authenticate", "Bearer"),))


def cbor_response(value: cbor.Value, status: int = 200) -> Response:
    """A small CBOR object."""
    return Response(status, cbor.encode(value), CBOR)


def single(outcome: bytes | VeenError) -> Response:
    """The answer to one submit."""
    if isinstance(outcome, bytes):
        return Response(200, outcome, CBOR)
    return error_response(outcome)


def plain(kind: int, payload: bytes) -> Response:
    """What the writer said, as it said it."""
    if kind == ipc.OK:
        return Response(200, payload, CBOR)
    return error_response(ipc.as_error(payload))


def readiness(kind: int, payload: bytes) -> Response:
    """200 when the writer says ready, else 503 with its reasons."""
    if kind != ipc.OK:
        return plain(kind, payload)
    said = cbor.decode(payload)
    assert isinstance(said, dict)
    if said.get("ready"):
        return Response(200, payload, CBOR)
    return Response(503, payload, CBOR, (("Retry-After", "1"),))
