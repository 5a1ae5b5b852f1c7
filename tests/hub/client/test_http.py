from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hub.client.http import Call, HubHttp, cut_sequence, refusal_of
from hub.errors import ErrorCode, VeenError
from hub.wire import cbor
from tests.hub.client.scripted_hub import ScriptedHub


def test_items_are_cut_wherever_the_pieces_break(rng: random.Random) -> None:
    values: list[cbor.Value] = [[number, b"x" * rng.randrange(300)] for number in range(50)]
    data = b"".join(cbor.encode(value) for value in values)
    for _ in range(20):
        pieces = []
        rest = data
        while rest:
            size = rng.randrange(1, 400)
            pieces.append(rest[:size])
            rest = rest[size:]
        source = iter(pieces)
        found = list(cut_sequence(lambda _, source=source: next(source, b"")))  # type: ignore[misc]
        assert [cbor.decode(item) for item in found] == values


@pytest.mark.parametrize("data", [b"\x82\x01", b"\x5a\xff\xff\xff\xff", b"\xff", b"\x01\x61"])
def test_an_answer_that_ends_inside_an_item_is_refused(data: bytes) -> None:
    source = iter([data])
    with pytest.raises(VeenError) as refused:
        list(cut_sequence(lambda _: next(source, b"")))
    assert refused.value.code is ErrorCode.FORMAT


def test_a_claimed_length_is_not_waited_for_without_end() -> None:
    with pytest.raises(VeenError):
        list(cut_sequence(lambda size: b"\x5b" + b"\xff" * (size - 1)))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (cbor.encode({"code": "E.CAP", "detail": "no"}), ErrorCode.CAP),
        (cbor.encode({"code": "E.NEW"}), ErrorCode.PROTOCOL),
        (b"<html>Bad gateway</html>", ErrorCode.PROTOCOL),
        (cbor.encode([1]), ErrorCode.PROTOCOL),
    ],
)
def test_refusals_carry_the_hubs_code(body: bytes, code: ErrorCode) -> None:
    assert refusal_of(502, body).code is code


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7), ("99999999", 3600), ("-1", None), ("x", None)]
)
def test_retry_after_is_bounded(text: str, seconds: int | None) -> None:
    assert refusal_of(503, cbor.encode({"code": "E.BUSY"}), text).retry_after_s == seconds


def test_one_connection_serves_many_calls(hub: ScriptedHub) -> None:
    with HubHttp(hub.url) as http:
        http.call(Call(method="GET", path="/rotations"))
        first = http._connection.sock
        http.call(Call(method="GET", path="/rotations"))
        assert http._connection.sock is first


def test_a_half_read_answer_does_not_poison_the_next(hub: ScriptedHub) -> None:
    hub.rotations = [b"\x01"] * 10
    with HubHttp(hub.url) as http:
        _, items = http.items(Call(method="GET", path="/rotations"))
        assert next(items) == b"\x01"
        items.close()  # type: ignore[attr-defined]
        assert http.call(Call(method="GET", path="/rotations")).body == b"\x01" * 10


@contextmanager
def one_shot_server(answers: list[bytes]) -> Iterator[str]:
    """Answers one connection after another with fixed bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
    ],
)
def test_a_cut_or_garbled_answer_is_unreachable_not_success(answer: bytes) -> None:
    with one_shot_server([answer]) as url, HubHttp(url, timeout_s=5) as http:
        with pytest.raises(VeenError) as refused:
            http.call(Call(method="GET", path="/head"))
        assert refused.value.code is ErrorCode.UNREACHABLE


def test_a_closed_keep_alive_connection_is_made_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
    with one_shot_server([answer, answer]) as url, HubHttp(url, timeout_s=5) as http:
        assert http.call(Call(method="GET", path="/a")).body == b"x"
        assert http.call(Call(method="GET", path="/a")).body == b"x"


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://a/?q=1", "http://u@h/"])
def test_only_plain_hub_urls_are_taken(url: str) -> None:
    with pytest.raises(VeenError) as refused:
        HubHttp(url)
    assert refused.value.code is ErrorCode.CONFIG


def test_a_token_cannot_smuggle_a_header(hub: ScriptedHub) -> None:
    with HubHttp(hub.url, token="x\r\nHost: evil") as http, pytest.raises(VeenError):
        http.call(Call(method="GET", path="/rotations"))
