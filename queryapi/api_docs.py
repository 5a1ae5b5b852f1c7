"""Every operation of the Query API: parameters, answers, refusals, examples [Query 7]."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from queryapi.api_schemas import QUERY_ID, RESULT_ID
from queryapi.contract.codes import CODES, QueryCode
from queryapi.contract.descriptor import Mode
from queryapi.contract.evidence import NOTES
from recorder.api_operations import NDJSON, Answer, Operation, Parameter, Schema, ref
from recorder.api_schemas import SEQ, UUID

_HASH: Final = "3f2a" * 16
_TIME: Final = "2026-03-01T09:00:00.000Z"
_STREAM: Final = "record/security/iam"
_RESULT: Final = f"r-{_HASH}"
_QUERY: Final = "q-incident-17"
_REPLAY: Final = "5b0c1f1e-7a55-4a0f-9a53-0d6b2f1a9c11"

SENTENCES: Final[dict[str, str]] = {
    QueryCode.INVALID_QUERY_DESCRIPTOR: "The descriptor breaks a rule; details say where.",
    QueryCode.UNSUPPORTED_VERSION: "Only version 1 is supported.",
    QueryCode.FORBIDDEN_SCOPE: "No such stream, or not for this token; which, is not said.",
    QueryCode.QUERY_NOT_FOUND: "No such query, or not yours, or its rows are no longer kept.",
    QueryCode.DUPLICATE_QUERY_ID: "The query_id was used for another query.",
    QueryCode.RESULT_NOT_READY: "The query is not finished; Retry-After says when to ask again.",
    QueryCode.RATE_LIMITED: "Too many queries at once, or in a minute.",
    QueryCode.EXECUTION_FAILED: "The query failed; the message says where.",
    QueryCode.COVERAGE_INCOMPLETE: "This zone does not hold all of the coverage.",
    QueryCode.COVERAGE_PRUNED: "Retention took payloads of the coverage.",
    QueryCode.COVERAGE_MISMATCH: "This zone's log has another root.",
    QueryCode.LAKE_BEHIND: "The lake did not reach the coverage in time.",
    QueryCode.RESULT_TOO_LARGE: "More rows or bytes than allowed.",
    QueryCode.EVIDENCE_FAILED: "An event could not be verified; the message names it.",
    QueryCode.CANCELLED: "The query was cancelled.",
}
_FAILED: Final = (
    QueryCode.EXECUTION_FAILED, QueryCode.COVERAGE_INCOMPLETE, QueryCode.COVERAGE_PRUNED,
    QueryCode.COVERAGE_MISMATCH, QueryCode.LAKE_BEHIND, QueryCode.RESULT_TOO_LARGE,
    QueryCode.EVIDENCE_FAILED, QueryCode.CANCELLED,
)  # fmt: skip
_READ: Final = (QueryCode.QUERY_NOT_FOUND, QueryCode.RESULT_NOT_READY, *_FAILED)
_ETAG: Final = {"ETag": "The same for the same bytes.", "Cache-Control": "private, immutable"}
_HASHED: Final = {**_ETAG, "Repr-Digest": "SHA-256 of the body (RFC 9530)."}
_PAGED: Final = {**_HASHED, "Link": "The next page, where there is one."}
_UNCHANGED: Final = Answer(
    status=304,
    description="What the client holds is what there is.",
    schema={},
    example=None,
    content_type="",
    headers=_ETAG,
)
_IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match",
    description="ETags of what the client holds.",
    schema={"type": "string"},
    where="header",
)
_ROWS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_BY_RESULT: Final = Parameter(
    name="result_id", description="As submit gave it.", schema=RESULT_ID, where="path"
)

_SUBMITTED: Final[dict[str, object]] = {
    "query_id": _QUERY,
    "scope": [_STREAM],
    "filter": {"event_type": ["login.failed"], "time": {"from": "2026-03-01T00:00:00Z"}},
    "projection": ["subject_id", "event_time", "origin", "payload.reason", "receipt_id"],
    "evidence": {"mode": "full"},
    "meta": {"reason": "incident 17"},
}
_COUNTED: Final[dict[str, object]] = {
    "scope": [_STREAM],
    "aggregate": {"group_by": ["subject_id"], "metrics": ["count", "max(event_time)"]},
    "evidence": {"mode": "none"},
}
_DESCRIPTOR: Final[dict[str, object]] = {
    "query_id": _QUERY,
    "version": 1,
    "scope": [_STREAM],
    "filter": {"event_type": None, "subject_id": None, "time": {"from": None, "to": None}},
    "projection": ["receipt_id"],
    "evidence": {"mode": "none"},
    "meta": {
        "coverage": [
            {
                "stream": _STREAM, "label": _HASH, "hub_id": _HASH, "from_seq": 1, "to_seq": 42,
                "mmr_root": _HASH,
            }
        ],
        "principal_id": _HASH,
        "requested_at": _TIME,
    },
}  # fmt: skip
_DIGEST: Final[dict[str, object]] = {
    "query_id": _QUERY, "result_id": _RESULT, "version": 1, "row_count": 1,
    "evidence_policy": {"mode": "none"}, "rows_hash": _HASH, "evidence_hash": _HASH,
    "executed_at": _TIME, "hub_id": _HASH, "profile_id": _HASH, "unreadable_count": 0,
}  # fmt: skip
_EVENT: Final[dict[str, object]] = {
    "stream": "record/query/results", "seq": 7, "hub_id": _HASH, "receipt_id": f"rcpt-{_HASH}",
}  # fmt: skip
_PAGE: Final[dict[str, object]] = {
    "result_digest": _DIGEST,
    "record_event": _EVENT,
    "evidence_note": NOTES[Mode.NONE],
    "rows": [{"receipt_id": f"rcpt-{_HASH}"}],
    "page": {"offset": 0, "limit": 1000, "total": 1, "has_more": False, "sha256": _HASH},
}
_STATUS: Final[dict[str, object]] = {
    "query_id": _QUERY, "result_id": _RESULT, "status": "running", "error_code": None,
    "message": None, "progress": {"step": "rows", "done": 3, "total": 6}, "submitted_at": _TIME,
    "started_at": _TIME, "finished_at": None,
}  # fmt: skip


def _operation(
    name: str,
    summary: str,
    answers: Sequence[Answer],
    errors: Sequence[StrEnum] = (),
    **more: Any,  # noqa: ANN401 - the other fields of an Operation
) -> Operation:
    return Operation(
        id=name,
        tag="query",
        summary=summary,
        answers=answers,
        errors=errors,
        codes=CODES,
        sentences=SENTENCES,
        **more,
    )


def _answer(
    schema: Schema,
    example: object,
    description: str,
    status: int = 200,
    **more: Any,  # noqa: ANN401 - the other fields of an Answer
) -> Answer:
    return Answer(status=status, description=description, schema=schema, example=example, **more)


SUBMIT: Final = _operation(
    "submit_query",
    "Ask a question",
    (
        _answer(ref("QueryResult"), _PAGE, "Answered within the synchronous budget."),
        _answer(
            ref("QueryPending"),
            {"query_id": _QUERY, "result_id": _RESULT, "status": "pending"},
            "Taken: durable, and executed whatever stops.",
            202,
        ),
    ),
    (
        QueryCode.INVALID_QUERY_DESCRIPTOR, QueryCode.UNSUPPORTED_VERSION,
        QueryCode.FORBIDDEN_SCOPE, QueryCode.DUPLICATE_QUERY_ID, QueryCode.RATE_LIMITED,
        QueryCode.HUB_UNAVAILABLE, QueryCode.QUERY_NOT_FOUND,
    ),
    description="The descriptor is normalized, pinned to the log as it is now and recorded before "
    "it is executed. The same `query_id` with the same question gives the first answer. `Prefer: "
    "wait=10` waits longer for it, `Prefer: respond-async` not at all.",
    parameters=(
        Parameter(
            name="Prefer",
            description="RFC 7240: `respond-async`, or `wait` with seconds, at most 30.",
            schema={"type": "string"},
            where="header",
        ),
    ),
    body=ref("QuerySubmitted"),
    body_examples={"failed logins": _SUBMITTED, "count by subject": _COUNTED},
)  # fmt: skip
STATUS: Final = _operation(
    "query_status",
    "How far a query is",
    (_answer(ref("QueryStatus"), _STATUS, "Progress counts Spark's tasks of the current step."),),
    (QueryCode.QUERY_NOT_FOUND,),
    parameters=(_BY_RESULT,),
)
RESULT: Final = _operation(
    "query_result",
    "Rows of a query, page by page",
    (
        _answer(
            ref("QueryResult"), _PAGE, "A slice of the bytes that rows_hash covers.", headers=_PAGED
        ),
        _UNCHANGED,
    ),
    _READ,
    description="`page.sha256` is that of the canonical array of this page's rows; "
    "`evidence_note` says what the evidence rests on.",
    parameters=(
        _BY_RESULT,
        Parameter(
            name="offset", description="First row.", schema={**SEQ, "maximum": 2**53, "default": 0}
        ),
        Parameter(
            name="limit",
            description="Rows in the page.",
            schema={"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
        ),
        _IF_NONE_MATCH,
    ),
)
ROWS: Final = _operation(
    "query_rows",
    "The exact bytes that rows_hash covers",
    (
        _answer(
            _ROWS,
            [{"receipt_id": f"rcpt-{_HASH}"}],
            "`sha256sum` of the body is rows_hash.",
            headers=_HASHED,
        ),
        _UNCHANGED,
    ),
    _READ,
    parameters=(_BY_RESULT, _IF_NONE_MATCH),
)
DOWNLOAD: Final = _operation(
    "query_download",
    "Rows as a file",
    (
        _answer(
            _ROWS,
            [{"receipt_id": f"rcpt-{_HASH}"}],
            "An attachment, with the digest beside it in a header.",
            other_types={
                NDJSON: '{"receipt_id":"rcpt-..."}\n',
                "text/csv": "receipt_id\r\nrcpt-...\r\n",
                "application/vnd.apache.parquet": "PAR1...",
            },
            headers={**_ETAG, "Veen-Result-Digest": "The ResultDigest, canonical JSON."},
        ),
        _UNCHANGED,
    ),
    _READ,
    description="In CSV a text that looks like a formula gets an apostrophe in front.",
    parameters=(
        _BY_RESULT,
        Parameter(
            name="format",
            description="json by default.",
            schema={"type": "string", "enum": ["json", "ndjson", "csv", "parquet"]},
        ),
        _IF_NONE_MATCH,
    ),
)
EVIDENCE: Final = _operation(
    "query_evidence",
    "The evidence summary",
    (
        _answer(
            ref("QueryEvidence"),
            {"mode": "none"},
            "`sha256sum` of the body is evidence_hash.",
            headers=_HASHED,
        ),
        _UNCHANGED,
    ),
    _READ,
    parameters=(_BY_RESULT, _IF_NONE_MATCH),
)
DESCRIPTOR: Final = _operation(
    "query_descriptor",
    "A query as it was recorded",
    (
        _answer(
            ref("QueryRecorded"),
            {
                "descriptor": _DESCRIPTOR,
                "record_event": {**_EVENT, "stream": "record/query/requests"},
            },
            "`record_event` is null, and there is no ETag, until the RECEIPT is held.",
        ),
        _UNCHANGED,
    ),
    (QueryCode.QUERY_NOT_FOUND,),
    parameters=(
        Parameter(
            name="query_id", description="As submitted or given.", schema=QUERY_ID, where="path"
        ),
        _IF_NONE_MATCH,
    ),
)
CANCEL: Final = _operation(
    "cancel_query",
    "Stop a query",
    (
        _answer(
            ref("QueryStatus"),
            {**_STATUS, "status": "failed", "error_code": "cancelled", "finished_at": _TIME},
            "What had ended stays as it is.",
        ),
    ),
    (QueryCode.QUERY_NOT_FOUND,),
    parameters=(_BY_RESULT,),
)
LIST: Final = _operation(
    "list_queries",
    "Queries, newest first",
    (_answer(ref("QueryStatuses"), {"queries": [_STATUS], "next": None}, "Your own; "
             "administrators see all."),),
    (QueryCode.QUERY_NOT_FOUND,),
    parameters=(
        Parameter(name="after", description="The `next` of the page before.", schema=RESULT_ID),
        Parameter(
            name="limit",
            description="Queries in the page.",
            schema={"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        ),
    ),
)  # fmt: skip
REPLAY_QUERY: Final = _operation(
    "replay_query",
    "Ask a recorded query again",
    (
        _answer(
            ref("QueryReplayTaken"),
            {"replay_id": _REPLAY, "status": "pending"},
            "The comparison will be found under this id.",
            202,
        ),
    ),
    (
        QueryCode.INVALID_QUERY_DESCRIPTOR, QueryCode.UNSUPPORTED_VERSION,
        QueryCode.FORBIDDEN_SCOPE, QueryCode.RATE_LIMITED, QueryCode.HUB_UNAVAILABLE,
    ),
    description="Descriptor and digest as another zone or time recorded them. The recorded "
    "coverage decides which log is read.",
    body=ref("QueryReplayAsked"),
    body_examples={"replay": {"descriptor": _DESCRIPTOR, "result_digest": _DIGEST}},
)  # fmt: skip
REPLAYED: Final = _operation(
    "query_replay",
    "A replay and how it compares",
    (
        _answer(
            ref("QueryReplay"),
            {
                "replay_id": _REPLAY, "status": "completed", "error_code": None, "message": None,
                "local_digest": _DIGEST, "equal": True,
                "comparison": [
                    {"field": "rows_hash", "theirs": _HASH, "ours": _HASH, "equal": True}
                ],
            },
            "Field by field, what could be read first.",
        ),
    ),
    (QueryCode.QUERY_NOT_FOUND,),
    parameters=(Parameter(name="replay_id", description="", schema=UUID, where="path"),),
)  # fmt: skip
