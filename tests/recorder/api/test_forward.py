"""POST /api/record/events goes to the gateway unread, and its answer comes back [architecture]."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client
from pytest_django import Settings as DjangoSettings

from recorder import api_events

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/record/events"


class Peer:
    """A bare HTTP server in the place of the gateway: notes what comes, answers what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.created
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                peer.seen.append((dict(self.headers.items()), self._body()))
                peer.answer(self)

            def _body(self) -> bytes:
                length = self.headers.get("Content-Length")
                if length is not None:
                    return self.rfile.read(int(length))
                found = b""
                while size := int(self.rfile.readline(), 16):
                    found += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return found

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @staticmethod
    def created(handler: BaseHTTPRequestHandler) -> None:
        body = b'{"hub_commit_seq":1}'
        handler.send_response(201)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Veen-Request-Id", "00" * 8)
        handler.send_header("Set-Cookie", "a=b")
        handler.end_headers()
        handler.wfile.write(body)

    @staticmethod
    def limited(handler: BaseHTTPRequestHandler) -> None:
        body = b'{"error_code":"rate_limited"}'
        handler.send_response(429)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Retry-After", "7")
        handler.end_headers()
        handler.wfile.write(body)

    @staticmethod
    def silent(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    @staticmethod
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"5\r\nhalf,\r\n")
        handler.close_connection = True


@pytest.fixture
def gateway(tmp_path: Path, settings: DjangoSettings) -> Iterator[Peer]:
    peer = Peer()
    settings.VEEN_STATUS_FILE = tmp_path / "status.json"
    settings.VEEN_STATUS_FILE.write_text(json.dumps({"gateway_url": peer.url}))
    thread = threading.Thread(target=peer.server.serve_forever, args=(0.01,))
    thread.start()
    yield peer
    peer.server.shutdown()
    thread.join()
    peer.server.server_close()


def test_body_type_and_token_arrive_as_they_were_sent(web: Client, gateway: Peer) -> None:
    nasty = b'{"a": NaN, "a": 1 \xff'  # not looked at here
    answer = web.post(
        PATH, nasty, "text/odd; x=1", headers={"Authorization": "Bearer t", "Cookie": "s=1"}
    )
    assert answer.status_code == 201
    assert b"".join(answer.streaming_content) == b'{"hub_commit_seq":1}'  # type: ignore[attr-defined]
    [(headers, body)] = gateway.seen
    assert body == nasty
    assert headers["Content-Type"] == "text/odd; x=1"
    assert headers["Authorization"] == "Bearer t"
    assert "Cookie" not in headers
    assert answer["Veen-Request-Id"] == "00" * 8
    assert not answer.cookies


def test_a_refusal_of_the_gateway_comes_back_in_its_words(web: Client, gateway: Peer) -> None:
    gateway.answer = gateway.limited
    answer = web.post(PATH, b"{}", "application/json")
    assert (answer.status_code, answer["Retry-After"]) == (429, "7")
    assert answer.getvalue() == b'{"error_code":"rate_limited"}'


def test_a_body_of_unknown_length_is_passed_on_whole(gateway: Peer) -> None:
    """As gunicorn gives a chunked body to an application."""
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": PATH,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": "application/json",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": BytesIO(b"x" * 200_000),
        "wsgi.input_terminated": True,
        "wsgi.url_scheme": "http",
        "wsgi.errors": BytesIO(),
    }
    status: list[str] = []
    answer = WSGIHandler()(environ, lambda line, _: status.append(line))  # type: ignore[arg-type]
    assert b"".join(answer) == b'{"hub_commit_seq":1}'
    answer.close()
    assert status == ["201 Created"]
    assert gateway.seen[0][1] == b"x" * 200_000


def test_a_gateway_that_is_not_there_is_503_with_a_time_to_come_back(
    web: Client, gateway: Peer, settings: DjangoSettings
) -> None:
    for status in ('{"gateway_url": "http://127.0.0.1:9"}', '{"gateway_url": null}', "{", "[]"):
        settings.VEEN_STATUS_FILE.write_text(status)
        answer = web.post(PATH, b"{}", "application/json")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "hub_unavailable")
        assert int(answer["Retry-After"]) > 0
    settings.VEEN_STATUS_FILE.unlink()
    assert web.post(PATH, b"{}", "application/json").status_code == 503


def test_a_gateway_that_dies_before_it_answers_leaves_the_question_open(
    web: Client, gateway: Peer
) -> None:
    gateway.answer = gateway.silent
    answer = web.post(PATH, b"{}", "application/json")
    assert (answer.status_code, answer.json()["error_code"]) == (503, "hub_unavailable")
    assert "idempotency_key" in answer.json()["message"]


def test_an_answer_that_is_cut_is_not_made_to_look_whole(web: Client, gateway: Peer) -> None:
    gateway.answer = gateway.cut
    answer = web.post(PATH, b"{}", "application/json")
    with pytest.raises(Exception, match="IncompleteRead"):
        answer.getvalue()


def test_a_body_over_the_bound_is_refused_without_asking_the_gateway(
    web: Client, gateway: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "BODY_BYTES_MAX", 1000)
    answer = web.post(PATH, b"x" * 1001, "application/json")
    assert (answer.status_code, answer.json()["error_code"]) == (413, "event_too_large")
    assert gateway.seen == []


def test_another_method_is_not_passed_on(web: Client, gateway: Peer) -> None:
    answer = web.get(PATH)
    assert (answer.status_code, answer.json()["error_code"]) == (405, "method_not_allowed")
    assert gateway.seen == []
