"""Every operation of the recorder's API: parameters, answers, refusals, examples [interfaces]."""

from __future__ import annotations

from typing import Final

from recorder.api_operations import NDJSON, Answer, Operation, Parameter, ref
from recorder.api_schemas import HEX, SEQ, TEXT
from recorder.codes import RecordCode

_HASH: Final = "3f2a" * 16
_TIME: Final = "2026-03-01T09:00:00.000Z"
_B64: Final = "h1gg"
_STREAM: Final = "record/app/shop"
_ACT: Final = "5b0c1f1e-7a55-4a0f-9a53-0d6b2f1a9c11"

_RECORDED: Final = {
    "stream": _STREAM, "hub_commit_seq": 42, "hub_commit_time": _TIME, "principal_id": _HASH,
    "receipt_id": f"rcpt-{_HASH}", "receipt": _B64,
}  # fmt: skip
_EVENT: Final = {
    "event_type": "order.placed", "subject_id": "customer-7", "payload": {"total": 1250},
    "idempotency_key": "order-4711",
}  # fmt: skip
RECORD_EVENTS: Final = Operation(
    id="record_events",
    tag="record",
    summary="Record one event or a batch",
    description="Answered by the gateway, to which the request is handed unread. With an "
    "`idempotency_key` sending again is safe for seven days. Item i of a batch's results answers "
    "event i; items stand or fall by themselves.",
    body={"anyOf": [ref("Event"), ref("EventBatch")]},
    body_examples={"one": _EVENT, "batch": {"events": [_EVENT]}},
    answers=(
        Answer(
            status=201,
            description="Recorded: the hub's receipt is held.",
            schema=ref("Recorded"),
            example=_RECORDED,
        ),
        Answer(
            status=200,
            description="A batch, or an event that was recorded before under this key.",
            schema={"anyOf": [ref("RecordedBatch"), ref("Recorded")]},
            example={"results": [_RECORDED]},
        ),
    ),
    errors=(
        RecordCode.INVALID_EVENT,
        RecordCode.UNKNOWN_EVENT_TYPE,
        RecordCode.WRONG_STREAM,
        RecordCode.FORBIDDEN_STREAM,
        RecordCode.EVENT_TOO_LARGE,
        RecordCode.IDEMPOTENCY_CONFLICT,
        RecordCode.RATE_LIMITED,
        RecordCode.HUB_UNAVAILABLE,
    ),
    roles=frozenset({"producer"}),
)

_TIME_TEXT: Final = {
    **TEXT,
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$",
    "example": _TIME,
}
REPLAY: Final = Operation(
    id="replay",
    tag="record",
    summary="Replay events in order",
    description="NDJSON ordered by (stream, hub_commit_seq); the last line is "
    '`{"end": {...}}`, so an answer that was cut is seen. By range of one stream, or by window of '
    "several, never both; with neither, everything. With proofs and "
    "`/api/record/manifests/{manifest_id}` every line can be checked against a pinned hub key.",
    parameters=(
        Parameter(
            name="stream",
            description="May be repeated, up to 64 times.",
            schema={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 64},
            is_required=True,
        ),
        Parameter(
            name="from_seq",
            description="First sequence, of one stream; 1 by default.",
            schema={**SEQ, "minimum": 1, "maximum": 2**63 - 1},
        ),
        Parameter(
            name="to_seq",
            description="Last sequence, inclusive; cut at the head.",
            schema={**SEQ, "minimum": 1, "maximum": 2**63 - 1},
        ),
        Parameter(
            name="start_time",
            description="First hub_commit_time, inclusive.",
            schema=_TIME_TEXT,
        ),
        Parameter(
            name="end_time", description="Last hub_commit_time, inclusive.", schema=_TIME_TEXT
        ),
        Parameter(
            name="with_proofs",
            description="1 adds msg and proof to each line.",
            schema={"type": "integer", "enum": [0, 1]},
        ),
        Parameter(
            name="manifest",
            description="The manifest to prove against; the newest by default.",
            schema=HEX,
        ),
    ),
    answers=(
        Answer(
            status=200,
            description="One JSON object in each line.",
            schema=ref("ReplayLine"),
            example='{"stream":"record/app/shop","hub_commit_seq":1,...}\n{"end":{"count":1,...}}\n',
            content_type=NDJSON,
        ),
    ),
    errors=(
        RecordCode.FORBIDDEN_STREAM,
        RecordCode.NOT_FOUND,
        RecordCode.LAKE_BEHIND,
        RecordCode.HUB_UNAVAILABLE,
    ),
)
STREAMS: Final = Operation(
    id="streams",
    tag="record",
    summary="The streams a caller may see",
    description="Readers and administrators see where each stream stands; a producer sees what it "
    "needs to write to its own.",
    answers=(
        Answer(
            status=200,
            description="By name.",
            schema=ref("Streams"),
            example={
                "streams": [
                    {
                        "name": _STREAM, "label": _HASH, "class": "log", "sensitivity": "medium",
                        "retention_hint": "long_term", "event_bytes_max": 65536,
                        "event_types": ["order.placed"], "head_seq": 42, "head_root": _HASH,
                        "head_time": _TIME,
                        "last_checkpoint": {
                            "manifest_id": _HASH, "upto_seq": 40, "created_at": _TIME,
                        },
                    }
                ]
            },
        ),
    ),
    errors=(RecordCode.HUB_UNAVAILABLE,),
)  # fmt: skip
MANIFEST: Final = Operation(
    id="manifest",
    tag="record",
    summary="A signed checkpoint manifest",
    description="With it, the rotation records and a pinned hub key, all proofs of a replay can be "
    "checked offline.",
    parameters=(
        Parameter(
            name="manifest_id",
            description="64 hex digits, or `latest`.",
            schema={"type": "string", "pattern": "^([0-9a-f]{64}|latest)$"},
            where="path",
        ),
    ),
    answers=(
        Answer(
            status=200,
            description="CBOR in base64.",
            schema=ref("Manifest"),
            example={"manifest": _B64, "rotations": []},
        ),
    ),
    errors=(RecordCode.NOT_FOUND, RecordCode.HUB_UNAVAILABLE),
)
CHECKPOINT: Final = Operation(
    id="checkpoint",
    tag="record",
    summary="Make a checkpoint now",
    body=ref("Reason"),
    body_examples={"drill": {"reason": "before the drill"}},
    is_body_required=False,
    answers=(
        Answer(
            status=201,
            description="Signed by the hub and recorded.",
            schema=ref("Checkpoint"),
            example={
                "manifest_id": _HASH,
                "created_at": _TIME,
                "streams": [{"name": _STREAM, "upto_seq": 42, "mmr_root": _HASH}],
            },
        ),
    ),
    errors=(RecordCode.HUB_UNAVAILABLE,),
)

_PAGE: Final = (
    Parameter(name="after", description="The `next` of the page before.", schema=TEXT),
    Parameter(
        name="limit",
        description="Rows in a page; 200 by default.",
        schema={"type": "integer", "minimum": 1, "maximum": 1000},
    ),
)
_ACT_SHOWN: Final[dict[str, object]] = {
    "act_id": _ACT, "verb": "stream.create", "args": {"name": _STREAM}, "actor": "token:ops",
    "reason": "a new service", "state": "done", "result": {"stream": _STREAM}, "error_code": None,
    "message": None, "created_at": _TIME, "finished_at": _TIME,
}  # fmt: skip
ASK_ACT: Final = Operation(
    id="ask_act",
    tag="admin",
    summary="Ask for an administrative act",
    description="Taken is not done: the author executes and records it. The text of a new token "
    "or password is in this answer and nowhere else.",
    body=ref("ActAsked"),
    body_examples={
        "stream": {
            "verb": "stream.create",
            "args": {"name": _STREAM, "event_types": ["order.placed"]},
            "reason": "a new service",
        }
    },
    answers=(
        Answer(
            status=202,
            description="Look at the act until it is over.",
            schema=ref("ActTaken"),
            example={"act_id": _ACT, "state": "pending"},
        ),
    ),
    errors=(RecordCode.NOT_FOUND,),
)
ACT: Final = Operation(
    id="act",
    tag="admin",
    summary="An act and how far it is",
    parameters=(
        Parameter(
            name="act_id",
            description="As the answer to asking named it.",
            schema={"type": "string", "format": "uuid"},
            where="path",
        ),
        Parameter(
            name="wait",
            description="Hold the answer back until the act is over, so many seconds at most.",
            schema={"type": "integer", "minimum": 0, "maximum": 30},
        ),
    ),
    answers=(
        Answer(
            status=200,
            description="state is pending, done or failed.",
            schema=ref("Act"),
            example=_ACT_SHOWN,
        ),
    ),
    errors=(RecordCode.NOT_FOUND,),
)


def _list(name: str, schema: str, summary: str, row: dict[str, object]) -> Operation:
    return Operation(
        id=f"list_{name}",
        tag="admin",
        summary=summary,
        parameters=_PAGE,
        answers=(
            Answer(
                status=200,
                description="A page; `next` is null on the last one.",
                schema=ref(schema),
                example={name: [row], "next": None},
            ),
        ),
    )


ACTS: Final = _list("acts", "Acts", "Acts that were asked for, the newest first", _ACT_SHOWN)
ADMIN_STREAMS: Final = _list(
    "streams",
    "AdminStreams",
    "Streams as they are set up",
    {
        "name": _STREAM, "label": _HASH, "class": "log", "sensitivity": "medium",
        "retention_hint": "long_term", "event_bytes_max": 65536, "event_types": ["order.placed"],
        "key_id": 1, "keys": [{"key_id": 1, "record": _B64}], "readers": ["recorder-admin"],
        "created_at": _TIME,
    },
)  # fmt: skip
PRODUCERS: Final = _list(
    "producers",
    "Producers",
    "Producers, also those that have ended",
    {
        "id": 1, "name": "billing", "principal": _HASH, "held": "gateway", "streams": [_STREAM],
        "auth_ref": _HASH, "created_at": _TIME, "ended_at": None, "ended_because": None,
        "revoked_at": None,
    },
)  # fmt: skip
TOKENS: Final = _list(
    "tokens",
    "Tokens",
    "Tokens by name; their text is nowhere",
    {
        "token_id": _ACT, "name": "audit", "role": "reader", "producer": None, "streams": [],
        "all": True, "principal_id": _HASH, "created_at": _TIME, "revoked_at": None,
        "last_used_at": None,
    },
)  # fmt: skip
READERS: Final = _list(
    "readers",
    "Readers",
    "Readers and the keys wrapped to them",
    {
        "name": "recorder-admin", "dh_pk": _HASH, "streams": [{"name": _STREAM, "key_ids": [1]}],
        "created_at": _TIME, "revoked_at": None,
    },
)  # fmt: skip
FINDINGS: Final = _list(
    "findings",
    "Findings",
    "What must not be, the newest first; an act acknowledges it",
    {
        "finding_id": 3, "code": "key_out_of_scope", "severity": "warning",
        "object": "shop on record/app/bills", "detail": "the hub refused them",
        "first_seen": _TIME, "last_seen": _TIME, "acknowledged_by": None, "reason": None,
    },
)  # fmt: skip
_JOB_SHOWN: Final[dict[str, object]] = {
    "job_id": _ACT, "kind": "audit", "args": {"streams": [_STREAM]}, "state": "running",
    "progress": {"done": 4000, "total": 10000}, "result": {}, "error": None, "created_at": _TIME,
    "finished_at": None,
}  # fmt: skip
_JOB_ID: Final = Parameter(
    name="job_id",
    description="The id of the act that asked for it.",
    schema={"type": "string", "format": "uuid"},
    where="path",
)
_JOB_ANSWER: Final = Answer(
    status=200,
    description="state is pending, running, done, failed or cancelled.",
    schema=ref("LakeJob"),
    example=_JOB_SHOWN,
)
LAKE_JOBS: Final = _list(
    "lake_jobs", "LakeJobs", "Runs of seal and audit, the newest first", _JOB_SHOWN
)
LAKE_JOB: Final = Operation(
    id="lake_job",
    tag="admin",
    summary="A run of seal or audit and how far it is",
    parameters=(_JOB_ID,),
    answers=(_JOB_ANSWER,),
    errors=(RecordCode.NOT_FOUND,),
)
CANCEL_LAKE_JOB: Final = Operation(
    id="cancel_lake_job",
    tag="admin",
    summary="Stop a run; one that is over stays as it is",
    parameters=(_JOB_ID,),
    body={"type": "object", "additionalProperties": False},
    body_examples={"nothing": {}},
    answers=(_JOB_ANSWER,),
    errors=(RecordCode.NOT_FOUND,),
)
