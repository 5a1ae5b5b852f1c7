"""What an SDK trusts: its connection file, and reader keys that the pinned admin signed."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hub import label as labels
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import UnixSeconds
from hub.wire.readerkey import ReaderKeyRecord
from recorder import sdk_readerkeys
from recorder.sdk import Recorder
from recorder.sdk_standing import Standing
from tests.recorder.conftest import MakeCast
from tests.support.connections import HTTP, IAM, Cast
from tests.support.live_hub import ISSUER, LiveHub, until

HUB = SigningKey(b"a hub that nobody needs to start")
WAIT_S = 30.0


@pytest.fixture
def cast() -> Cast:
    return Cast(hub_pk=HUB.public)


def rotated(cast: Cast, name: str = HTTP, key_id: int = 2) -> ReaderKeyRecord:
    """A new reader key of a stream; the cast opens with it from now on."""
    cast.readers[name] = DhSecret.generate()
    return cast.reader_key(name, key_id)


def code(standing: Standing, record: ReaderKeyRecord, stream: str = HTTP) -> ErrorCode:
    with pytest.raises(VeenError) as refused:
        standing.offer(stream, record)
    return refused.value.code


def test_a_higher_key_of_the_pinned_admin_is_taken_and_remembered(
    cast: Cast, tmp_path: Path
) -> None:
    connection = cast.connection()
    standing = Standing(connection, tmp_path)
    newer = rotated(cast)
    assert standing.offer(HTTP, newer)
    assert standing.reader_pk(HTTP) == newer.reader_pk
    assert not standing.offer(HTTP, newer)
    assert not standing.offer("record/app/other", newer)
    assert Standing(connection, tmp_path).reader_pk(HTTP) == newer.reader_pk


def test_an_older_key_changes_nothing(cast: Cast, tmp_path: Path) -> None:
    standing = Standing(cast.connection(), tmp_path)
    older = rotated(cast, key_id=0)
    before = standing.reader_pk(HTTP)
    assert not standing.offer(HTTP, older)
    assert standing.reader_pk(HTTP) == before


def test_a_forged_key_is_named_and_not_taken(cast: Cast, tmp_path: Path) -> None:
    standing = Standing(cast.connection(), tmp_path)
    before = standing.reader_pk(HTTP)
    newer = rotated(cast, key_id=5)
    assert code(standing, replace(newer, key_id=6)) is ErrorCode.SIG
    assert code(standing, cast.reader_key(IAM, 5)) is ErrorCode.TRUST
    stranger = ReaderKeyRecord.sign(
        SigningKey.generate(),
        stream_id=labels.stream_id(HTTP),
        key_id=5,
        reader_pk=newer.reader_pk,
        ts=UnixSeconds(1),
    )
    assert code(standing, stranger) is ErrorCode.TRUST
    assert code(standing, rotated(cast, key_id=1)) is ErrorCode.EQUIVOCATION
    assert standing.reader_pk(HTTP) == before


def test_remembered_keys_are_judged_again_at_every_start(cast: Cast, tmp_path: Path) -> None:
    connection = cast.connection()
    Standing(connection, tmp_path).offer(HTTP, rotated(cast))
    path = tmp_path / "reader_keys.json"
    kept = json.loads(path.read_bytes())
    forged = replace(rotated(cast, key_id=9), ts=UnixSeconds(3))
    kept[HTTP] = b64encode(forged.encode()).decode()
    path.write_text(json.dumps(kept))
    with pytest.raises(VeenError) as refused:
        Standing(connection, tmp_path)
    assert refused.value.code is ErrorCode.SIG
    path.write_text("{")
    with pytest.raises(VeenError) as refused:
        Standing(connection, tmp_path)
    assert refused.value.code is ErrorCode.DAMAGE


def test_a_renewed_file_brings_token_types_and_keys_but_no_other_identity(
    cast: Cast, tmp_path: Path
) -> None:
    standing = Standing(cast.connection(), tmp_path)
    rotated(cast)
    wider = replace(cast, types={HTTP: ("http.new",), IAM: ("login.ok",)})
    wider.readers = cast.readers
    entry = replace(wider.entry(HTTP), reader_key=cast.reader_key(HTTP, 2))
    standing.renew(wider.connection(streams=(entry, wider.entry(IAM))))
    assert standing.reader_pk(HTTP) == cast.readers[HTTP].public
    assert standing.map.stream_of("http.new") is not None
    assert standing.map.stream_of("http.error") is None
    for other in (Cast(hub_pk=HUB.public), replace(cast, hub_pk=SigningKey.generate().public)):
        other.readers = cast.readers
        with pytest.raises(VeenError) as refused:
            standing.renew(other.connection())
        assert refused.value.code is ErrorCode.TRUST


class StreamsHandler(BaseHTTPRequestHandler):
    """What the web process answers to a producer."""

    answer: bytes = b""
    status: int = 200
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(f"{self.path} {self.headers['Authorization']}")
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving(body: object, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"answer": data, "status": status, "seen": []}
    handler = type("Handler", (StreamsHandler,), fields)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler.seen  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def token_file(folder: Path) -> Path:
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text("secret-token\n")
    return path


def row(cast: Cast, record: ReaderKeyRecord) -> dict[str, object]:
    return {"name": HTTP, "reader_key": b64encode(record.encode()).decode(), "event_types": []}


def test_reader_keys_come_from_the_web_process(cast: Cast, tmp_path: Path) -> None:
    with serving({"streams": [row(cast, rotated(cast)), {"name": IAM}]}) as (url, seen):
        standing = Standing(cast.connection(web_url=url), tmp_path)
        assert sdk_readerkeys.refresh(standing, token_file(tmp_path)) == [HTTP]
        assert sdk_readerkeys.refresh(standing, token_file(tmp_path)) == []
    assert standing.reader_pk(HTTP) == cast.readers[HTTP].public
    assert seen[0] == "/api/record/streams Bearer secret-token"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"streams": 1}, 200),
        ([], 200),
        ({"streams": [{"name": HTTP, "reader_key": "%"}]}, 200),
        (b"<html>", 200),
        ({"error_code": "unauthorized"}, 401),
    ],
)
def test_a_strange_answer_is_refused(cast: Cast, tmp_path: Path, body: object, status: int) -> None:
    with serving(body, status) as (url, _):
        standing = Standing(cast.connection(web_url=url), tmp_path)
        with pytest.raises(VeenError) as refused:
            sdk_readerkeys.refresh(standing, token_file(tmp_path))
    assert refused.value.code is ErrorCode.PROTOCOL


def test_an_absent_web_process_is_said(cast: Cast, tmp_path: Path) -> None:
    with serving({}) as (url, _):
        pass
    for web_url, expected in ((url, ErrorCode.UNREACHABLE), (None, ErrorCode.CONFIG)):
        standing = Standing(cast.connection(web_url=web_url), tmp_path)
        with pytest.raises(VeenError) as refused:
            sdk_readerkeys.refresh(standing, token_file(tmp_path))
        assert refused.value.code is expected


def test_a_running_recorder_seals_to_the_key_that_the_web_process_showed(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    cast = make_cast(hub)
    name = next(iter(cast.types))
    connection = cast.connection()
    newer = rotated(cast, name)
    rows = [{"name": name, "reader_key": b64encode(newer.encode()).decode()}]
    with serving({"streams": rows}) as (url, _):
        path = tmp_path / "c.json"
        path.touch(mode=0o600)
        path.write_bytes(replace(connection, web_url=url).render())
        token = token_file(tmp_path)
        with Recorder(path, tmp_path / "spool", token_file=token) as recorder:
            recorder.record_and_wait(event_type="login.ok", subject_id="starts", timeout=WAIT_S)
            until(lambda: recorder.standing.reader_pk(name) == newer.reader_pk)
            recorder.record_and_wait(event_type="http.error", subject_id="x", timeout=WAIT_S)
    assert [event.subject_id for event in cast.events(hub.url, name)] == ["x"]


def test_a_running_recorder_follows_its_connection_file(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    cast = make_cast(hub)
    name = next(iter(cast.types))
    path = cast.write(tmp_path)
    with Recorder(path, tmp_path / "spool") as recorder:
        recorder.record_and_wait(event_type="http.error", subject_id="1", timeout=WAIT_S)
        assert not recorder.reload()
        cast.types = {**cast.types, name: ("http.new",)}
        cast.write(tmp_path, cap_token=cast.token().renew(ISSUER))
        assert recorder.reload()
        recorder.record_and_wait(event_type="http.new", subject_id="2", timeout=WAIT_S)
    assert [event.subject_id for event in cast.events(hub.url, name)] == ["1", "2"]
