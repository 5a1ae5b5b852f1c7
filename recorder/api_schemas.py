"""The shapes of the recorder's API as OpenAPI components, each with an example [interfaces]."""

from __future__ import annotations

from typing import Any, Final

from recorder.api_operations import ref

TEXT: Final = {"type": "string"}
TEXT_OR_NULL: Final = {"type": "string", "nullable": True}
HEX: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
HEX_OR_NULL: Final = {**HEX, "nullable": True}
BASE64: Final = {"type": "string", "format": "byte"}
BASE64_OR_NULL: Final = {**BASE64, "nullable": True}
TIME: Final = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
    "example": "2026-03-01T09:00:00.000Z",
}
TIME_OR_NULL: Final = {**TIME, "nullable": True}
SEQ: Final = {"type": "integer", "format": "int64", "minimum": 0}
FLAG: Final = {"type": "boolean"}
ANY: Final[dict[str, Any]] = {}
OBJECT: Final = {"type": "object"}
UUID: Final = {"type": "string", "format": "uuid"}


def many(item: dict[str, Any]) -> dict[str, Any]:
    """A list."""
    return {"type": "array", "items": item}


def shape(optional: tuple[str, ...] = (), /, **fields: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


_COVERED: Final = shape(
    stream=TEXT, label=HEX, hub_id=HEX, from_seq=SEQ, to_seq=SEQ, mmr_root=HEX_OR_NULL
)
_STREAM: Final[dict[str, dict[str, Any]]] = {
    "name": TEXT, "label": HEX, "class": TEXT, "sensitivity": TEXT, "retention_hint": TEXT,
    "event_bytes_max": SEQ, "event_types": many(TEXT),
}  # fmt: skip
_EVENT: Final[dict[str, dict[str, Any]]] = {
    "event_type": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
    "subject_id": {"type": "string", "maxLength": 512},
    "stream": TEXT_OR_NULL,
    "event_time": {**TEXT_OR_NULL, "example": "2026-03-01T09:00:00.250Z"},
    "origin": {**TEXT_OR_NULL, "maxLength": 512},
    "payload": ANY,
    "idempotency_key": {**TEXT_OR_NULL, "maxLength": 128},
}
_RECORDED: Final[dict[str, dict[str, Any]]] = {
    "stream": TEXT, "hub_commit_seq": SEQ, "hub_commit_time": TIME, "principal_id": HEX,
    "receipt_id": TEXT, "receipt": BASE64,
}  # fmt: skip

SCHEMAS: Final[dict[str, Any]] = {
    "Error": {
        "type": "object",
        "properties": {
            "error_code": TEXT,
            "message": TEXT,
            "details": many(shape(pointer=TEXT, reason=TEXT)),
            "request_id": TEXT,
            "pending": {**FLAG, "description": "The event waits in the gateway's outbox."},
        },
        "required": ["error_code", "message", "request_id"],
    },
    "Event": shape(tuple(_EVENT)[2:], **_EVENT),
    "EventBatch": shape(events={**many(ref("Event")), "maxItems": 1000}),
    "Recorded": shape(**_RECORDED),
    "RecordedBatch": shape(
        results=many({
            "anyOf": [
                ref("Recorded"),
                {
                    "type": "object",
                    "properties": {"error_code": TEXT, "message": TEXT},
                    "required": ["error_code", "message"],
                },
            ]
        })
    ),
    "ReplayLine": {
        "type": "object",
        "description": "One line: an event, or as the last one the end.",
        "properties": {
            "stream": TEXT, "hub_commit_seq": SEQ, "hub_commit_time": TIME,
            "subject_id": TEXT_OR_NULL, "principal_id": HEX, "event_type": TEXT_OR_NULL,
            "event_time": TIME_OR_NULL, "origin": TEXT_OR_NULL, "payload": ANY,
            "error": TEXT_OR_NULL, "receipt_id": TEXT, "receipt": BASE64, "msg": BASE64,
            "proof": BASE64_OR_NULL, "end": ref("ReplayEnd"),
        },
    },
    "ReplayEnd": shape(
        count=SEQ,
        coverage=many(_COVERED),
        manifest_id=HEX_OR_NULL,
        unproven={**SEQ, "nullable": True},
    ),
    "Streams": shape(
        streams=many({
            "anyOf": [
                shape(
                    **_STREAM,
                    head_seq=SEQ,
                    head_root=HEX_OR_NULL,
                    head_time=TIME_OR_NULL,
                    last_checkpoint={
                        **shape(manifest_id=HEX, upto_seq=SEQ, created_at=TIME),
                        "nullable": True,
                    },
                ),
                shape(
                    name=TEXT, label=HEX, event_types=many(TEXT), event_bytes_max=SEQ,
                    reader_key=BASE64,
                ),
            ]
        })
    ),
    "Manifest": shape(manifest=BASE64, rotations=many(BASE64)),
    "Reason": shape(("reason",), reason={**TEXT_OR_NULL, "maxLength": 1000}),
    "Checkpoint": shape(
        manifest_id=HEX,
        created_at=TIME,
        streams=many(shape(name=TEXT, upto_seq=SEQ, mmr_root=HEX)),
    ),
    "ActAsked": shape(
        ("args", "reason"),
        verb=TEXT,
        args={**OBJECT, "nullable": True},
        reason={**TEXT_OR_NULL, "maxLength": 1000},
    ),
    "ActTaken": shape(
        ("token", "password"), act_id=UUID, state=TEXT, token=TEXT, password=TEXT
    ),
    "Act": shape(
        act_id=UUID, verb=TEXT, args=OBJECT, actor=TEXT, reason=TEXT, state=TEXT, result=OBJECT,
        error_code=TEXT_OR_NULL, message=TEXT_OR_NULL, created_at=TIME, finished_at=TIME_OR_NULL,
    ),
    "Acts": shape(acts=many(ref("Act")), next=TEXT_OR_NULL),
    "LakeJob": shape(
        job_id=UUID, kind=TEXT, args=OBJECT, state=TEXT, progress=OBJECT, result=OBJECT,
        error=TEXT_OR_NULL, created_at=TIME, finished_at=TIME_OR_NULL,
    ),
    "LakeJobs": shape(lake_jobs=many(ref("LakeJob")), next=TEXT_OR_NULL),
    "AdminStreams": shape(
        streams=many(
            shape(
                **_STREAM,
                key_id={**SEQ, "nullable": True},
                keys=many(shape(key_id=SEQ, record=BASE64)),
                readers=many(TEXT),
                created_at=TIME,
            )
        ),
        next=TEXT_OR_NULL,
    ),
    "Producers": shape(
        producers=many(
            shape(
                id=SEQ, name=TEXT, principal=HEX, held=TEXT, streams=many(TEXT), auth_ref=HEX,
                created_at=TIME, ended_at=TIME_OR_NULL, ended_because=TEXT_OR_NULL,
                revoked_at=TIME_OR_NULL,
            )
        ),
        next=TEXT_OR_NULL,
    ),
    "Tokens": shape(
        tokens=many(
            shape(
                token_id=UUID, name=TEXT, role=TEXT, producer=TEXT_OR_NULL, streams=many(TEXT),
                all=FLAG, principal_id=HEX_OR_NULL, created_at=TIME, revoked_at=TIME_OR_NULL,
                last_used_at=TIME_OR_NULL,
            )
        ),
        next=TEXT_OR_NULL,
    ),
    "Findings": shape(
        findings=many(
            shape(
                finding_id=SEQ, code=TEXT, severity=TEXT, object=TEXT, detail=TEXT,
                first_seen=TIME, last_seen=TIME, acknowledged_by=TEXT_OR_NULL, reason=TEXT_OR_NULL,
            )
        ),
        next=TEXT_OR_NULL,
    ),
    "Readers": shape(
        readers=many(
            shape(
                name=TEXT, dh_pk=HEX, streams=many(shape(name=TEXT, key_ids=many(SEQ))),
                created_at=TIME, revoked_at=TIME_OR_NULL,
            )
        ),
        next=TEXT_OR_NULL,
    ),
}  # fmt: skip
