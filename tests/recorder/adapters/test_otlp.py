from __future__ import annotations

import gzip
import http.client
import json
import resource
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from recorder.adapters.otlp import OtlpError, read_json, read_protobuf
from tests.recorder.conftest import MakeCast
from tests.support.adapters import running
from tests.support.connections import Cast
from tests.support.live_hub import LiveHub, until

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
REQUEST: dict[str, Any] = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]},
            "scopeLogs": [
                {
                    "scope": {"name": "cart.lib"},
                    "logRecords": [
                        {
                            "timeUnixNano": "1772355600123456789",
                            "severityNumber": 17,
                            "severityText": "ERROR",
                            "body": {"stringValue": "no\r\n\u001b[31mstock"},
                            "attributes": [
                                {"key": "enduser.id", "value": {"stringValue": "alice"}},
                                {"key": "n", "value": {"intValue": "9007199254740993"}},
                                {"key": "d", "value": {"doubleValue": 1.5}},
                                {"key": "b", "value": {"boolValue": False}},
                                {"key": "raw", "value": {"bytesValue": "AAE="}},
                                {
                                    "key": "list",
                                    "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}},
                                },
                                {
                                    "key": "map",
                                    "value": {
                                        "kvlistValue": {
                                            "values": [{"key": "k", "value": {"stringValue": "v"}}]
                                        }
                                    },
                                },
                            ],
                            "traceId": "5B8EFFF798038103D269B633813FC60C",
                            "spanId": "EEE19B7EC3C1B174",
                        }
                    ],
                }
            ],
        }
    ]
}
PAYLOAD = {
    "severity_number": 17,
    "severity_text": "ERROR",
    "attributes": {
        "enduser.id": "alice",
        "n": 9007199254740993,
        "d": 1.5,
        "b": False,
        "raw": "AAE=",
        "list": [1, None],
        "map": {"k": "v"},
    },
    "resource": {"service.name": "cart"},
    "scope": "cart.lib",
    "trace_id": "5b8efff798038103d269b633813fc60c",
    "span_id": "eee19b7ec3c1b174",
    "body": "no\r\n\x1b[31mstock",
}


def as_protobuf() -> bytes:
    """The same request in the other encoding, its fields set one by one."""
    request = logs_service_pb2.ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "cart"
    scope = resource.scope_logs.add()
    scope.scope.name = "cart.lib"
    record = scope.log_records.add()
    record.time_unix_nano = 1772355600123456789
    record.severity_number = 17
    record.severity_text = "ERROR"
    record.body.string_value = "no\r\n\x1b[31mstock"
    values = {
        "enduser.id": ("string_value", "alice"), "n": ("int_value", 9007199254740993),
        "d": ("double_value", 1.5), "b": ("bool_value", False), "raw": ("bytes_value", b"\0\x01"),
    }  # fmt: skip
    for key, (kind, value) in values.items():
        setattr(record.attributes.add(key=key).value, kind, value)
    array = record.attributes.add(key="list").value.array_value
    array.values.add().int_value = 1
    array.values.add()
    record.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.string_value = "v"
    record.trace_id = bytes.fromhex("5b8efff798038103d269b633813fc60c")
    record.span_id = bytes.fromhex("eee19b7ec3c1b174")
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_both_encodings_give_the_same_event(encoding: str) -> None:
    body = json.dumps(REQUEST).encode()
    (line,) = read_json(body) if encoding == "json" else read_protobuf(as_protobuf())
    assert line.event(event_type="otlp.log") == {
        "event_type": "otlp.log",
        "subject_id": "alice",
        "origin": "cart",
        "event_time": "2026-03-01T09:00:00.123Z",
        "payload": PAYLOAD,
    }
    assert line.event(event_type="x", subject="n")["subject_id"] == "9007199254740993"


@pytest.mark.parametrize(
    "found",
    [
        [], 1, {"resourceLogs": {}}, {"resourceLogs": [1]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "x"}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"boolValue": "false"}}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"intValue": 1.5}}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": 1}}]}]}]},
        {"resourceLogs": [{"scopeLogs": [
            {"logRecords": [{"body": {"stringValue": "a", "intValue": 1}}]}
        ]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityText": 1}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "soon"}]}]}]},
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(found: object) -> None:
    with pytest.raises(OtlpError):
        read_json(json.dumps(found).encode())


def test_what_a_newer_sender_adds_is_ignored_and_null_is_absence() -> None:
    record = {
        "timeUnixNano": None, "traceId": None, "spanId": None, "severityText": None,
        "eventName": None, "severityNumber": None, "newField": {"a": 1},
        "body": {"stringValue": "kept", "newKind": 1},
        "attributes": [
            {"key": "new", "value": {"newKind": {"a": 1}}}, {"key": "none", "value": None},
            {"key": "null", "value": {"stringValue": None}}, {"newPart": 1},
            {"key": "n", "value": {"intValue": 3.0}, "newPart": 1},
        ],
    }  # fmt: skip
    scope = {"scope": {"name": None}, "logRecords": [record], "schemaUrl": "x"}
    (line,) = read_json(json.dumps({"resourceLogs": [{"scopeLogs": [scope]}], "b": 1}).encode())
    event = line.event(event_type="otlp.log")
    assert event["payload"] == {
        "attributes": {"new": None, "none": None, "null": None, "": None, "n": 3},
        "body": "kept",
    }
    assert event["origin"] == ""


def test_broken_bytes_and_endless_nesting_are_refused() -> None:
    for body in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(OtlpError):
            read_json(body)
    with pytest.raises(OtlpError):
        read_protobuf(b"\xff\xff")
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    deep = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": value}]}]}]}
    with pytest.raises(OtlpError, match="deep"):
        read_json(json.dumps(deep).encode())


def test_an_empty_record_is_an_event_too() -> None:
    (line,) = read_json(b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}')
    event = line.event(event_type="otlp.log")
    assert event["payload"] == {"body": None}
    assert event["origin"] == ""
    assert line.event(event_type="otlp.log", peer="10.0.0.9")["origin"] == "10.0.0.9"
    assert "event_time" not in event


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    made = make_cast(hub)
    made.types = {next(iter(made.types)): ("otlp.log",)}
    return made


@pytest.fixture
def port(cast: Cast, tmp_path: Path) -> Iterator[int]:
    with running(cast, tmp_path, "otlp", "--port", "0") as adapter:
        yield adapter.ports["port"]


def post(
    port: int, body: bytes, media: str = JSON, path: str = "/v1/logs", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    link.request("POST", path, body, {"Content-Type": media, **named})
    answer = link.getresponse()
    data = answer.read()
    link.close()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, data


def test_requests_in_every_encoding_are_recorded(cast: Cast, hub: LiveHub, port: int) -> None:
    body = json.dumps(REQUEST).encode()
    assert post(port, body)[::2] == (200, b"{}")
    assert post(port, gzip.compress(body), Content_Encoding="gzip")[0] == 200
    status, headers, answer = post(port, as_protobuf(), PROTOBUF)
    assert (status, headers["content-type"], answer) == (200, PROTOBUF, b"")
    name = next(iter(cast.types))
    until(lambda: len(cast.events(hub.url, name)) == 3)
    for event in cast.events(hub.url, name):
        assert (event.subject_id, event.origin) == ("alice", "cart")
        assert json.loads(event.payload) == PAYLOAD


def test_refusals_are_told_as_the_protocol_asks(cast: Cast, hub: LiveHub, port: int) -> None:
    assert post(port, b"{")[0] == 400
    assert post(port, b"\xff", PROTOBUF)[0] == 400
    assert post(port, b"{}", "text/plain")[0] == 415
    assert post(port, b"{}", path="/v1/traces")[0] == 404
    assert post(port, b"{}", Content_Encoding="br")[0] == 400
    assert post(port, b"no gzip", Content_Encoding="gzip")[0] == 400
    assert post(port, gzip.compress(bytes(17 << 20)), Content_Encoding="gzip")[0] == 400
    large = {"body": {"stringValue": "x" * 1_100_000}}
    small = {"body": {"stringValue": "fits"}}
    found = {"resourceLogs": [{"scopeLogs": [{"logRecords": [large, small]}]}]}
    status, _, answer = post(port, json.dumps(found).encode())
    assert status == 200
    assert json.loads(answer)["partialSuccess"]["rejectedLogRecords"] == "1"
    name = next(iter(cast.types))
    until(lambda: len(cast.events(hub.url, name)) == 1)


def test_a_full_disk_tells_the_exporter_to_come_back(
    cast: Cast, hub: LiveHub, tmp_path: Path
) -> None:
    body = json.dumps(REQUEST).encode()
    with running(cast, tmp_path, "otlp", "--port", "0") as adapter:
        port = adapter.ports["port"]
        before = resource.prlimit(adapter.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(adapter.pid, resource.RLIMIT_FSIZE, (0, before[1]))  # no file may grow
        try:
            status, headers, answer = post(port, body)
        finally:
            resource.prlimit(adapter.pid, resource.RLIMIT_FSIZE, before)
        assert (status, headers["retry-after"]) == (503, "5")
        assert "not recorded" in json.loads(answer)["message"]
        assert post(port, body)[0] == 200
        name = next(iter(cast.types))
        until(lambda: len(cast.events(hub.url, name)) == 1)


def test_the_exporter_of_the_opentelemetry_sdk_is_understood(
    cast: Cast, hub: LiveHub, port: int
) -> None:
    provider = LoggerProvider(resource=Resource.create({"service.name": "checkout"}))
    exporter = OTLPLogExporter(endpoint=f"http://127.0.0.1:{port}/v1/logs")
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("checkout.lib").emit(
        LogRecord(
            timestamp=1_772_355_600_000_000_000,
            severity_number=SeverityNumber.ERROR,
            severity_text="ERROR",
            body="payment failed",
            attributes={"enduser.id": "bob", "amount": 12},
        )
    )
    provider.shutdown()
    name = next(iter(cast.types))
    until(lambda: len(cast.events(hub.url, name)) == 1)
    (event,) = cast.events(hub.url, name)
    payload = json.loads(event.payload)
    assert (event.origin, event.subject_id) == ("checkout", "bob")
    assert payload["body"] == "payment failed"
    assert payload["attributes"]["amount"] == 12
    assert payload["severity_text"] == "ERROR"


def test_bytes_are_shown_in_standard_base64() -> None:
    value = b64encode(bytes(range(250, 256))).decode()
    found = {"body": {"bytesValue": value}}
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [found]}]}]}
    (line,) = read_json(json.dumps(request).encode())
    assert line.body == value
