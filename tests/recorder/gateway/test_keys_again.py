"""An idempotency key's first answer holds, whatever has become of streams and bounds since."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recorder.conftest import MakeCast
from tests.support import gateways
from tests.support.connections import Cast
from tests.support.gateways import Gateway, Publisher, token_of
from tests.support.live_hub import LiveHub


class Door:
    """A gateway whose streams can change."""

    def __init__(self, gateway: Gateway, publisher: Publisher, cast: Cast) -> None:
        self.gateway = gateway
        self.publisher = publisher
        self.cast = cast
        self.first, self.second = cast.types

    def post(self, **more: object) -> gateways.Reply:
        found = {"event_type": "http.request", "subject_id": "a", "idempotency_key": "k", **more}
        return self.gateway.post(found, token=token_of("shop"))

    def move(self) -> None:
        """The event type goes to the second stream from now on."""
        types = {self.first: (), self.second: ("http.request",)}
        moved = replace(self.cast, types=types)
        moved.readers = self.cast.readers
        self.publisher.publish(moved)


@pytest.fixture
def door(hub: LiveHub, make_cast: MakeCast, tmp_path: Path) -> Iterator[Door]:
    cast = make_cast(hub)
    publisher = Publisher(tmp_path)
    publisher.publish(cast)
    with gateways.running(tmp_path) as gateway:
        yield Door(gateway, publisher, cast)


def test_after_a_move_a_repeated_key_names_the_stream_where_its_event_is(
    door: Door, hub: LiveHub
) -> None:
    first = door.post()
    named = door.post(idempotency_key="l", stream=door.first)
    door.move()
    again = door.post()
    assert (first.status, again.status, again.body) == (201, 200, first.body)
    asked = door.post(idempotency_key="l", stream=door.first)
    assert (asked.status, asked.body) == (200, named.body)
    assert door.post(idempotency_key="new", stream=door.first).code == "wrong_stream"
    assert door.post(subject_id="b").code == "idempotency_conflict"
    assert door.post(idempotency_key="new").body["stream"] == door.second
    assert len(door.cast.events(hub.url, door.first)) == 2


def test_a_lowered_bound_and_a_lost_stream_change_no_first_answer(door: Door) -> None:
    first = door.post(payload="x" * 500)
    door.publisher.event_bytes_max = 200
    door.publisher.publish(door.cast)
    assert door.post(payload="x" * 500).body == first.body
    too_large = door.post(payload="x" * 500, idempotency_key="new")
    assert too_large.code == "event_too_large"
    assert too_large.body["details"][0]["pointer"] == "/payload"
    lost = replace(door.cast, types={door.second: ("login.ok",), door.first: ()})
    lost.readers = door.cast.readers
    door.publisher.publish(lost)
    assert door.post(payload="x" * 500).body == first.body
