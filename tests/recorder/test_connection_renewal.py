"""A connection file takes over what its streams are like now, and nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import Label
from recorder import connection_renewal
from recorder.connection import StreamEntry
from tests.support.connections import HTTP, IAM, Cast

HUB = SigningKey(b"a hub that nobody needs to start")


@pytest.fixture
def cast() -> Cast:
    return Cast(hub_pk=HUB.public)


def newer(cast: Cast, key_id: int = 2) -> StreamEntry:
    cast.readers[HTTP] = DhSecret.generate()
    return replace(
        cast.entry(HTTP),
        reader_key=cast.reader_key(HTTP, key_id),
        event_types=("http.new",),
        event_bytes_max=100,
    )


def test_key_types_and_bound_are_taken_over_and_the_rest_stays(cast: Cast) -> None:
    held = cast.connection()
    news = newer(cast)
    found = connection_renewal.renewed(held, [news, replace(news, name="record/app/other")])
    assert found == replace(held, streams=(news, held.streams[1]))
    assert found.producer == held.producer


def test_an_older_key_is_not_gone_back_to(cast: Cast) -> None:
    old = cast.connection()
    ahead = connection_renewal.renewed(old, [newer(cast)])
    found = connection_renewal.renewed(ahead, old.streams)
    assert found.streams[0].reader_key == ahead.streams[0].reader_key
    assert found.streams[0].event_types == old.streams[0].event_types


def test_a_key_of_another_admin_another_key_under_one_id_and_another_label_are_refused(
    cast: Cast,
) -> None:
    held = cast.connection()
    news = newer(cast)
    lies = {
        ErrorCode.SIG: replace(news, reader_key=replace(news.reader_key, key_id=3)),
        ErrorCode.EQUIVOCATION: newer(cast, 1),
        ErrorCode.TRUST: replace(news, label=Label(b"\x01" * 32)),
    }
    for code, lie in lies.items():
        with pytest.raises(VeenError) as refused:
            connection_renewal.renewed(held, [lie])
        assert refused.value.code is code
    other = replace(cast, hub_pk=SigningKey.generate().public)
    other.readers = cast.readers
    with pytest.raises(VeenError) as refused:
        connection_renewal.of_another(held, other.connection())
    assert refused.value.code is ErrorCode.TRUST
    assert connection_renewal.of_another(held, held) == held.streams


def test_the_lists_of_the_api_and_of_the_gateway_say_the_same(cast: Cast, tmp_path: Path) -> None:
    entry = newer(cast)
    record = b64encode(entry.reader_key.encode()).decode()
    row = {
        "name": HTTP, "label": entry.label.hex(), "event_types": ["http.new"],
        "event_bytes_max": 100,
    }  # fmt: skip
    listed = {**row, "keys": [{"key_id": 2, "record": record}, {"key_id": 1, "record": "old"}]}
    assert connection_renewal.of_rows([listed, {**listed, "name": IAM, "keys": []}]) == [entry]
    path = tmp_path / "config.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"ver": 1, "streams": [{**row, "reader_key": record}]}))
    assert connection_renewal.of_published(path) == [entry]
