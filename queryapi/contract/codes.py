"""The codes of the Query API and the one refusal that carries them [Query 7.6; interfaces]."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from hub.errors import ErrorCode
from recorder.codes import ApiError, CodeInfo, Detail


class QueryCode(StrEnum):
    """`error_code` of an answer or of a failed execution; contract."""

    INVALID_JSON = "invalid_json"
    INVALID_QUERY_DESCRIPTOR = "invalid_query_descriptor"
    UNSUPPORTED_VERSION = "unsupported_version"
    INVALID_PARAMETER = "invalid_parameter"
    FORBIDDEN_SCOPE = "forbidden_scope"
    QUERY_NOT_FOUND = "query_not_found"
    DUPLICATE_QUERY_ID = "duplicate_query_id"
    RESULT_NOT_READY = "result_not_ready"
    RATE_LIMITED = "rate_limited"
    HUB_UNAVAILABLE = "hub_unavailable"
    INTERNAL_ERROR = "internal_error"
    # Ends of an execution: status.error_code, and the answer to asking for the result.
    EXECUTION_FAILED = "execution_failed"
    COVERAGE_INCOMPLETE = "coverage_incomplete"
    COVERAGE_PRUNED = "coverage_pruned"
    COVERAGE_MISMATCH = "coverage_mismatch"
    LAKE_BEHIND = "lake_behind"
    RESULT_TOO_LARGE = "result_too_large"
    EVIDENCE_FAILED = "evidence_failed"
    CANCELLED = "cancelled"


def _info(status: int, tool_code: ErrorCode) -> CodeInfo:
    return CodeInfo(status=status, tool_code=tool_code)


CODES: Final[dict[QueryCode, CodeInfo]] = {
    QueryCode.INVALID_JSON: _info(400, ErrorCode.FORMAT),
    QueryCode.INVALID_QUERY_DESCRIPTOR: _info(400, ErrorCode.FORMAT),
    QueryCode.UNSUPPORTED_VERSION: _info(400, ErrorCode.FORMAT),
    QueryCode.INVALID_PARAMETER: _info(400, ErrorCode.FORMAT),
    QueryCode.FORBIDDEN_SCOPE: _info(403, ErrorCode.CAP),
    QueryCode.QUERY_NOT_FOUND: _info(404, ErrorCode.NOTFOUND),
    QueryCode.DUPLICATE_QUERY_ID: _info(409, ErrorCode.DUP),
    QueryCode.RESULT_NOT_READY: _info(409, ErrorCode.BUSY),
    QueryCode.RATE_LIMITED: _info(429, ErrorCode.RATE),
    QueryCode.HUB_UNAVAILABLE: _info(503, ErrorCode.UNREACHABLE),
    QueryCode.INTERNAL_ERROR: _info(500, ErrorCode.INTERNAL),
    QueryCode.EXECUTION_FAILED: _info(409, ErrorCode.FORMAT),
    QueryCode.COVERAGE_INCOMPLETE: _info(409, ErrorCode.NOTFOUND),
    QueryCode.COVERAGE_PRUNED: _info(409, ErrorCode.PRUNED),
    QueryCode.COVERAGE_MISMATCH: _info(409, ErrorCode.PROOF),
    QueryCode.LAKE_BEHIND: _info(409, ErrorCode.BUSY),
    QueryCode.RESULT_TOO_LARGE: _info(409, ErrorCode.SIZE),
    QueryCode.EVIDENCE_FAILED: _info(409, ErrorCode.PROOF),
    QueryCode.CANCELLED: _info(409, ErrorCode.FORMAT),
}


class QueryError(ApiError):
    """A refusal or a failure of a query, as the API words it."""

    error_code: QueryCode

    def __init__(
        self,
        error_code: QueryCode,
        message: str,
        *,
        details: Iterable[Detail] = (),
        retry_after_s: int | None = None,
        status: int | None = None,
    ) -> None:
        info = CODES[error_code]
        if status is not None:
            info = _info(status, info.tool_code)
        super().__init__(error_code, info, message, details=details, retry_after_s=retry_after_s)


def failed_at(code: QueryCode, stream: str, seq: int, reason: str) -> QueryError:
    """A failure that one event caused; the message names it as `stream seq`."""
    return QueryError(code, f"{stream} {seq}: {reason}")
