"""What the query layer records, each event once by its key [query, Events of the query layer]."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.digest import ResultDigest
from queryapi.models import Execution, Replay
from recorder import services
from recorder.models import AuthoredEvent, Stream
from recorder.streams import QUERY_PREFIX, Sensitivity

REQUESTS: Final = f"{QUERY_PREFIX}requests"
RESULTS: Final = f"{QUERY_PREFIX}results"
AUDIT: Final = f"{QUERY_PREFIX}audit/executions"
SUBMITTED: Final = "query.submitted"
RESULT: Final = "query.result"
EXECUTED: Final = "query.executed"
AUDITED: Final = "query.audit.v1"
REPLAYED: Final = "query.replayed"


def submitted_key(result_id: str) -> str:
    """Names the event of the descriptor."""
    return f"{SUBMITTED}/{result_id}"


def result_key(result_id: str) -> str:
    """Names the event of the digest."""
    return f"{RESULT}/{result_id}"


def _record(key: str, stream: str, event_type: str, who: str, payload: Value) -> AuthoredEvent:
    return services.record_event(
        key=key,
        identity=AuthoredEvent.Identity.QUERY,
        stream=stream,
        event_type=event_type,
        subject_id=who,
        payload=payload,
    )


def record_submitted(descriptor: Descriptor) -> AuthoredEvent:
    """The normalized descriptor, before anything is executed."""
    key = submitted_key(descriptor.result_id)
    return _record(key, REQUESTS, SUBMITTED, descriptor.principal_id, descriptor.to_json())


def record_result(execution: Execution, digest: ResultDigest) -> AuthoredEvent:
    """The digest, before anyone is told of an answer."""
    key = result_key(execution.result_id)
    return _record(key, RESULTS, RESULT, execution.principal_id, digest.to_json())


def record_executed(execution: Execution, facts: Mapping[str, Value]) -> AuthoredEvent:
    """How an execution went, whatever came of it."""
    payload: dict[str, Value] = {
        "query_id": execution.query_id, "result_id": execution.result_id, **facts,
    }  # fmt: skip
    key = f"{EXECUTED}/{execution.result_id}"
    return _record(key, AUDIT, EXECUTED, execution.principal_id, payload)


def record_access(asked: Execution | Replay, descriptor: Descriptor, digest: ResultDigest) -> None:
    """One record of access for each sensitive stream, by whoever reads it now [spec-3 9]."""
    parameters = _parameters(descriptor)
    metadata: dict[str, Value] = {
        "query_id": asked.query_id,
        "result_id": asked.result_id,
        "reason": _text(descriptor.meta.get("reason")),
    }
    if isinstance(asked, Replay):
        metadata["replay_id"] = str(asked.pk)
    streams = Stream.objects.filter(name__in=descriptor.scope, sensitivity=Sensitivity.HIGH)
    for stream in streams.order_by("name"):
        payload: dict[str, Value] = {
            "requester_identity": asked.principal_id,
            "resource_identifier": stream.name,
            "resource_class": stream.label_class,
            "query_parameters": parameters,
            "purpose_code": _text(descriptor.meta.get("purpose_code")),
            "result_digest": sha256(digest.canonical()).hexdigest(),
            "request_time": int(asked.created_at.timestamp() * 1000),
            "metadata": metadata,
        }
        key = f"{AUDITED}/{asked.pk}/{stream.label[:32]}"
        _record(key, AUDIT, AUDITED, asked.principal_id, payload)


def _parameters(descriptor: Descriptor) -> Value:
    """What was asked for; its text where it nests too deep to be part of another payload."""
    asked = descriptor.to_json()
    found: dict[str, Value] = {
        name: asked[name] for name in ("filter", "projection", "aggregate") if name in asked
    }
    try:
        canonical_json.encode(found, depth_max=canonical_json.DEPTH_MAX - 1)
    except JsonError:
        return canonical_json.encode_text(found)
    return found


def _text(value: Value | None) -> str | None:
    return value if isinstance(value, str) else None


def record_replayed(replay: Replay, facts: Mapping[str, Value]) -> AuthoredEvent:
    """That a recorded query was asked again, by whom, and how it compared."""
    payload: dict[str, Value] = {
        "replay_id": str(replay.id),
        "query_id": replay.query_id,
        "result_id": replay.result_id,
        "their_digest": canonical_json.parse(replay.their_digest),
        **facts,
    }
    return _record(f"{REPLAYED}/{replay.id}", AUDIT, REPLAYED, replay.principal_id, payload)
