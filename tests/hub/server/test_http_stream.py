from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hub.server.http import HttpLimits, Response
from tests.support.http_peer import TestApp, get, run, serving


class Source:
    """Parts of a body, and what became of them."""

    def __init__(self, count: int, *, part: bytes = b"part", fails_at: int | None = None) -> None:
        self.count = count
        self.part = part
        self.fails_at = fails_at
        self.given = 0
        self.closed = 0

    async def parts(self) -> AsyncIterator[bytes]:
        try:
            for number in range(self.count):
                if number == self.fails_at:
                    raise ZeroDivisionError
                self.given += 1
                yield self.part
                await asyncio.sleep(0)
        finally:
            self.closed += 1

    def app(self) -> TestApp:
        return TestApp(lambda _, respond: respond(Response(200, self.parts(), "application/x")))


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_an_iterator_is_sent_in_chunks_and_the_connection_goes_on(count: int) -> None:
    source = Source(count)

    async def scenario() -> None:
        async with serving(source.app()) as hub:
            peer = await hub.connect()
            for _ in range(2):
                peer.send(get("/"))
                answer = await peer.answer()
                assert answer.body == b"part" * count
                assert answer.headers["transfer-encoding"] == "chunked"
                assert answer.headers["content-type"] == "application/x"
                assert "content-length" not in answer.headers

    run(scenario())
    assert source.closed == 2


def test_an_empty_part_does_not_end_the_body() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"", b"a", b"", b"b"):
            yield part

    async def scenario() -> None:
        app = TestApp(lambda _, respond: respond(Response(200, parts())))
        async with serving(app) as hub:
            assert (await hub.exchange(get("/"))).body == b"ab"

    run(scenario())


def test_http_1_0_gets_the_bare_body_and_then_the_end() -> None:
    source = Source(3)

    async def scenario() -> None:
        async with serving(source.app()) as hub:
            answer = await hub.exchange(get("/", version="1.0"))
            assert answer.body == b"partpartpart"
            assert "transfer-encoding" not in answer.headers

    run(scenario())


def test_a_head_request_reads_nothing_from_the_iterator() -> None:
    source = Source(3)

    async def scenario() -> None:
        async with serving(source.app()) as hub:
            peer = await hub.connect()
            peer.send(get("/", method="HEAD") + get("/"))
            assert (await peer.answer(to_head=True)).status == 200
            assert source.given in {0, 3}
            assert (await peer.answer()).body == b"partpartpart"

    run(scenario())
    assert source.given == 3


def test_a_failure_before_the_first_part_is_a_500() -> None:
    async def scenario() -> None:
        async with serving(Source(3, fails_at=0).app()) as hub:
            peer = await hub.connect()
            for _ in range(2):
                peer.send(get("/"))
                assert (await peer.answer()).status == 500

    run(scenario())


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_failure_within_the_body_is_seen_as_a_cut(version: str) -> None:
    async def scenario() -> None:
        async with serving(Source(3, fails_at=2).app()) as hub:
            peer = await hub.connect()
            peer.send(get("/", version=version))
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await peer.answer()
            await hub.until(lambda: hub.server.connection_count == 0)

    run(scenario())


def test_an_iterator_runs_no_faster_than_its_peer_reads() -> None:
    source = Source(2000, part=b"x" * 20_000)

    async def scenario() -> None:
        async with serving(source.app(), HttpLimits(write_buffer_bytes_max=100_000)) as hub:
            peer = await hub.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(get("/"))
            seen = -1
            while seen != source.given or seen <= 0:
                seen = source.given
                await asyncio.sleep(0.05)
            assert seen < 1000
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len((await peer.answer()).body) == 2000 * 20_000

    run(scenario())


def test_a_peer_that_leaves_closes_every_iterator_it_was_owed() -> None:
    source = Source(10_000, part=b"x" * 20_000)

    async def scenario() -> None:
        async with serving(source.app()) as hub:
            peer = await hub.connect()
            peer.send(get("/"))
            await peer.reader.readexactly(1000)
            assert source.given > 0
            peer.reset()
            await hub.until(lambda: source.closed == 1)
            await hub.until(lambda: hub.server.connection_count == 0)

    run(scenario())
    assert source.given < 10_000


def test_a_response_that_http_cannot_carry_is_a_500_also_when_streamed() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a"

    async def scenario() -> None:
        app = TestApp(
            lambda _, respond: respond(Response(200, parts(), headers=(("X", "a\r\nB: c"),)))
        )
        async with serving(app) as hub:
            answer = await hub.exchange(get("/"))
            assert answer.status == 500
            assert "b" not in answer.headers

    run(scenario())
