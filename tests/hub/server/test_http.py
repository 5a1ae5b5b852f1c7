from __future__ import annotations

import asyncio
import re

import pytest

from hub.server.http import Request, Respond, Response
from tests.support.http_peer import TestApp, chunked, get, post, run, serving


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            peer = await hub.connect()
            for number in range(5):
                peer.send(post("/submit", b"message %d" % number))
                answer = await peer.answer()
                assert (answer.status, answer.body) == (200, b"message %d" % number)
                assert "connection" not in answer.headers
            assert hub.server.connection_count == 1

    run(scenario())


def test_the_application_sees_the_request_as_it_was_sent() -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            await hub.exchange(
                post("/a%20b/%C3%A9?x=%31&y", b"\x00\xff", "X-One: 1", "x-one:  2 ", "Empty:")
            )

    run(scenario())
    (request,) = app.requests
    assert (request.method, request.path, request.query) == ("POST", "/a b/é", "x=%31&y")
    assert request.body == b"\x00\xff"
    assert request.headers == {
        "host": "hub",
        "content-length": "2",
        "x-one": "1, 2",
        "empty": "",
    }
    assert request.peer == "127.0.0.1"
    assert request.received_at > 0
    assert re.fullmatch("[0-9a-f]{16}", request.request_id)


def test_every_response_carries_the_headers_of_the_house() -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            answer = await hub.exchange(get("/"))
            assert answer.headers["veen-request-id"] == app.requests[0].request_id
            refusal = await hub.exchange(b"nonsense\r\n\r\n")
            for each in (answer, refusal):
                assert re.fullmatch("[0-9a-f]{16}", each.headers["veen-request-id"])
                assert each.headers["cache-control"] == "no-store"
                assert each.headers["x-content-type-options"] == "nosniff"
                assert each.headers["server"] == "veen"
                assert each.headers["date"].endswith(" GMT")
                assert int(each.headers["content-length"]) == len(each.body)

    run(scenario())


def test_request_ids_are_never_given_twice() -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            peer = await hub.connect()
            for number in range(50):
                peer.send(post("/submit", b"m") if number % 2 else get("/"))
                await peer.answer()

    run(scenario())
    assert len({request.request_id for request in app.requests}) == 50


@pytest.mark.parametrize("parts", [(), (b"a",), (b"one", b"two" * 100, b"x")])
def test_a_chunked_body_arrives_whole(parts: tuple[bytes, ...]) -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            peer = await hub.connect()
            peer.send(chunked("/submit", *parts))
            assert (await peer.answer()).status == 200
            peer.send(get("/next"))
            assert (await peer.answer()).body == b"/next"

    run(scenario())
    assert app.requests[0].body == b"".join(parts)


def test_a_head_request_is_a_get_whose_body_stays_behind() -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            peer = await hub.connect()
            peer.send(get("/thing", method="HEAD") + get("/after"))
            answer = await peer.answer(to_head=True)
            assert answer.headers["content-length"] == str(len("/thing"))
            assert (await peer.answer()).body == b"/after"

    run(scenario())
    assert app.requests[0].method == "GET"


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/", version="1.0"),
        get("/", "Connection: keep-alive", version="1.0"),
        get("/", "Connection: close"),
        get("/", "Connection: keep-alive, close"),
    ],
)
def test_a_connection_that_is_not_kept_ends_after_its_answer(request_bytes: bytes) -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            peer = await hub.connect()
            peer.send(request_bytes)
            answer = await peer.answer()
            assert answer.headers["connection"] == "close"
            assert await peer.rest() == b""

    run(scenario())


def test_a_connection_to_be_closed_is_closed_also_when_its_head_is_no_news() -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            for _ in range(3):
                peer = await hub.connect()
                peer.send(post("/submit", b"body", "Connection: close"))
                assert (await peer.answer()).headers["connection"] == "close"
                assert await peer.rest() == b""

    run(scenario())


def test_nothing_is_served_after_connection_close() -> None:
    app = TestApp()

    async def scenario() -> None:
        async with serving(app) as hub:
            peer = await hub.connect()
            peer.send(get("/one", "Connection: close") + get("/two"))
            assert (await peer.answer()).body == b"/one"
            assert await peer.rest() == b""

    run(scenario())
    assert [request.path for request in app.requests] == ["/one"]


def test_a_peer_that_expects_it_is_told_to_continue() -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            peer = await hub.connect()
            head, body = post("/submit", b"0123456789", "Expect: 100-continue").split(b"\r\n\r\n")
            peer.send(head + b"\r\n\r\n")
            assert (await peer.answer()).status == 100
            peer.send(body)
            assert (await peer.answer()).body == b"0123456789"

    run(scenario())


def test_a_body_that_comes_unasked_needs_no_continue() -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            answer = await hub.exchange(post("/submit", b"body", "Expect: 100-continue"))
            assert (answer.status, answer.body) == (200, b"body")

    run(scenario())


def test_continue_waits_for_the_answers_before_it() -> None:
    waiting: list[Respond] = []

    def answer(request: Request, respond: Respond) -> None:
        if request.path == "/slow":
            waiting.append(respond)
        else:
            respond(Response(200, request.body))

    async def scenario() -> None:
        async with serving(TestApp(answer)) as hub:
            peer = await hub.connect()
            head, body = post("/submit", b"body", "Expect: 100-continue").split(b"\r\n\r\n")
            peer.send(get("/slow") + head + b"\r\n\r\n")
            await hub.until(lambda: bool(waiting))
            waiting[0](Response(200, b"first"))
            assert (await peer.answer()).body == b"first"
            assert (await peer.answer()).status == 100
            peer.send(body)
            assert (await peer.answer()).body == b"body"

    run(scenario())


def test_a_body_too_large_is_refused_instead_of_continued() -> None:
    async def scenario() -> None:
        async with serving(TestApp()) as hub:
            head = post("/submit", b"", "Expect: 100-continue").replace(b": 0", b": 9999999")
            assert (await hub.exchange(head)).status == 413

    run(scenario())


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_no_length(status: int) -> None:
    async def scenario() -> None:
        app = TestApp(lambda _, respond: respond(Response(status, b"")))
        async with serving(app) as hub:
            peer = await hub.connect()
            for _ in range(2):
                peer.send(get("/"))
                answer = await peer.answer()
                assert answer.status == status
                assert "content-length" not in answer.headers
                assert "content-type" not in answer.headers

    run(scenario())


def test_an_application_that_fails_is_a_500_and_the_connection_goes_on() -> None:
    def answer(request: Request, respond: Respond) -> None:
        if request.path == "/fail":
            raise ZeroDivisionError
        respond(Response(200, b"fine"))

    async def scenario() -> None:
        async with serving(TestApp(answer)) as hub:
            peer = await hub.connect()
            peer.send(get("/fail") + get("/fine"))
            failed = await peer.answer()
            assert (failed.status, failed.body[:10]) == (500, b"E.INTERNAL")
            assert (await peer.answer()).body == b"fine"
            assert (await hub.exchange(get("/body_max_fails"))).status == 500

    run(scenario())


@pytest.mark.parametrize(
    "response",
    [
        Response(200, b"", headers=(("X-Evil", "a\r\nSet-Cookie: b"),)),
        Response(200, b"", headers=(("X-Evil\r\nA", "b"),)),
        Response(200, b"", headers=(("X-Evil", "a\nb"),)),
        Response(200, b"", headers=(("X-Evil", "a\0b"),)),
        Response(200, b"", headers=(("Content-Length", "7"),)),
        Response(200, b"", "text/plain\r\nX: y"),
        Response(101, b""),
        Response(204, b"body"),
    ],
)
def test_a_response_that_would_break_the_framing_is_not_sent(response: Response) -> None:
    async def scenario() -> None:
        async with serving(TestApp(lambda _, respond: respond(response))) as hub:
            peer = await hub.connect()
            peer.send(get("/"))
            answer = await peer.answer()
            assert answer.status == 500
            assert not {"x", "a", "x-evil", "set-cookie"} & set(answer.headers)

    run(scenario())


def test_answering_twice_is_the_applications_error_and_sends_nothing() -> None:
    errors: list[Exception] = []

    def answer(_: Request, respond: Respond) -> None:
        respond(Response(200, b"once"))
        try:
            respond(Response(200, b"twice"))
        except RuntimeError as error:
            errors.append(error)

    async def scenario() -> None:
        async with serving(TestApp(answer)) as hub:
            peer = await hub.connect()
            peer.send(get("/", "Connection: close"))
            assert (await peer.answer()).body == b"once"
            assert await peer.rest() == b""

    run(scenario())
    assert len(errors) == 1


def test_a_large_answer_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000

    async def scenario() -> None:
        app = TestApp(lambda _, respond: respond(Response(200, body)))
        async with serving(app) as hub:
            peer = await hub.connect()
            peer.send(get("/") + get("/", "Connection: close"))
            assert (await peer.answer()).body == body
            assert (await peer.answer()).body == body
            assert await peer.rest() == b""

    run(scenario())


def test_a_peer_that_closed_its_own_side_still_gets_its_answer() -> None:
    waiting: list[Respond] = []

    async def scenario() -> None:
        async with serving(TestApp(lambda _, respond: waiting.append(respond))) as hub:
            peer = await hub.connect()
            peer.send(get("/"))
            peer.writer.write_eof()
            await hub.until(lambda: bool(waiting))
            await asyncio.sleep(0.01)  # The end of the stream comes in a packet of its own.
            waiting[0](Response(200, b"late"))
            assert (await peer.answer()).body == b"late"
            assert await peer.rest() == b""

    run(scenario())


def test_an_answer_to_a_peer_that_is_gone_is_dropped() -> None:
    waiting: list[Respond] = []

    async def scenario() -> None:
        async with serving(TestApp(lambda _, respond: waiting.append(respond))) as hub:
            peer = await hub.connect()
            peer.send(get("/"))
            await hub.until(lambda: bool(waiting))
            peer.reset()
            await hub.until(lambda: hub.server.connection_count == 0)
            waiting[0](Response(200, b"nobody hears this"))

    run(scenario())
