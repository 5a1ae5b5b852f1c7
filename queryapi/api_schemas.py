"""The shapes of the Query API as OpenAPI components [Query 4, 5, 7]."""

from __future__ import annotations

from typing import Any, Final

from queryapi.contract.descriptor import SERVER_KEYS
from queryapi.contract.descriptor_reader import (
    EVENT_TYPES_MAX,
    FIELDS_MAX,
    METRICS_MAX,
    PREDICATES_MAX,
    STREAMS_MAX,
)
from queryapi.contract.fields import KINDS, PAYLOAD, SEGMENTS_MAX
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
_FIELD_PATTERN: Final = (
    "(" + "|".join(name for name in KINDS if name != PAYLOAD)
    + rf"|{PAYLOAD}(\.[^.]+){{0,{SEGMENTS_MAX}}})"
)  # fmt: skip
_FIELD: Final = {"type": "string", "pattern": f"^{_FIELD_PATTERN}$"}
_PATH: Final = {"type": "string", "pattern": rf"^{PAYLOAD}(\.[^.]+){{0,{SEGMENTS_MAX}}}$"}
_METRIC: Final = {
    "type": "string",
    "pattern": rf"^(count|(min|max|sum|count_distinct)\({_FIELD_PATTERN}\))$",
}
_NOTHING: Final = {"type": "object", "nullable": True, "enum": [None]}  # null is absence
_EVERYTHING: Final = {"type": "array", "items": {"type": "string", "enum": ["*"]}, "minItems": 1,
                      "maxItems": 1}  # fmt: skip
_TIME_IN: Final = {
    "type": "string",
    "nullable": True,
    "pattern": r"^(19[7-9]\d|[2-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,3})?Z$",
    "example": "2026-03-01T09:00:00Z",
}


def _predicate(value: dict[str, Any], *ops: str) -> dict[str, Any]:
    return shape(path=_PATH, op={"type": "string", "enum": [*ops]}, value=value)


_FILTER: Final = shape(
    ("event_type", "subject_id", "time", "principal_id", "origin", "payload"),
    event_type={**many(TEXT), "maxItems": EVENT_TYPES_MAX, "nullable": True},
    subject_id=TEXT_OR_NULL,
    time={**shape(("from", "to"), **{"from": _TIME_IN, "to": _TIME_IN}), "nullable": True},
    principal_id=TEXT_OR_NULL,
    origin=TEXT_OR_NULL,
    payload={
        "type": "array",
        "items": {
            "anyOf": [
                _predicate(ANY, "eq", "ne"),
                _predicate({"anyOf": [TEXT, {"type": "number"}]}, "lt", "le", "gt", "ge"),
                _predicate(many(ANY), "in"),
                _predicate(FLAG, "exists"),
            ]
        },
        "minItems": 1,
        "maxItems": PREDICATES_MAX,
        "nullable": True,
    },
)
_EVIDENCE: Final = {
    "anyOf": [
        shape(
            ("sample_rate",),
            mode={"type": "string", "enum": ["none", "full"]},
            sample_rate={"type": "number", "nullable": True, "enum": [None]},
        ),
        shape(
            mode={"type": "string", "enum": ["spot"]},
            sample_rate={"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
        ),
    ]
}
_MODE: Final = {"type": "string", "enum": ["none", "spot", "full"]}
_FIELDS: Final = {**many(_FIELD), "maxItems": FIELDS_MAX, "uniqueItems": True}
_AGGREGATE: Final = shape(
    ("group_by",),
    group_by={**_FIELDS, "nullable": True},
    metrics={**many(_METRIC), "minItems": 1, "maxItems": METRICS_MAX, "uniqueItems": True},
)
_COVERAGE: Final = many(
    shape(stream=TEXT, label=HEX, hub_id=HEX, from_seq=SEQ, to_seq=SEQ, mmr_root=HEX_OR_NULL)
)
_SCOPE: Final = {**many(TEXT), "minItems": 1, "maxItems": STREAMS_MAX}
_META: Final = {
    "type": "object",
    "nullable": True,
    "properties": {
        "origin_hub": HEX_OR_NULL,
        **{key: {"not": {}, "description": "Only the server writes this."} for key in SERVER_KEYS},
    },
}
_ASKED: Final[dict[str, dict[str, Any]]] = {
    "query_id": {**QUERY_ID, "nullable": True},
    "version": {"type": "number", "enum": [1, None], "nullable": True},
    "scope": _SCOPE,
    "filter": {**_FILTER, "nullable": True},
    "evidence": _EVIDENCE,
    "meta": _META,
}

SCHEMAS: Final[dict[str, Any]] = {
    "QuerySubmitted": {"anyOf": [ref("QuerySelection"), ref("QueryAggregate")]},
    "QuerySelection": shape(
        ("query_id", "version", "filter", "aggregate", "meta"),
        **_ASKED,
        projection={"anyOf": [_EVERYTHING, {**_FIELDS, "minItems": 1}]},
        aggregate=_NOTHING,
    ),
    "QueryAggregate": shape(
        ("query_id", "version", "filter", "projection", "meta"),
        **_ASKED,
        projection={
            **_EVERYTHING,
            "nullable": True,
            "description": "The group_by fields, in any order, are taken too.",
        },
        aggregate=_AGGREGATE,
    ),
    "QueryDescriptor": shape(
        ("aggregate",),
        query_id=QUERY_ID,
        version={"type": "integer", "enum": [1]},
        scope=_SCOPE,
        filter=_FILTER,
        projection={"anyOf": [_EVERYTHING, {**_FIELDS, "minItems": 1}]},
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
        evidence_note=TEXT,
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
