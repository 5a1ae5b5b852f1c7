"""C11 for the gateway: garbage gets a 4xx or is hung up on, and the process lives on."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.test_http_garbage import statuses
from tests.recorder.conftest import MakeCast
from tests.support import gateways
from tests.support.gateways import EVENTS, Gateway, Publisher, token_of
from tests.support.live_hub import LiveHub

Scaled = Callable[[int, int], int]
EVENT = {"event_type": "http.request", "subject_id": "a", "payload": {"n": [1, 2.5, "x"]}}
PIECES = [
    b"\r\n", b"\n", b"\x00", b":", b" ", b"\xff", b"Content-Length: 5\r\n", b"{", b"}", b'"', b"[",
    b"Transfer-Encoding: chunked\r\n", b"Host: x\r\n", b"HTTP/9.9", b"0\r\n\r\n", b"1e999", b"\\u",
    b"Expect: 100-continue\r\n", b"Authorization: Bearer x\r\n", b'"events":', b"null,",
]  # fmt: skip


@pytest.fixture
def gateway(hub: LiveHub, make_cast: MakeCast, tmp_path: Path) -> Iterator[Gateway]:
    """The same process to the end, which then still records."""
    Publisher(tmp_path).publish(make_cast(hub))
    with gateways.running(tmp_path) as running:
        yield running
        assert running.process.poll() is None
        assert running.post(EVENT, token=token_of("shop")).status == 201
        lines = [json.loads(line) for line in running.log_text().splitlines()]
        assert not [one for one in lines if one["level"] in ("error", "critical")], lines


def exchange(gateway: Gateway, data: bytes) -> list[int]:
    """The statuses that these bytes get, after which our side is closed."""
    where = urlsplit(gateway.url)
    received = b""
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=20) as link:
        with contextlib.suppress(OSError):
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := link.recv(65536):
                received += part
    return statuses(received)


def post(body: bytes, path: str = EVENTS) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token_of('shop')}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def test_random_bytes_are_refused_or_hung_up_on(
    gateway: Gateway, rng: random.Random, scaled: Scaled
) -> None:
    for _ in range(scaled(200, 20_000)):
        data = rng.randbytes(rng.choice([1, 10, 100, 5000]))
        assert all(400 <= status < 500 for status in exchange(gateway, data)), data
        body = post(rng.randbytes(rng.choice([0, 1, 10, 500])))
        assert exchange(gateway, body) == [400], body


def test_mutated_requests_are_never_our_fault(
    gateway: Gateway, rng: random.Random, scaled: Scaled
) -> None:
    good = post(json.dumps({"events": [EVENT, {**EVENT, "idempotency_key": "k"}]}).encode())
    seen: set[int] = set()
    for _ in range(scaled(400, 20_000)):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif action == 1:
                data[at:at] = rng.choice(PIECES)
            elif action == 2:
                del data[at : at + rng.randint(1, 40)]
            else:
                del data[at:]
            data = data or bytearray(b"P")
        found = exchange(gateway, bytes(data))
        assert all(status < 500 for status in found), bytes(data)
        seen |= set(found)
    assert {400, 401} <= seen
