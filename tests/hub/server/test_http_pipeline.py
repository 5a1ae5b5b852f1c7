from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from hub.server.http import HttpLimits, Request, Respond, Response
from tests.support.http_peer import TestApp, chunked, get, post, run, serving


def test_answers_keep_the_order_of_requests_however_they_are_given(rng: random.Random) -> None:
    waiting: list[tuple[Request, Respond]] = []

    def answer(request: Request, respond: Respond) -> None:
        waiting.append((request, respond))

    async def scenario() -> None:
        async with serving(TestApp(answer)) as hub:
            peer = await hub.connect()
            peer.send(b"".join(post("/submit", b"%d" % number) for number in range(40)))
            await hub.until(lambda: len(waiting) == 40)
            rng.shuffle(waiting)
            for request, respond in waiting:
                respond(Response(200, request.body))
            for number in range(40):
                assert (await peer.answer()).body == b"%d" % number

    run(scenario())


def test_streamed_and_plain_answers_keep_their_order() -> None:
    def answer(request: Request, respond: Respond) -> None:
        async def parts() -> object:
            for _ in range(3):
                yield request.path.encode()

        streamed = request.path.startswith("/stream")
        respond(Response(200, parts() if streamed else request.path.encode()))  # type: ignore[arg-type]

    async def scenario() -> None:
        async with serving(TestApp(answer)) as hub:
            peer = await hub.connect()
            paths = ["/a", "/stream1", "/b", "/stream2", "/stream3", "/c"]
            peer.send(b"".join(get(path) for path in paths))
            for path in paths:
                repeat = 3 if path.startswith("/stream") else 1
                assert (await peer.answer()).body == path.encode() * repeat

    run(scenario())


def test_no_more_than_pipeline_max_requests_are_served_at_once() -> None:
    waiting: list[Respond] = []
    served_at_once: list[int] = []

    def answer(_: Request, respond: Respond) -> None:
        waiting.append(respond)
        served_at_once.append(len(waiting))

    async def scenario() -> None:
        async with serving(TestApp(answer), HttpLimits(pipeline_max=4)) as hub:
            peer = await hub.connect()
            peer.send(get("/") * 5000)
            for _ in range(5000):
                await hub.until(lambda: bool(waiting))
                waiting.pop(0)(Response(200, b"ok"))
                assert (await peer.answer()).body == b"ok"

    run(scenario())
    assert len(served_at_once) == 5000
    assert max(served_at_once) == 4


def test_a_peer_that_sends_without_reading_is_not_read_for_ever() -> None:
    """What it is owed stays bounded, because its requests stay in its own kernel."""
    app = TestApp(lambda _, respond: respond(Response(200, b"x" * 10_000)))

    async def scenario() -> None:
        async with serving(app, HttpLimits(write_buffer_bytes_max=100_000)) as hub:
            peer = await hub.connect()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.send(get("/") * 20_000)
            seen = -1
            while seen != len(app.requests):
                seen = len(app.requests)
                await hub.until(lambda: True)
                for _ in range(20):
                    await hub.exchange(get("/other", "Connection: close"))
                    app.requests.pop()
            assert seen < 20_000
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(20_000):
                assert len((await peer.answer()).body) == 10_000

    run(scenario())


def test_requests_that_must_wait_are_left_in_the_kernel() -> None:
    app = TestApp(lambda _, __: None)
    data = post("/submit", b"b" * 4000) * 10_000

    async def scenario() -> None:
        async with serving(app, HttpLimits(pipeline_max=4)) as hub:
            peer = await hub.connect()
            peer.send(data)
            transport = peer.writer.transport
            unsent = len(data) + 1
            while transport.get_write_buffer_size() < unsent:
                unsent = transport.get_write_buffer_size()
                await asyncio.sleep(0.2)
            assert unsent > len(data) // 2
            peer.reset()

    run(scenario())
    assert len(app.requests) == 4


CONVERSATION = (
    post("/submit", b"first")
    + get("/head?label=00", "Authorization: Bearer a")
    + b"\r\n"
    + chunked("/submit", b"chunk one ", b"chunk two")
    + post("/submit", b"first")
    + get("/x", method="HEAD")
    + post("/empty", b"")
    + get("/last", "Connection: close")
)


async def _read_conversation(data: list[bytes], app: TestApp) -> None:
    async with serving(app) as hub:
        peer = await hub.connect()
        for piece in data:
            peer.send(piece)
            await peer.writer.drain()
            await hub.until(lambda: True)
        bodies = [(await peer.answer()).body for _ in range(4)]
        head = await peer.answer(to_head=True)
        assert head.headers["content-length"] == "2"
        bodies += [(await peer.answer()).body for _ in range(2)]
        assert bodies == [
            b"first",
            b"/head",
            b"chunk one chunk two",
            b"first",
            b"/empty",
            b"/last",
        ]
        assert await peer.rest() == b""


def _feed_directly(pieces: list[bytes]) -> list[tuple[str, bytes]]:
    """What the reader makes of pieces, without a socket that could join them again."""
    from hub.server.http_reader import Phase, Reception, RequestReader  # noqa: PLC0415

    reception = Reception(b"abc")
    reader = RequestReader(TestApp(), HttpLimits(), reception, "peer")
    seen = []
    for piece in pieces:
        known = reader.take_known(piece) if reader.phase is Phase.BOUNDARY else None
        if known is not None:
            seen.append((known[0].path, known[0].body))
            continue
        reader.feed(piece)
        seen += [(request.path, request.body) for request, _ in reader.complete]
        reader.complete.clear()
    assert reader.phase is Phase.CLOSED
    assert reception.body_bytes == 0
    return seen


def test_a_conversation_fed_byte_by_byte_is_the_same_conversation() -> None:
    run(_read_conversation([bytes([byte]) for byte in CONVERSATION], TestApp()))


def test_no_way_of_splitting_a_conversation_changes_it(rng: random.Random) -> None:
    whole = _feed_directly([CONVERSATION])
    assert [path for path, _ in whole] == [
        "/submit", "/head", "/submit", "/submit", "/x", "/empty", "/last",
    ]  # fmt: skip
    for at in range(1, len(CONVERSATION)):
        assert _feed_directly([CONVERSATION[:at], CONVERSATION[at:]]) == whole
    for _ in range(500):
        cuts = sorted(rng.sample(range(1, len(CONVERSATION)), rng.randint(1, 30)))
        bounds = [0, *cuts, len(CONVERSATION)]
        pieces = [CONVERSATION[a:b] for a, b in pairwise(bounds)]
        assert _feed_directly(pieces) == whole


def test_random_pieces_over_a_socket_are_the_same_conversation(rng: random.Random) -> None:
    for _ in range(10):
        cuts = sorted(rng.sample(range(1, len(CONVERSATION)), rng.randint(1, 8)))
        bounds = [0, *cuts, len(CONVERSATION)]
        pieces = [CONVERSATION[a:b] for a, b in pairwise(bounds)]
        run(_read_conversation(pieces, TestApp()))


@pytest.mark.parametrize("secret", ["Authorization: Bearer s", "Cookie: s", "Veen-Sig: s"])
def test_a_head_with_a_secret_is_not_remembered(secret: str) -> None:
    from hub.server.http_reader import Reception, RequestReader  # noqa: PLC0415

    reception = Reception(b"abc")
    reader = RequestReader(TestApp(), HttpLimits(), reception, "peer")
    reader.feed(post("/submit", b"m"))
    assert len(reception.known) == 1
    reader.feed(post("/submit", b"m", secret))
    assert len(reception.known) == 1


def test_remembered_heads_are_bounded_and_never_confused(rng: random.Random) -> None:
    """A known head takes exactly the body it announces, whatever other heads are known."""
    from hub.server.http_reader import Reception, RequestReader  # noqa: PLC0415

    reception = Reception(b"abc")
    reader = RequestReader(TestApp(), HttpLimits(), reception, "peer")
    for _ in range(3000):
        body = rng.randbytes(rng.randint(1, 400))
        data = post(f"/{len(body) % 3}", body)
        known = reader.take_known(data)
        assert reader.take_known(data + b"x") is None
        assert reader.take_known(data[:-1]) is None
        if known is None:
            reader.feed(data)
            known = reader.complete.pop()
        assert (known[0].path, known[0].body) == (f"/{len(body) % 3}", body)
        assert len(reception.known) <= 256
