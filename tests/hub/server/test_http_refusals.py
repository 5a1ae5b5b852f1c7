from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hub.server.http import HttpLimits
from tests.support.http_peer import BODY_BYTES_MAX, TestApp, chunked, get, post, run, serving

HOST = b"Host: hub\r\n"


def refused(data: bytes, status: int, *, served: int = 0, limits: HttpLimits | None = None) -> None:
    """Assert that data is answered once, with status, and that the connection then ends."""
    app = TestApp()

    async def scenario() -> None:
        async with serving(app, limits) as hub:
            peer = await hub.connect()
            peer.send(data)
            for _ in range(served):
                assert (await peer.answer()).status == 200
            answer = await peer.answer()
            assert answer.status == status
            assert answer.headers["connection"] == "close"
            peer.send(get("/smuggled"))
            assert await peer.rest() == b""

    run(scenario())
    assert len(app.requests) == served


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: hub\n\n",
        b"GET / HTTP/1.1\r\nHost: hub\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\rX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\nX: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\nX: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\nX: a\x01b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\nX y: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\n: a\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET /%ff HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET ftp://hub/ HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: hub\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT hub:443 HTTP/1.1\r\nHost: hub\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: hub\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: hub\r\nContent-Length: 1\r\nExpect: a miracle\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        *(
            b"GET / HTTP/1.1\r\nHost: hub\r\n%b: a\r\n%b: a\r\n\r\n" % (name, name)
            for name in (b"Host", b"Authorization", b"Content-Type", b"Expect")
        ),
    ],
)
def test_malformed_http_is_a_400(data: bytes) -> None:
    refused(data, 400)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length: -3\r\n",
        b"Content-Length: 3a\r\n",
        b"Content-Length:\r\n",
        b"Content-Length : 3\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_a_length_that_two_servers_could_read_differently_is_a_400(fields: bytes) -> None:
    refused(b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\n0\r\n\r\n" + get("/smuggled"), 400)


def test_chunks_under_http_1_0_are_a_400() -> None:
    refused(chunked("/", b"a").replace(b"HTTP/1.1", b"HTTP/1.0"), 400)


@pytest.mark.parametrize(
    "chunk",
    [b"0x1\r\na\r\n", b"+1\r\na\r\n", b"-1\r\na\r\n", b"1 \r\na\r\n", b"1\na\r\n", b"1\r\nab\r\n",
     b"1\r\na\n", b"ffffffffffffffffff\r\n", b"1;\na\r\n"],
)  # fmt: skip
def test_a_malformed_chunk_is_a_400(chunk: bytes) -> None:
    refused(chunked("/submit", end=chunk + b"0\r\n\r\n"), 400)


def test_a_trailer_field_cannot_slip_into_the_next_request() -> None:
    refused(chunked("/a", b"x", end=b"0\r\nAuthorization: b\r\n\r\n") + get("/b"), 400)


def test_a_length_over_the_bound_is_refused_before_the_body_comes() -> None:
    head = post("/submit", b"").replace(b": 0", b": %d" % (BODY_BYTES_MAX + 1))
    refused(head, 413)


def test_a_body_at_the_bound_is_taken() -> None:
    async def scenario() -> None:
        body = b"b" * BODY_BYTES_MAX
        async with serving(TestApp()) as hub:
            assert (await hub.exchange(post("/submit", body))).body == body
            assert (await hub.exchange(chunked("/submit", body[:-1], body[-1:]))).body == body

    run(scenario())


def test_chunks_over_the_bound_are_refused_when_they_pass_it() -> None:
    refused(chunked("/submit", b"b" * BODY_BYTES_MAX, b"b", end=b""), 413)


def test_a_body_where_none_is_allowed_is_refused() -> None:
    refused(get("/", "Content-Length: 1") + b"x", 413)


def test_a_peer_that_still_sends_can_read_why_it_was_refused() -> None:
    """Closing at once would reset the connection and take the answer with it."""

    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            peer = await hub.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(post("/submit", b"b" * 16_000_000))
            await peer.writer.drain()  # It sends all it has before it looks for an answer.
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert (await peer.answer()).status == 413

    run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        get("/" + "a" * 5000),
        get("/", "X: " + "a" * 17_000),
        get("/", *(f"X{number}: a" for number in range(70))),
        get("/", *("X: a" for _ in range(70))),
        b"GET / HTTP/1.1\r\nX: " + b"a" * 60_000,
        b"GET / HTTP/1.1\r\n" + b"a" * 60_000,
        b"GET /" + b"a" * 60_000,
    ],
)
def test_a_head_over_its_bounds_is_a_413(data: bytes) -> None:
    refused(data, 413)


def test_unfinished_bodies_of_all_connections_are_bounded_together() -> None:
    limits = HttpLimits(body_bytes_total_max=6000)
    app = TestApp()

    async def scenario() -> None:
        async with serving(app, limits) as hub:
            first, second = await hub.connect(), await hub.connect()
            whole = post("/submit", b"b" * BODY_BYTES_MAX)
            first.send(whole[:-1])
            await first.writer.drain()
            second.send(whole[:-1])
            busy = await second.answer()
            assert (busy.status, busy.headers["retry-after"]) == (503, "1")
            first.send(whole[-1:])
            assert (await first.answer()).status == 200
            assert (await hub.exchange(whole)).status == 200

    run(scenario())


def test_requests_before_the_fault_are_served_before_it_is_answered() -> None:
    refused(get("/one") + post("/two", b"2") + b"garbage\r\n\r\n", 400, served=2)


def test_garbage_gives_neither_a_5xx_nor_a_dead_server(
    rng: random.Random, scaled: Callable[[int, int], int]
) -> None:
    """Mutated requests and plain noise: every answer is 200 or 4xx, and the hub lives (C11)."""
    seeds = [
        post("/submit", b"m" * 50, "Content-Type: application/cbor"),
        get("/stream?label=00&from=1", "Authorization: Bearer abc"),
        chunked("/submit", b"abc", b"defg"),
        get("/", method="HEAD") + post("/x", b"y"),
    ]

    def mutated() -> bytes:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randint(1, 5)]
                case 2:
                    data[at:at] = rng.choice([b"\r\n", b"\n", b"\0", b" ", b":", b"\r\n\r\n"])
                case _:
                    data[at:at] = data[at : at + rng.randint(1, 30)]
            data = data or bytearray(b"\n")
        return bytes(data)

    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            for number in range(scaled(400, 20_000)):
                data = rng.randbytes(rng.randint(1, 300)) if number % 8 == 0 else mutated()
                peer = await hub.connect()
                peer.send(data)
                peer.writer.write_eof()
                for line in (await peer.rest()).split(b"\r\n"):
                    if line.startswith(b"HTTP/1.1 "):
                        assert line[9:10] in b"124", (line, data)
                await peer.close()
                hub.peers.clear()
            assert (await hub.exchange(post("/submit", b"alive"))).body == b"alive"

    run(scenario())
