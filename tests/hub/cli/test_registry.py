from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from hub.cli.registry import Registry, StreamEntry
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import StreamId, UnixSeconds
from hub.wire.readerkey import ReaderKeyRecord

ADMIN = SigningKey(b"\x01" * 32)
STREAM = StreamId(b"\x02" * 32)


def record(key_id: int, admin: SigningKey = ADMIN) -> ReaderKeyRecord:
    return ReaderKeyRecord.sign(
        admin,
        stream_id=STREAM,
        key_id=key_id,
        reader_pk=DhSecret.generate().public,
        ts=UnixSeconds(1),
    )


def entry() -> StreamEntry:
    return StreamEntry(
        name="a/b", stream_id=STREAM, label=b"\x03" * 32, klass="log", admin_pk=ADMIN.public
    )


def test_streams_outlive_the_process(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    stream = entry()
    stream.add(record(1))
    stream.add(record(2))
    registry.streams["a/b"] = stream
    registry.save()
    again = Registry(tmp_path)
    assert again.get("a/b") == stream
    found = again.by_label(b"\x03" * 32)
    assert found is not None
    assert found.newest().key_id == 2


@pytest.mark.parametrize("offered", [record(1), record(3, SigningKey(b"\x09" * 32))])
def test_only_a_newer_record_of_the_pinned_admin_is_taken(offered: ReaderKeyRecord) -> None:
    stream = entry()
    stream.add(record(2))
    with pytest.raises(VeenError):
        stream.add(offered)


def test_an_edited_reader_key_is_refused_at_the_next_start(tmp_path: Path) -> None:
    """Whoever may write the file could otherwise have everything sealed to a key of his own."""
    registry = Registry(tmp_path)
    stream = entry()
    stream.add(record(1))
    registry.streams["a/b"] = stream
    registry.save()
    path = tmp_path / "streams.json"
    found = json.loads(path.read_bytes())
    found["streams"][0]["reader_keys"] = [record(2, SigningKey(b"\x09" * 32)).encode().hex()]
    path.write_text(json.dumps(found))
    with pytest.raises(VeenError) as refused:
        Registry(tmp_path)
    assert refused.value.code is ErrorCode.DAMAGE


def test_an_unknown_stream_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="veen stream create"):
        Registry(tmp_path).get("a/b")
