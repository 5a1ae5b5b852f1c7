from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Label
from recorder.connection import CONNECTION_BYTES_MAX, Connection, ProducerKey
from recorder.streams import EVENT_BYTES_LIMIT
from tests.support.connections import ADMIN, HTTP, IAM, Cast

HUB = SigningKey(b"a hub that nobody needs to start")
CAST = Cast(hub_pk=HUB.public, more={"web_url": "https://veen.example", "gateway_url": None})


def document(**changes: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CAST.connection().render())
    for path, value in changes.items():
        *steps, last = path.split("__")
        place: Any = found
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    return found


def parse(document: object) -> Connection:
    return Connection.parse(json.dumps(document).encode())


def refusal(document: object) -> VeenError:
    with pytest.raises(VeenError) as refused:
        parse(document)
    return refused.value


def test_a_file_reads_back_as_it_was_written() -> None:
    connection = CAST.connection()
    assert Connection.parse(connection.render()) == connection
    assert connection.principal == CAST.key.public
    reader = CAST.connection(producer=None, cap_token=None)
    assert Connection.parse(reader.render()) == reader


def test_the_keys_are_those_of_the_contract() -> None:
    found = document()
    assert list(found) == [
        "ver", "web_url", "hub_url", "hub_pk", "hub_id", "trust_pk", "recorder_admin_pk",
        "producer", "cap_token", "streams",
    ]  # fmt: skip
    assert list(found["producer"]) == ["name", "key"]
    assert list(found["streams"][0]) == ["name", "label", "event_types", "reader_key"]


def test_a_size_bound_stands_beside_its_stream_and_files_of_before_have_none() -> None:
    entry = replace(CAST.entry(HTTP), event_bytes_max=100)
    bound = CAST.connection(streams=(entry, CAST.entry(IAM)))
    rows = json.loads(bound.render())["streams"]
    assert [one.get("event_bytes_max") for one in rows] == [100, None]
    assert Connection.parse(bound.render()) == bound
    assert bound.streams[1].event_bytes_max == EVENT_BYTES_LIMIT


def test_the_seed_is_not_printed() -> None:
    connection = CAST.connection()
    assert CAST.key.seed.hex() not in repr(connection)
    assert str(CAST.key.seed) not in repr(connection)


def test_each_event_type_finds_its_stream() -> None:
    connection = CAST.connection()
    entry = connection.stream_of("login.ok")
    assert entry is not None
    assert entry.name == IAM
    assert connection.stream_of("unknown") is None


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"ver": 2}, "/ver"),
        ({"routing_key": "00"}, "/routing_key"),
        ({"hub_pk": None}, "/hub_pk"),
        ({"hub_pk": "AB" * 32}, "/hub_pk"),
        ({"hub_pk": 7}, "/hub_pk"),
        ({"hub_url": "ftp://x"}, "/hub_url"),
        ({"web_url": "http://a b"}, "/web_url"),
        ({"streams": {}}, "/streams"),
        ({"streams__0__label": "00"}, "/streams/0/label"),
        ({"streams__0__reader_key": "%"}, "/streams/0/reader_key"),
        ({"streams__0__event_types": ["a b"]}, "event_type"),
        ({"streams__0__event_types": [1]}, "/streams/0/event_types/0"),
        ({"streams__0__colour": 1}, "/streams/0/colour"),
        ({"streams__0__event_bytes_max": 0}, "/streams/0/event_bytes_max"),
        ({"streams__0__event_bytes_max": EVENT_BYTES_LIMIT + 1}, "/streams/0/event_bytes_max"),
        ({"streams__0__event_bytes_max": "1"}, "/streams/0/event_bytes_max"),
        ({"streams__1__name": HTTP}, "/streams/1"),
        ({"streams__1__event_types": ["http.error"]}, "/streams/1"),
        ({"producer__key": None}, "/producer"),
        ({"producer__key_file": "also"}, "/producer"),
        ({"producer__name": ""}, "/producer/name"),
        ({"producer__name": "a\x1b[31m"}, "/producer/name"),
        ({"producer": None}, "come together"),
        ({"cap_token": None}, "come together"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(changes: dict[str, object], where: str) -> None:
    found = refusal(document(**changes))
    assert found.code is ErrorCode.FORMAT
    assert where in found.detail


def test_what_is_no_json_object_is_refused() -> None:
    assert refusal([]).code is ErrorCode.FORMAT
    for data in (b"", b"{", b"\xff", b'{"ver":1,"ver":1}'):
        with pytest.raises(VeenError):
            Connection.parse(data)
    with pytest.raises(VeenError) as large:
        Connection.parse(b" " * (CONNECTION_BYTES_MAX + 1))
    assert large.value.code is ErrorCode.SIZE


def test_a_reader_key_of_another_admin_or_stream_is_not_believed() -> None:
    foreign = refusal(document(recorder_admin_pk=SigningKey.generate().public.hex()))
    assert foreign.code is ErrorCode.TRUST
    other = b64encode(CAST.reader_key(IAM).encode()).decode()
    assert refusal(document(streams__0__reader_key=other)).code is ErrorCode.TRUST
    forged = replace(CAST.reader_key(HTTP), key_id=9)
    assert forged.recorder_admin_pk == ADMIN.public
    text = b64encode(forged.encode()).decode()
    assert refusal(document(streams__0__reader_key=text)).code is ErrorCode.SIG


def test_a_token_of_another_key_or_for_other_streams_is_refused() -> None:
    with pytest.raises(VeenError) as refused:
        CAST.connection(producer=ProducerKey(name="shop", key=SigningKey.generate().seed))
    assert refused.value.code is ErrorCode.CAP
    narrow = replace(CAST, key=CAST.key, types={HTTP: ("http.error",)})
    with pytest.raises(VeenError) as refused:
        CAST.connection(cap_token=narrow.token())
    assert refused.value.code is ErrorCode.CAP
    assert IAM in refused.value.detail
    unsigned = replace(CAST.token(), ttl=1)
    with pytest.raises(VeenError) as refused:
        CAST.connection(cap_token=unsigned)
    assert refused.value.code is ErrorCode.CAP


def test_a_key_may_be_kept_in_a_file_of_its_own() -> None:
    kept = CAST.connection(producer=ProducerKey(name="shop", key_file="/etc/veen/shop.key"))
    again = Connection.parse(kept.render())
    assert again.producer is not None
    assert again.producer.key_file == "/etc/veen/shop.key"
    assert CAST.key.seed.hex().encode() not in kept.render()
    for bad in ({"key": b"short"}, {"key_file": ""}, {"key_file": "a\0b"}):
        with pytest.raises(VeenError):
            ProducerKey(name="shop", **bad)


def test_a_label_is_32_bytes_whatever_it_names() -> None:
    entry = replace(CAST.entry(HTTP), label=Label(b"\x01" * 32))
    assert CAST.connection(streams=(entry,)).streams[0].label == b"\x01" * 32
