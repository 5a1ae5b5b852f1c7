"""The codes of the recorder's API and the one refusal that carries them [SDR0 3.2.2, 3.2.3]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hub.errors import ErrorCode, VeenError


class RecordCode(StrEnum):
    """`error_code` of an answer; contract."""

    INVALID_JSON = "invalid_json"
    INVALID_PARAMETER = "invalid_parameter"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_EVENT = "invalid_event"
    UNKNOWN_EVENT_TYPE = "unknown_event_type"
    WRONG_STREAM = "wrong_stream"
    FORBIDDEN_STREAM = "forbidden_stream"
    EVENT_TOO_LARGE = "event_too_large"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    RATE_LIMITED = "rate_limited"
    HUB_UNAVAILABLE = "hub_unavailable"
    LAKE_BEHIND = "lake_behind"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeInfo:
    """What a code means over HTTP, and the code of the tools that gives its exit code."""

    status: int
    tool_code: ErrorCode


def _info(status: int, tool_code: ErrorCode) -> CodeInfo:
    return CodeInfo(status=status, tool_code=tool_code)


CODES: Final[dict[RecordCode, CodeInfo]] = {
    RecordCode.INVALID_JSON: _info(400, ErrorCode.FORMAT),
    RecordCode.INVALID_PARAMETER: _info(400, ErrorCode.FORMAT),
    RecordCode.UNAUTHORIZED: _info(401, ErrorCode.AUTH),
    RecordCode.FORBIDDEN: _info(403, ErrorCode.CAP),
    RecordCode.NOT_FOUND: _info(404, ErrorCode.NOTFOUND),
    RecordCode.METHOD_NOT_ALLOWED: _info(405, ErrorCode.FORMAT),
    RecordCode.UNSUPPORTED_MEDIA_TYPE: _info(415, ErrorCode.FORMAT),
    RecordCode.INVALID_EVENT: _info(400, ErrorCode.FORMAT),
    RecordCode.UNKNOWN_EVENT_TYPE: _info(400, ErrorCode.FORMAT),
    RecordCode.WRONG_STREAM: _info(400, ErrorCode.FORMAT),
    RecordCode.FORBIDDEN_STREAM: _info(403, ErrorCode.CAP),
    RecordCode.EVENT_TOO_LARGE: _info(413, ErrorCode.SIZE),
    RecordCode.IDEMPOTENCY_CONFLICT: _info(409, ErrorCode.DUP),
    RecordCode.RATE_LIMITED: _info(429, ErrorCode.RATE),
    RecordCode.HUB_UNAVAILABLE: _info(503, ErrorCode.UNREACHABLE),
    RecordCode.LAKE_BEHIND: _info(503, ErrorCode.BUSY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One flaw: where in the request (RFC 6901) and what it is."""

    pointer: str
    reason: str


class ApiError(VeenError):
    """A refusal as an HTTP API words it; each product has its own family and table of codes."""

    def __init__(
        self,
        error_code: StrEnum,
        info: CodeInfo,
        message: str,
        *,
        details: Iterable[Detail] = (),
        retry_after_s: int | None = None,
    ) -> None:
        self.error_code = error_code
        self.status = info.status
        self.message = message
        self.details = tuple(details)
        places = "; ".join([f"{one.pointer or '/'}: {one.reason}" for one in self.details])
        worded = f"{error_code}: {message}" + (f" ({places})" if places else "")
        super().__init__(info.tool_code, worded, retry_after_s=retry_after_s)

    def to_json(self) -> dict[str, object]:
        """The body of the answer; the edge adds request_id."""
        found: dict[str, object] = {"error_code": self.error_code.value, "message": self.message}
        if self.details:
            found["details"] = [
                {"pointer": one.pointer, "reason": one.reason} for one in self.details
            ]
        return found


class RecordError(ApiError):
    """A refusal of the recorder, as its API words it."""

    error_code: RecordCode

    def __init__(
        self,
        error_code: RecordCode,
        message: str,
        *,
        details: Iterable[Detail] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(
            error_code, CODES[error_code], message, details=details, retry_after_s=retry_after_s
        )
