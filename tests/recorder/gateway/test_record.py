"""POST /api/record/events: answers, refusals and idempotency, on a real hub."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.wire.captoken import Rate
from hub.wire.receipt import Receipt
from tests.recorder.conftest import MakeCast
from tests.support import gateways
from tests.support.connections import Cast
from tests.support.gateways import EVENTS, Gateway, Publisher, Reply, token_of
from tests.support.live_hub import LiveHub


class Door:
    """One gateway with two producers."""

    def __init__(self, gateway: Gateway, shop: Cast, till: Cast, url: str) -> None:
        self.gateway = gateway
        self.shop = shop
        self.till = till
        self.url = url

    def post(self, found: object, name: str = "shop") -> Reply:
        return self.gateway.post(found, token=token_of(name))

    def results(self, *events: object) -> list[dict[str, Any]]:
        reply = self.post({"events": events})
        assert reply.status == 200, reply
        assert list(reply.body) == ["results"]
        found: list[dict[str, Any]] = reply.body["results"]
        return found

    def subjects(self, place: int = 0, cast: Cast | None = None) -> list[str]:
        cast = cast or self.shop
        return [event.subject_id for event in cast.events(self.url, list(cast.types)[place])]


@contextmanager
def open_door(hub: LiveHub, make_cast: MakeCast, state_dir: Path) -> Iterator[Door]:
    shop = make_cast(hub)
    till = make_cast(hub, name="till", rate=Rate(per_sec=1, burst=3))
    till.types = {next(iter(till.types)): ("till.sale",)}
    Publisher(state_dir).publish(shop, till)
    with gateways.running(state_dir) as gateway:
        yield Door(gateway, shop, till, hub.url)


@pytest.fixture
def door(hub: LiveHub, make_cast: MakeCast, tmp_path: Path) -> Iterator[Door]:
    with open_door(hub, make_cast, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shut_door(
    hub: LiveHub, make_cast: MakeCast, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    """For requests that are all refused."""
    with open_door(hub, make_cast, tmp_path_factory.mktemp("gateway")) as opened:
        yield opened
        assert opened.subjects() == []


def event(subject_id: str = "alice", **fields: object) -> dict[str, object]:
    return {"event_type": "http.request", "subject_id": subject_id, **fields}


def test_one_event_is_answered_with_its_verified_receipt(door: Door, hub: LiveHub) -> None:
    reply = door.post(event(payload={"n": 1.50}, event_time="2026-03-01T09:00:00.123456789Z"))
    assert reply.status == 201
    assert list(reply.body) == [
        "stream", "hub_commit_seq", "hub_commit_time", "principal_id", "receipt_id", "receipt",
    ]  # fmt: skip
    name = next(iter(door.shop.types))
    assert reply.body["stream"] == name
    assert reply.body["hub_commit_seq"] == 1
    assert reply.body["principal_id"] == door.shop.key.public.hex()
    receipt = Receipt.decode(b64decode(reply.body["receipt"]))
    receipt.verify(hub.hub_pk)
    assert reply.body["receipt_id"] == f"rcpt-{receipt.leaf_hash.hex()}"
    (found,) = door.shop.events(hub.url, name)
    assert (found.payload, found.event_time, found.origin) == ('{"n":1.5}', 1772355600123, "shop")


def test_a_batch_is_answered_item_by_item(door: Door) -> None:
    results = door.results(
        event("0"),
        {"event_type": "nothing", "subject_id": "1"},
        event("2", colour="red"),
        event("3", payload={"a": [1, 2]}),
        "text",
        {"event_type": "login.ok", "subject_id": "5"},
        event("6", stream=list(door.shop.types)[1]),
        {"event_type": "till.sale", "subject_id": "7"},
        event("8", payload="x" * 66_000),
    )
    codes = [one.get("error_code") for one in results]
    assert codes == [
        None, "unknown_event_type", "invalid_event", None, "invalid_event", None, "wrong_stream",
        "forbidden_stream", "event_too_large",
    ]  # fmt: skip
    assert results[1]["details"] == [
        {"pointer": "/events/1/event_type", "reason": "maps to no stream"}
    ]
    assert results[2]["details"] == [{"pointer": "/events/2/colour", "reason": "unknown key"}]
    assert results[4]["details"][0]["pointer"] == "/events/4"
    assert results[6]["details"][0]["pointer"] == "/events/6/stream"
    assert results[7]["details"][0]["pointer"] == "/events/7/event_type"
    assert results[8]["details"][0]["pointer"] == "/events/8/payload"
    assert door.subjects() == ["0", "3"]
    assert door.subjects(1) == ["5"]


def test_a_large_batch_keeps_its_order(door: Door) -> None:
    results = door.results(*(event(str(number)) for number in range(1000)))
    assert [one["hub_commit_seq"] for one in results] == list(range(1, 1001))
    assert door.subjects() == [str(number) for number in range(1000)]


def test_flawed_json_inside_an_event_is_that_events_alone(door: Door) -> None:
    body = (
        b'{"events": [{"event_type":"http.error","subject_id":"a","payload":{"k":1,"k":2}},'
        b'{"event_type":"http.error","subject_id":"\\ud800"},'
        b'{"event_type":"http.error","subject_id":"c","payload":1e401},'
        b'{"event_type":"http.error","subject_id":"d","payload":1e400},'
        b'{"event_type":"http.error","subject_id":"e","payload":' + b"[" * 65 + b"]" * 65 + b"}]}"
    )
    reply = door.post(body)
    assert reply.status == 200
    results = reply.body["results"]
    places = [one.get("details", [{}])[0].get("pointer") for one in results]
    assert places[:4] == ["/events/0/payload/k", "/events/1/subject_id", "/events/2/payload", None]
    assert places[4].startswith("/events/4/payload/0/0")
    assert door.subjects() == ["d"]


@pytest.mark.parametrize("depth", [65, 253, 254, 600, 100_000])
def test_an_event_of_a_batch_that_nests_too_deep_is_refused_by_itself(
    door: Door, depth: int
) -> None:
    deep = b'{"a":' * (depth // 2) + b"[" * (depth - depth // 2) + b'"]}\\""'
    deep += b"]" * (depth - depth // 2) + b"}" * (depth // 2)
    good = b'{"event_type":"http.error","subject_id":"%d"}'
    bad = b'{"event_type":"http.error","subject_id":"e","payload":' + deep + b"}"
    reply = door.post(b'{"events": [' + good % 0 + b"," + bad + b"," + good % 2 + b"]}")
    assert reply.status == 200
    codes = [one.get("error_code") for one in reply.body["results"]]
    assert codes == [None, "invalid_event", None]
    assert reply.body["results"][1]["details"][0]["pointer"].startswith("/events/1/payload/a/a")
    assert door.subjects() == ["0", "2"]


@pytest.mark.parametrize("inside", [b"[1 2]", b'{"a"}', b"[}", b'"', b"]", b"[", b"nul"])
def test_what_is_no_json_is_refused_as_a_whole_however_deep_it_is(
    shut_door: Door, inside: bytes
) -> None:
    good = b'{"event_type":"http.error","subject_id":"a"}'
    reply = shut_door.post(b'{"events": [' + good + b"," + b"[" * 700 + inside + b"]" * 700 + b"]}")
    assert (reply.status, reply.code) == (400, "invalid_json")


@pytest.mark.parametrize("depth", [65, 255, 100_000])
def test_an_event_that_nests_too_deep_is_refused_as_an_event(door: Door, depth: int) -> None:
    payload = b"[" * depth + b"]" * depth
    found = b'{"event_type":"http.error","subject_id":"e","payload":' + payload + b"}"
    reply = door.post(found)
    assert (reply.status, reply.code) == (400, "invalid_event")
    assert reply.body["details"][0]["pointer"].startswith("/payload/0/0")


def test_a_repeated_key_gives_the_first_answer_and_other_content_a_conflict(door: Door) -> None:
    first = door.post(event(idempotency_key="k\0é", payload=2.0))
    again = door.post(b'{"payload":2,"idempotency_key":"k\\u0000\xc3\xa9",'
                      b'"subject_id":"alice","event_type":"http.request"}')  # fmt: skip
    other = door.post(event("bob", idempotency_key="k\0é"))
    assert (first.status, again.status, other.status) == (201, 200, 409)
    assert again.body == first.body
    assert other.code == "idempotency_conflict"
    assert door.subjects() == ["alice"]


def test_keys_work_inside_one_batch_and_belong_to_their_producer(door: Door) -> None:
    results = door.results(
        event("a", idempotency_key="k"),
        event("a", idempotency_key="k"),
        event("b", idempotency_key="k"),
        event("c", idempotency_key="l"),
    )
    assert results[0] == results[1]
    assert results[2]["error_code"] == "idempotency_conflict"
    assert door.subjects() == ["a", "c"]
    sale = {"event_type": "till.sale", "subject_id": "x", "idempotency_key": "k"}
    assert door.post(sale, "till").status == 201


def test_a_refused_event_leaves_no_key(door: Door) -> None:
    assert door.post(event(idempotency_key="k", colour=1)).code == "invalid_event"
    assert door.post(event(idempotency_key="k")).status == 201


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        (b"[" * 300 + b"]" * 300, 400, "invalid_event"),
        (b"[]", 400, "invalid_event"),
        (b"null", 400, "invalid_event"),
        (b"{}", 400, "invalid_event"),
        (b'{"events": {}}', 400, "invalid_event"),
        (b'{"events": [], "more": 1}', 400, "invalid_event"),
        (b'{"events": [], "events": []}', 400, "invalid_event"),
        (json.dumps({"events": [{}] * 1001}).encode(), 400, "invalid_event"),
        (json.dumps(event(event_type="nothing")).encode(), 400, "unknown_event_type"),
        (json.dumps(event(event_type="till.sale")).encode(), 403, "forbidden_stream"),
        (json.dumps(event(stream="record/app/other")).encode(), 400, "wrong_stream"),
        (json.dumps(event(payload="x" * 66_000)).encode(), 413, "event_too_large"),
    ],
)
def test_each_refusal_has_its_status_and_code(
    shut_door: Door, body: bytes, status: int, code: str
) -> None:
    reply = shut_door.post(body)
    assert (reply.status, reply.code) == (status, code)


def test_no_events_is_an_empty_answer(shut_door: Door) -> None:
    assert shut_door.results() == []


def test_who_has_no_token_is_told_so_and_nothing_else(shut_door: Door) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {token_of('shop')}"},
        {"Authorization": "Bearer \xe9"},
    ):
        reply = shut_door.gateway.ask(
            "POST", EVENTS, b"{}", {"Content-Type": "text/plain", **headers}
        )
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"


def test_a_token_of_another_role_is_forbidden_and_not_unknown(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path
) -> None:
    publisher = Publisher(tmp_path, other_tokens=["an-administrators"])
    cast = make_cast(hub)
    publisher.publish(cast)
    with gateways.running(tmp_path) as gateway:
        reply = gateway.post(event(), token="an-administrators")
        assert (reply.status, reply.code) == (403, "forbidden")
        publisher.other_tokens.clear()
        publisher.publish(cast)
        assert gateway.post(event(), token="an-administrators").code == "unauthorized"


def test_other_media_methods_routes_and_sizes_are_refused_as_json(shut_door: Door) -> None:
    token = {"Authorization": f"Bearer {token_of('shop')}"}
    media = shut_door.gateway.ask("POST", EVENTS, b"{}", {**token, "Content-Type": "text/plain"})
    assert (media.status, media.code) == (415, "unsupported_media_type")
    method = shut_door.gateway.ask("GET", EVENTS, None, token)
    assert (method.status, method.code) == (405, "method_not_allowed")
    assert method.headers["allow"] == "POST"
    route = shut_door.gateway.ask("GET", "/api/record/replay", None, token)
    assert (route.status, route.code) == (404, "not_found")
    large = {**token, "Content-Length": str(33 * 1024 * 1024), "Content-Type": "application/json"}
    size = shut_door.gateway.ask("POST", EVENTS, None, large)
    assert (size.status, size.code) == (413, "event_too_large")


def test_a_producer_over_its_rate_waits(door: Door) -> None:
    sale = {"event_type": "till.sale", "subject_id": "x"}
    statuses = [door.post(sale, "till").status for _ in range(4)]
    assert statuses == [201, 201, 201, 429]
    assert door.post(sale, "till").code == "rate_limited"
    assert door.post(event()).status == 201  # the other producer is not held up


def test_what_a_client_sends_cannot_forge_the_log_or_the_answer(door: Door) -> None:
    nasty = "\x1b[31m\r\nHTTP/1.1 200 OK\r\n\r\n{}"
    reply = door.post(event(nasty, **{nasty: 1}))
    assert reply.code == "invalid_event"
    assert door.post(event(nasty, payload={nasty: nasty})).status == 201
    assert door.subjects() == [nasty]
    log = door.gateway.log_text()
    assert log.isascii()
    assert b"\x1b" not in log
    assert all(json.loads(line) for line in log.splitlines())


def test_health_readiness_and_counts_are_shown(door: Door) -> None:
    door.results(event("a"), event("b", colour=1))
    assert door.gateway.ask("GET", "/healthz").body == {"ok": True}
    assert door.gateway.ask("GET", "/readyz").body == {"ready": True, "reasons": []}
    metrics = door.gateway.ask("GET", "/metrics")
    assert isinstance(metrics.body, str)
    lines = metrics.body.splitlines()
    assert "veen_gateway_recorded_total 1" in lines
    assert "veen_gateway_refused_total 1" in lines
    assert "veen_gateway_pending 0" in lines
    assert 'veen_gateway_requests_total{status="200"} 3' in lines
