from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import canonical_json
from hub.authoring import open_message
from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, VeenError, WireError
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from recorder.codes import RecordCode, RecordError
from recorder.event import (
    EVENT_TIME_MAX,
    SCHEMA,
    RecorderEvent,
    UnixMillis,
    check_event_type,
    check_size,
    content_of,
    format_time,
    from_json,
    parse_time,
    read_incoming,
)
from tests.support.strategies import flipped_bits

CORPUS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "query" / "corpus.json").read_text()
)
GOOD = [event for event in CORPUS["events"] if event["error"] is None]
READER = DhSecret(bytes.fromhex(CORPUS["reader_sk"]))
NOW = 1_772_355_600_123
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def incoming(**fields: object) -> dict[str, object]:
    return {"event_type": "login.ok", "subject_id": "alice", **fields}


def read(found: object, prefix: str = "") -> RecorderEvent:
    return from_json(found, now_ms=NOW, default_origin="shop", prefix=prefix)


def flaws(found: object, prefix: str = "") -> dict[str, str]:
    with pytest.raises(RecordError) as refusal:
        read(found, prefix)
    assert refusal.value.error_code is RecordCode.INVALID_EVENT
    assert refusal.value.status == 400
    return {one.pointer: one.reason for one in refusal.value.details}


@pytest.mark.parametrize("event", GOOD, ids=lambda one: f"{one['stream']}-{one['hub_commit_seq']}")
def test_the_corpus_decodes_and_encodes_byte_for_byte(event: dict[str, Any]) -> None:
    opened = open_message(Msg.decode(bytes.fromhex(event["msg"])), profile=PRODUCT, secret=READER)
    assert opened.header.schema == SCHEMA
    found = RecorderEvent.decode(opened.body)
    assert found.subject_id == event["subject_id"]
    assert found.event_type == event["event_type"]
    assert format_time(found.event_time) == event["event_time"]
    assert found.origin == event["origin"]
    assert found.payload == event["payload_text"]
    assert found.encode() == opened.body


@pytest.mark.parametrize("event", GOOD, ids=lambda one: f"{one['stream']}-{one['hub_commit_seq']}")
def test_the_door_makes_the_corpus_events_again(event: dict[str, Any]) -> None:
    body = open_message(
        Msg.decode(bytes.fromhex(event["msg"])), profile=PRODUCT, secret=READER
    ).body
    sent = {key: event[key] for key in ("subject_id", "event_type", "event_time", "origin")}
    payload = canonical_json.parse(event["payload_text"])
    assert read({**sent, "payload": payload}).encode() == body


def test_the_undecodable_event_of_the_corpus_is_refused() -> None:
    (event,) = (one for one in CORPUS["events"] if one["error"] == "undecodable")
    body = open_message(
        Msg.decode(bytes.fromhex(event["msg"])), profile=PRODUCT, secret=READER
    ).body
    with pytest.raises(WireError):
        RecorderEvent.decode(body)


@given(texts, texts, st.integers(0, EVENT_TIME_MAX), st.dictionaries(texts, st.integers()))
def test_decode_gives_back_what_encode_made(
    subject_id: str, origin: str, event_time: int, payload: dict[str, int]
) -> None:
    event = RecorderEvent(
        subject_id=subject_id,
        event_type="a.b",
        event_time=UnixMillis(event_time),
        origin=origin,
        payload=canonical_json.encode_text(payload),
    )
    assert RecorderEvent.decode(event.encode()) == event


def test_a_flipped_bit_is_refused_or_is_another_event() -> None:
    event = read(incoming(payload={"n": 1}))
    for changed in flipped_bits(event.encode()):
        try:
            found = RecorderEvent.decode(changed)
        except WireError:
            continue
        assert found != event
        assert found.encode() == changed


@pytest.mark.parametrize(
    "fields",
    [
        {"subject_id": "a\0b"},
        {"origin": "\0"},
        {"subject_id": "x" * 513},
        {"origin": "é" * 257},
        {"event_type": ""},
        {"event_type": "a b"},
        {"event_type": "x" * 129},
        {"event_time": EVENT_TIME_MAX + 1},
        {"payload": '{"b":1,"a":2}'},
        {"payload": "1.0"},
        {"payload": "[1, 2]"},
        {"payload": "1e401"},
        {"payload": '{"a":1,"a":1}'},
        {"payload": "[" * 65 + "]" * 65},
        {"payload": ""},
    ],
)
def test_a_sloppy_body_is_undecodable(fields: dict[str, object]) -> None:
    given_fields = {
        "subject_id": "s", "event_type": "t", "event_time": 1, "origin": "o", "payload": "null",
        **fields,
    }  # fmt: skip
    event = RecorderEvent(**given_fields)  # type: ignore[arg-type]
    with pytest.raises(VeenError) as refusal:
        RecorderEvent.decode(event.encode())
    assert refusal.value.code is ErrorCode.FORMAT


def test_a_body_with_other_keys_or_another_order_is_undecodable() -> None:
    fields: dict[str, cbor.Value] = {
        "subject_id": "s", "event_type": "t", "event_time": 1, "origin": "o", "payload": "null",
    }  # fmt: skip
    RecorderEvent.decode(cbor.encode(fields))
    bad: list[dict[str, cbor.Value]] = [
        dict(reversed(fields.items())),
        {**fields, "more": 1},
        {key: value for key, value in fields.items() if key != "origin"},
        {**fields, "event_time": "1"},
    ]
    for one in bad:
        with pytest.raises(WireError):
            RecorderEvent.decode(cbor.encode(one))
    with pytest.raises(WireError):
        RecorderEvent.decode(cbor.encode(fields) + b"\0")


def test_a_body_over_the_bound_is_refused_before_it_is_read() -> None:
    body = read(incoming()).encode()
    RecorderEvent.decode(body, body_bytes_max=len(body))
    with pytest.raises(WireError, match="over"):
        RecorderEvent.decode(body, body_bytes_max=len(body) - 1)
    check_size(body, len(body))
    with pytest.raises(RecordError) as refusal:
        check_size(body, len(body) - 1)
    assert refusal.value.error_code is RecordCode.EVENT_TOO_LARGE
    assert refusal.value.status == 413


def test_what_is_not_said_has_its_default_and_null_is_absence() -> None:
    plain = read(incoming())
    assert (plain.event_time, plain.origin, plain.payload) == (NOW, "shop", "null")
    nulls = dict.fromkeys(("stream", "event_time", "origin", "payload", "idempotency_key"))
    assert read(incoming(**nulls)) == plain
    found = read_incoming(
        incoming(stream="record/app/x", idempotency_key="k"), now_ms=NOW, default_origin="shop"
    )
    assert (found.stream, found.idempotency_key) == ("record/app/x", "k")


@pytest.mark.parametrize(
    ("found", "places"),
    [
        ([], {""}),
        ("text", {""}),
        (None, {""}),
        ({}, {"/event_type", "/subject_id"}),
        ({"event_type": None, "subject_id": None}, {"/event_type", "/subject_id"}),
        (incoming(colour="red", **{"a/b~c": 1}), {"/colour", "/a~1b~0c"}),
        (incoming(principal_id="me", hub_commit_seq=1), {"/principal_id", "/hub_commit_seq"}),
        (incoming(subject_id=7, origin=[]), {"/subject_id", "/origin"}),
        (incoming(subject_id="a\0", origin="x" * 513), {"/subject_id", "/origin"}),
        (incoming(event_type="a b"), {"/event_type"}),
        (incoming(event_type="x" * 129), {"/event_type"}),
        (incoming(event_type="login.ok\n"), {"/event_type"}),
        (incoming(event_time="yesterday"), {"/event_time"}),
        (incoming(event_time=1), {"/event_time"}),
        (incoming(idempotency_key=""), {"/idempotency_key"}),
        (incoming(idempotency_key="x" * 129), {"/idempotency_key"}),
        (incoming(subject_id="\ud800"), {"/subject_id"}),
        (incoming(payload={"a": [1, float("nan")]}), {"/payload/a/1"}),
        (incoming(payload={"a": float("inf")}), {"/payload/a"}),
        (incoming(payload=Decimal("1e401")), {"/payload"}),
        (incoming(payload=10**401), {"/payload"}),
        (incoming(payload={"a": object()}), {"/payload/a"}),
        (incoming(payload={1: 2}), {"/payload"}),
        (incoming(payload={"k": "\udfff"}), {"/payload/k"}),
        (incoming(event_type="?", payload=float("nan")), {"/event_type", "/payload"}),
    ],
)
def test_every_flaw_is_named_by_its_pointer(found: object, places: set[str]) -> None:
    assert flaws(found).keys() == places
    assert flaws(found, "/events/7").keys() == {f"/events/7{place}" for place in places}


def test_flaws_that_the_parser_marked_keep_their_place() -> None:
    text = '{"event_type":"a","subject_id":"\\ud800","payload":{"n":1e999,"d":{"k":1,"k":2}}}'
    assert flaws(canonical_json.parse_marked(text)).keys() == {"/subject_id", "/payload/d/k"}
    doubled = '{"event_type":"a","subject_id":"s","subject_id":"t"}'
    assert flaws(canonical_json.parse_marked(doubled)).keys() == {"/subject_id"}


def test_depth_and_numbers_are_taken_up_to_their_bound() -> None:
    deep: list[object] = []
    for _ in range(63):
        deep = [deep]
    assert read(incoming(payload=deep)).payload == "[" * 64 + "]" * 64
    assert flaws(incoming(payload=[deep]))
    assert read(incoming(payload=10**400)).payload == "1" + "0" * 400
    assert read(incoming(payload=Decimal("1e-400"))).payload.startswith("0.000")
    assert flaws(incoming(payload=Decimal("1e-401")))


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.9Z", 900),
        ("1970-01-01T00:00:00.123999999Z", 123),
        ("2026-03-01T08:59:59.250Z", 1_772_355_599_250),
        ("9999-12-31T23:59:59.999Z", EVENT_TIME_MAX),
    ],
)
def test_times_are_cut_to_milliseconds(text: str, millis: int) -> None:
    assert parse_time(text) == millis
    assert parse_time(format_time(millis)) == millis


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-03-01", "2026-03-01 09:00:00Z", "2026-03-01T09:00:00",
        "2026-03-01T09:00:00+00:00", "2026-03-01T09:00:60Z", "2026-02-29T09:00:00Z",
        "2026-03-01T24:00:00Z", "1969-12-31T23:59:59Z", "2026-03-01T09:00:00.Z",
        "2026-03-01T09:00:00.1234567890Z", "2026-03-01t09:00:00z", "٢026-03-01T09:00:00Z",
        "2026-03-01T09:00:00Z\n", "10000-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_other_spellings_of_a_time_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)
    assert flaws(incoming(event_time=text)).keys() == {"/event_time"}


def test_a_filter_may_ask_for_fewer_digits() -> None:
    assert parse_time("2026-03-01T09:00:00.250Z", fraction_digits_max=3)
    with pytest.raises(ValueError, match="more than 3"):
        parse_time("2026-03-01T09:00:00.2500Z", fraction_digits_max=3)


def test_control_characters_are_data() -> None:
    event = read(incoming(subject_id="a\r\nb\x1b[31m", origin="\x07", payload={"m": "\x1b\r\n"}))
    assert event.subject_id == "a\r\nb\x1b[31m"
    assert event.payload == '{"m":"\\u001b\\r\\n"}'


def test_the_content_behind_a_key_is_what_was_sent_in_canonical_form() -> None:
    first = content_of(canonical_json.parse(b'{"subject_id":"a","event_type":"t","payload":2.0}'))
    again = content_of(canonical_json.parse(b'{"payload":2,"event_type":"t",  "subject_id":"a"}'))
    assert first == again
    assert first != content_of(incoming())
    deepest = canonical_json.parse("[" * 64 + "]" * 64)
    assert content_of(incoming(payload=deepest))


def test_event_types_have_one_alphabet() -> None:
    check_event_type("aZ0._:-")
    for bad in ("", "a/b", "é", "a\n"):
        with pytest.raises(WireError):
            check_event_type(bad)
