"""The shapes of the Query API as OpenAPI components [Query 4, 5, 7]."""

from __future__ import annotations

from typing import Any, Final

from recorder.api_operations import ref
from recorder.api_schemas import (
    ANY,
    FLAG,
    HEX,
    HEX_OR_NULL,
    OBJECT,
    SEQ,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    UUID,
    many,
    shape,
)

RESULT_ID: Final = {"type": "string", "pattern": "^r-[0-9a-f]{64}$"}
QUERY_ID: Final = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}
STATUS: Final = {"type": "string", "enum": ["pending", "running", "completed", "failed"]}
_RATE: Final = {"type": "number", "nullable": True}
_TIME_IN: Final = {
    "type": "string",
    "nullable": True,
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$",
}
_MODE: Final = {"type": "string", "enum": ["none", "spot", "full"]}
_OP: Final = {"type": "string", "enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "exists"]}
_FILTER: Final = shape(
    ("event_type", "subject_id", "time", "principal_id", "origin", "payload"),
    event_type={**many(TEXT), "maxItems": 1000, "nullable": True},
    subject_id=TEXT_OR_NULL,
    time={**shape(("from", "to"), **{"from": _TIME_IN, "to": _TIME_IN}), "nullable": True},
    principal_id=TEXT_OR_NULL,
    origin=TEXT_OR_NULL,
    payload={
        **many(shape(path={"type": "string", "pattern": r"^payload(\..+)?$"}, op=_OP, value=ANY)),
        "minItems": 1,
        "maxItems": 32,
        "nullable": True,
    },
)
_EVIDENCE: Final = shape(("sample_rate",), mode=_MODE, sample_rate=_RATE)
_AGGREGATE: Final = shape(
    ("group_by",),
    group_by={**many(TEXT), "maxItems": 64, "nullable": True},
    metrics={**many(TEXT), "minItems": 1, "maxItems": 16},
)
_COVERAGE: Final = many(
    shape(stream=TEXT, label=HEX, hub_id=HEX, from_seq=SEQ, to_seq=SEQ, mmr_root=HEX_OR_NULL)
)
_SCOPE: Final = {**many(TEXT), "minItems": 1, "maxItems": 64}

SCHEMAS: Final[dict[str, Any]] = {
    "QuerySubmitted": shape(
        ("query_id", "version", "filter", "projection", "aggregate", "meta"),
        query_id={**QUERY_ID, "nullable": True},
        version={"type": "number", "nullable": True},
        scope=_SCOPE,
        filter={**_FILTER, "nullable": True},
        projection={**many(TEXT), "minItems": 1, "maxItems": 64, "nullable": True},
        aggregate={**_AGGREGATE, "nullable": True},
        evidence=_EVIDENCE,
        meta={**OBJECT, "nullable": True},
    ),
    "QueryDescriptor": shape(
        ("aggregate",),
        query_id=QUERY_ID,
        version={"type": "integer", "enum": [1]},
        scope=_SCOPE,
        filter=_FILTER,
        projection=many(TEXT),
        aggregate=_AGGREGATE,
        evidence=_EVIDENCE,
        meta={
            "type": "object",
            "properties": {"coverage": _COVERAGE, "principal_id": HEX},
            "required": ["coverage", "principal_id"],
        },
    ),
    "QueryPending": shape(query_id=QUERY_ID, result_id=RESULT_ID, status=STATUS),
    "QueryStatus": shape(
        query_id=QUERY_ID,
        result_id=RESULT_ID,
        status=STATUS,
        error_code=TEXT_OR_NULL,
        message=TEXT_OR_NULL,
        progress=shape(step=TEXT_OR_NULL, done=SEQ, total=SEQ),
        submitted_at=TIME,
        started_at=TIME_OR_NULL,
        finished_at=TIME_OR_NULL,
    ),
    "QueryStatuses": shape(queries=many(ref("QueryStatus")), next={**RESULT_ID, "nullable": True}),
    "QueryRecordEvent": {
        **shape(stream=TEXT, seq=SEQ, hub_id=HEX, receipt_id=TEXT),
        "nullable": True,
    },
    "ResultDigest": shape(
        query_id=QUERY_ID,
        result_id=RESULT_ID,
        version={"type": "integer", "enum": [1]},
        row_count=SEQ,
        evidence_policy=_EVIDENCE,
        rows_hash=HEX,
        evidence_hash=HEX,
        executed_at=TIME,
        hub_id=HEX,
        profile_id=HEX,
        unreadable_count=SEQ,
    ),
    "QueryResult": shape(
        result_digest=ref("ResultDigest"),
        record_event=ref("QueryRecordEvent"),
        rows=many(OBJECT),
        page=shape(offset=SEQ, limit=SEQ, total=SEQ, has_more=FLAG, sha256=HEX),
    ),
    "QueryRecorded": shape(descriptor=ref("QueryDescriptor"), record_event=ref("QueryRecordEvent")),
    "QueryEvidence": {
        "type": "object",
        "properties": {
            "mode": _MODE,
            "query_id": QUERY_ID,
            "result_id": RESULT_ID,
            "sample_rate": {"type": "number"},
            "coverage": _COVERAGE,
            "verified": many(OBJECT),
        },
        "required": ["mode"],
    },
    "QueryReplayAsked": shape(descriptor=ref("QueryDescriptor"), result_digest=ref("ResultDigest")),
    "QueryReplayTaken": shape(replay_id=UUID, status=STATUS),
    "QueryReplay": shape(
        replay_id=UUID,
        status=STATUS,
        error_code=TEXT_OR_NULL,
        message=TEXT_OR_NULL,
        local_digest={"allOf": [ref("ResultDigest")], "nullable": True},
        comparison=many(shape(field=TEXT, theirs=ANY, ours=ANY, equal=FLAG)),
        equal={**FLAG, "nullable": True},
    ),
}
