from __future__ import annotations

import asyncio
import time

import pytest

from hub.server.http import HttpLimits, Response
from tests.support.http_peer import Peer, TestApp, chunked, get, post, run, serving

QUICK = HttpLimits(
    head_timeout_s=0.2,
    body_timeout_s=0.2,
    idle_timeout_s=0.2,
    write_timeout_s=0.4,
    linger_timeout_s=0.2,
)


async def _drip(peer: Peer, data: bytes) -> None:
    """Send one byte after the other, always in time to look alive."""
    for byte in data:
        peer.send(bytes([byte]))
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("begin", "slow"),
    [
        (b"", get("/", "X: " + "a" * 3000)),
        (post("/submit", b"b" * 3000)[:-3000], b"b" * 3000),
        (chunked("/submit", end=b""), b"1\r\nb\r\n" * 1000),
        (chunked("/submit", end=b""), b"1;" + b"e" * 3000),
    ],
    ids=["head", "body", "chunks", "chunk-extension"],
)
def test_a_peer_that_drips_bytes_is_cut_with_a_408(begin: bytes, slow: bytes) -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app, QUICK) as hub:
            peer = await hub.connect()
            peer.send(begin)
            dripping = asyncio.ensure_future(_drip(peer, slow))
            started = time.monotonic()
            answer = await peer.answer()
            assert time.monotonic() - started < 5
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert answer.body.startswith(b"E.FORMAT")
            assert await peer.rest() == b""
            dripping.cancel()
            await hub.until(lambda: hub.server.connection_count == 0)

    run(scenario())
    assert app.requests == []


@pytest.mark.parametrize("before", [b"", b"\r\n", get("/"), get("/") + b"\r\n"])
def test_an_idle_connection_is_closed_without_a_word(before: bytes) -> None:
    """A 408 could be taken for the answer to the request that is just being sent."""

    async def scenario() -> None:
        async with serving(TestApp(), QUICK) as hub:
            peer = await hub.connect()
            peer.send(before)
            if b"GET" in before:
                assert (await peer.answer()).status == 200
            assert await peer.rest() == b""

    run(scenario())


def test_an_application_that_takes_its_time_is_not_an_idle_connection() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        app = TestApp(lambda _, respond: loop.call_later(0.8, respond, Response(200, b"late")))  # type: ignore[arg-type]
        async with serving(app, QUICK) as hub:
            assert (await hub.exchange(get("/"))).body == b"late"

    run(scenario())


def test_a_long_body_may_take_longer_while_it_comes_fast_enough() -> None:
    limits = HttpLimits(body_timeout_s=0.2, linger_timeout_s=0.2, body_bytes_per_s_min=1000)
    body = b"b" * 60_000

    async def scenario() -> None:
        async with serving(TestApp(body_bytes_max=len(body)), limits) as hub:
            peer = await hub.connect()
            data = post("/submit", body)
            for at in range(0, len(data), 5000):
                peer.send(data[at : at + 5000])
                await asyncio.sleep(0.05)
            assert (await peer.answer()).status == 200

    run(scenario())


def test_a_peer_that_does_not_read_is_cut() -> None:
    app = TestApp(lambda _, respond: respond(Response(200, b"x" * 20_000_000)))

    async def scenario() -> None:
        async with serving(app, QUICK) as hub:
            for request in (get("/"), get("/", "Connection: close")):
                peer = await hub.connect()
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
                peer.send(request)
                await hub.until(lambda: hub.server.connection_count == 1)
                await hub.until(lambda: hub.server.connection_count == 0)

    run(scenario())
    assert len(app.requests) == 2


@pytest.mark.parametrize("request_bytes", [get("/"), get("/", "Connection: close")])
def test_a_peer_that_reads_slowly_gets_everything(request_bytes: bytes) -> None:
    body = b"x" * 12_000_000
    app = TestApp(lambda _, respond: respond(Response(200, body)))

    async def scenario() -> None:
        async with serving(app, QUICK) as hub:
            peer = await hub.connect()
            peer.send(request_bytes)
            left = len(body)
            await peer.reader.readuntil(b"\r\n\r\n")
            while left:
                left -= len(await peer.reader.readexactly(min(left, 1_000_000)))
                await asyncio.sleep(0.1)

    run(scenario())


def test_a_refused_peer_that_neither_reads_nor_closes_is_cut() -> None:
    async def scenario() -> None:
        async with serving(TestApp(), QUICK) as hub:
            peer = await hub.connect()
            peer.send(b"garbage\r\n\r\n")
            await hub.until(lambda: hub.server.connection_count == 1)
            await hub.until(lambda: hub.server.connection_count == 0)

    run(scenario())
