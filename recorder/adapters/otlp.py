"""OTLP log records as events, from protobuf and from JSON [OTLP 1.x, logs; SDR0 3.2.1].

origin is the resource's service.name, subject_id one attribute of the record (enduser.id unless
said otherwise), event_time timeUnixNano, else observedTimeUnixNano. The payload keeps everything:
severity, body, attributes, resource, scope, trace and span id.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hub.canonical_json import Encodable
from recorder.event import EVENT_TIME_MAX, fit_text, format_time

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

SUBJECT: Final = "enduser.id"
SERVICE: Final = "service.name"
_NANOS_PER_MILLI: Final = 1_000_000
_DEPTH_MAX: Final = 32

Attributes = dict[str, Encodable]


class OtlpError(ValueError):
    """The body is no export request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One log record with where it comes from, whatever encoding brought it."""

    nanos: int
    severity_number: int
    severity_text: str
    event_name: str
    body: Encodable
    attributes: Attributes
    resource: Attributes
    scope: str
    trace_id: str
    span_id: str

    def event(
        self, *, event_type: str, subject: str = SUBJECT, peer: str = ""
    ) -> dict[str, Encodable]:
        """The event of this record; its origin is the peer where nothing else says it."""
        named: Attributes = {
            "severity_number": self.severity_number,
            "severity_text": self.severity_text,
            "event_name": self.event_name,
            "attributes": self.attributes,
            "resource": self.resource,
            "scope": self.scope,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
        }
        payload: Attributes = {name: value for name, value in named.items() if value}
        payload["body"] = self.body
        event: Attributes = {
            "event_type": event_type,
            "subject_id": fit_text(_shown(self.attributes.get(subject, ""))),
            "origin": fit_text(_shown(self.resource.get(SERVICE, "")) or self.scope or peer),
            "payload": payload,
        }
        millis = self.nanos // _NANOS_PER_MILLI
        if 0 < millis <= EVENT_TIME_MAX:
            event["event_time"] = format_time(millis)
        return event


def _shown(value: Encodable) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _number(value: float) -> Encodable:
    return value if math.isfinite(value) else str(value)


# -- protobuf


def read_protobuf(body: bytes) -> list[LogLine]:
    """The records of an ExportLogsServiceRequest, or OtlpError."""
    from google.protobuf.message import (  # type: ignore[import-untyped]  # noqa: PLC0415
        DecodeError,
    )
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2  # noqa: PLC0415

    try:
        request = logs_service_pb2.ExportLogsServiceRequest.FromString(body)
    except DecodeError as flaw:
        raise OtlpError("not an ExportLogsServiceRequest") from flaw
    return [
        LogLine(
            nanos=record.time_unix_nano or record.observed_time_unix_nano,
            severity_number=int(record.severity_number),
            severity_text=record.severity_text,
            event_name=record.event_name,
            body=_any(record.body),
            attributes=_pairs(record.attributes),
            resource=_pairs(resource.resource.attributes),
            scope=scope.scope.name,
            trace_id=record.trace_id.hex(),
            span_id=record.span_id.hex(),
        )
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def _pairs(pairs: Sequence[KeyValue], depth: int = _DEPTH_MAX) -> Attributes:
    return {pair.key: _any(pair.value, depth) for pair in pairs}


def _any(value: AnyValue, depth: int = _DEPTH_MAX) -> Encodable:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if depth == 0:
        raise OtlpError("values nested too deep")
    found: Any = getattr(value, kind)
    if kind == "array_value":
        return [_any(item, depth - 1) for item in found.values]
    if kind == "kvlist_value":
        return _pairs(found.values, depth - 1)
    if kind == "bytes_value":
        return b64encode(found).decode()
    plain: Encodable = _number(found) if kind == "double_value" else found
    return plain


# -- JSON: proto3 JSON with ids in hex, 64-bit integers as text, keys in lowerCamelCase


def read_json(body: bytes) -> list[LogLine]:
    """The records of a request in OTLP/JSON, or OtlpError."""
    try:
        found = json.loads(body)
        return list(_read_request(found))
    except OtlpError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as flaw:
        raise OtlpError("not an export request in OTLP/JSON") from flaw


def _read_request(found: Mapping[str, Any]) -> Iterator[LogLine]:
    for resource_logs in _list(found, "resourceLogs"):
        resource = _json_pairs(_list(resource_logs.get("resource") or {}, "attributes"))
        for scope_logs in _list(resource_logs, "scopeLogs"):
            scope = _text(scope_logs.get("scope") or {}, "name")
            for record in _list(scope_logs, "logRecords"):
                yield _read_record(record, resource, scope)


def _read_record(record: Mapping[str, Any], resource: Attributes, scope: str) -> LogLine:
    nanos = int(record.get("timeUnixNano") or 0) or int(record.get("observedTimeUnixNano") or 0)
    return LogLine(
        nanos=nanos,
        severity_number=int(record.get("severityNumber") or 0),
        severity_text=_text(record, "severityText"),
        event_name=_text(record, "eventName"),
        body=_json_any(record.get("body")),
        attributes=_json_pairs(_list(record, "attributes")),
        resource=resource,
        scope=scope,
        trace_id=bytes.fromhex(_text(record, "traceId")).hex(),
        span_id=bytes.fromhex(_text(record, "spanId")).hex(),
    )


def _list(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise OtlpError(f"{key} is not a list")
    return value


def _text(found: Mapping[str, Any], key: str) -> str:
    """A text; null and absence are the empty one, as everywhere in proto3 JSON."""
    value = found.get(key)
    return "" if value is None else _read_text(value)


def _json_pairs(pairs: list[Any], depth: int = _DEPTH_MAX) -> Attributes:
    return {_text(pair, "key"): _json_any(pair.get("value"), depth) for pair in pairs}


def _json_any(value: Any, depth: int = _DEPTH_MAX) -> Encodable:  # noqa: ANN401 - JSON of a peer
    """An AnyValue; what a newer sender adds to it is ignored, and of an unknown kind is null."""
    if value is None:
        return None
    if depth == 0:
        raise OtlpError("values nested too deep")
    readers: dict[str, Callable[[Any], Encodable]] = {
        "stringValue": _read_text,
        "boolValue": _read_flag,
        "intValue": _read_integer,
        "doubleValue": lambda number: _number(float(number)),
        "bytesValue": lambda text: b64encode(b64decode(text, validate=True)).decode(),
        "arrayValue": lambda array: [_json_any(item, depth - 1) for item in _list(array, "values")],
        "kvlistValue": lambda pairs: _json_pairs(_list(pairs, "values"), depth - 1),
    }
    given = [kind for kind in readers if value.get(kind) is not None]
    if len(given) > 1:
        raise OtlpError(f"a value of several kinds: {', '.join(given)}")
    return readers[given[0]](value[given[0]]) if given else None


def _read_text(found: object) -> str:
    if not isinstance(found, str):
        raise OtlpError("a text is something else")
    return found


def _read_flag(found: object) -> bool:
    if not isinstance(found, bool):
        raise OtlpError("a boolValue is neither true nor false")
    return found


def _read_integer(found: object) -> int:
    """64-bit integers come as text, or as a number without fraction."""
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return int(found)
    if isinstance(found, float) and found.is_integer():
        return int(found)
    raise OtlpError("an intValue is no integer")
