"""Garbage over HTTP (C11): deterministic 4xx, never 5xx, bounded memory, the process lives."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.crypto.signing import SigningKey
from hub.server.config import HubConfig
from hub.types import Label
from hub.wire.captoken import CapToken
from tests.support import live_hub
from tests.support.live_hub import CBOR, CBOR_SEQ, ISSUER, Author, LiveHub

Scaled = Callable[[int, int], int]
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
ROUTES = [
    "/stream", "/receipt", "/proof", "/consistency", "/range_proof", "/head", "/checkpoint",
    "/checkpoint_latest", "/checkpoint_range", "/manifest", "/manifest_latest", "/attachment/",
    "/rotations", "/profile", "/healthz", "/readyz", "/metrics",
]  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("garbage") / "d",
        open_admission=True,
        open_reads=True,
        trusted_issuers=frozenset({ISSUER.public}),
        workers=2,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture(autouse=True)
def _lives_on(hub: LiveHub) -> Iterator[None]:
    """After each test: the same processes, a working door, and nothing that failed inside."""
    workers = hub.workers()
    yield
    assert hub.process.poll() is None
    assert hub.workers() == workers
    client = hub.client()
    Author(Label(b"z" * 32)).send(client)
    client.close()
    assert not [line for line in hub.log_lines() if "failed" in line or "Traceback" in line]


def exchange(hub: LiveHub, data: bytes) -> bytes:
    """Everything the hub says to these bytes, after which our side is closed."""
    received = b""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as link:
        with contextlib.suppress(OSError):
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while part := link.recv(65536):
                received += part
    return received


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in STATUS.findall(answer)]


def post(path: str, body: bytes, media: str = "application/cbor") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {media}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_random_bytes_are_refused_or_hung_up_on(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    for _ in range(scaled(300, 20_000)):
        answer = exchange(hub, rng.randbytes(rng.choice([1, 10, 100, 5000])))
        assert all(400 <= status < 500 for status in statuses(answer)), answer[:200]


def test_mutated_requests_get_one_answer_each_and_the_same_twice(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    good = post("/submit", Author(Label(b"g" * 32)).next()) + post("/authorize", b"\xa0")
    tokens = [b"\r\n", b"\n", b"\x00", b":", b" ", b"\xff", b"Content-Length: 5\r\n",
              b"Transfer-Encoding: chunked\r\n", b"Host: x\r\n", b"HTTP/9.9", b"0\r\n\r\n",
              b"Expect: 100-continue\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n"]  # fmt: skip
    for _ in range(scaled(400, 20_000)):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif action == 1:
                data[at:at] = rng.choice(tokens)
            elif action == 2:
                del data[at : at + rng.randint(1, 40)]
            else:
                del data[at:]
            data = data or bytearray(b"G")
        first = statuses(exchange(hub, bytes(data)))
        second = statuses(exchange(hub, bytes(data)))
        assert all(status < 500 for status in first), bytes(data)
        # A MSG that got through is a duplicate the second time; everything else is the same.
        assert [409 if status == 200 else status for status in first] == second, bytes(data)


def test_every_flipped_bit_of_a_message_is_a_4xx(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    client = hub.client()
    msg = Author(Label(b"b" * 32)).draft().encode()
    bits = rng.sample(range(8 * len(msg)), scaled(400, 8 * len(msg)))
    for bit in bits:
        flipped = bytearray(msg)
        flipped[bit // 8] ^= 1 << (bit % 8)
        reply = client.submit(bytes(flipped))
        assert reply.status in {400, 409, 413}, bit
        assert reply.code in {"E.FORMAT", "E.SIZE", "E.PROFILE", "E.SIG"}, bit


def bombs() -> dict[str, bytes]:
    """Small bodies that ask for much."""
    return {
        "arrays in arrays": b"\x81" * 60_000,
        "maps in maps": b"\xa1\x01" * 30_000,
        "indefinite arrays": b"\x9f" * 60_000,
        "4 GiB of bytes": b"\x5a\xff\xff\xff\xff",
        "2^64 bytes": b"\x5b" + b"\xff" * 8,
        "4 GiB of text": b"\x7a\xff\xff\xff\xff",
        "an array of 2^32": b"\x9a\xff\xff\xff\xff",
        "an array of 2^64": b"\x9b" + b"\xff" * 8,
        "a map of 2^32": b"\xba\xff\xff\xff\xff",
        "a MSG with a huge profile": b"\x8a\x01\x5a\xff\xff\xff\xff",
        "a token with 2^32 streams": b"\xa5\x01\x01\x02\x58\x20" + bytes(32) + b"\x03\x58\x20"
        + bytes(32) + b"\x04\xa2\x01\x9a\xff\xff\xff\xff",
        "duplicate keys": b"\xa2\x01\x01\x01\x01",
        "keys out of order": b"\xa2\x02\x01\x01\x01",
        "tags": b"\xc1" * 60_000 + b"\x00",
        "a float": b"\xfb" + bytes(8),
        "undefined": b"\xf7",
        "many empty arrays": b"\x80" * 60_000,
        "many breaks": b"\xff" * 60_000,
    }  # fmt: skip


def rss_bytes(hub: LiveHub) -> int:
    pids = [hub.process.pid, *hub.workers()]
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids]
    return max(pages) * 4096


@pytest.mark.parametrize("path", ["/submit", "/authorize", "/report_equivocation"])
def test_cbor_bombs_cost_nothing(hub: LiveHub, path: str) -> None:
    client = hub.client()
    before = rss_bytes(hub)
    for name, body in bombs().items():
        for headers in (CBOR, CBOR_SEQ):
            reply = client.ask("POST", path, body, headers)
            if path == "/submit" and headers is CBOR_SEQ and reply.status == 200:
                assert all(live_hub.code_of(item) == "E.FORMAT" for item in reply.items()), name
                continue
            assert reply.status in {400, 413}, name
            assert reply.code in {"E.FORMAT", "E.SIZE"}, name
    assert rss_bytes(hub) - before < 64 * 1024 * 1024


@pytest.mark.parametrize(
    "head",
    [
        b"GET /profile HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 30_000 + b"\r\n\r\n",
        b"GET /profile HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /profile HTTP/1.1\r\nHost: h\r\n" + b"a" * 200_000,
        b"G" * 200_000,
    ],
    ids=["value", "count", "target", "name", "method"],
)
def test_huge_heads_are_refused_while_they_arrive(hub: LiveHub, head: bytes) -> None:
    found = statuses(exchange(hub, head))
    assert found in ([413], [400])


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /profile HTTP/1.1\r\n\r\n",
        b"GET /profile HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /profile HTTP/2.0\r\nHost: h\r\n\r\n",
        b"POST /submit HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n\x00",
        b"POST /submit HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /submit HTTP/1.1\r\nHost: h\r\nContent-Length: 0x10\r\n\r\n",
        (
            b"POST /submit HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        b"POST /submit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /submit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET http:// HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /profile HTTP/1.1\nHost: h\n\n",
        b"GET /profile HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n",
    ],
)
def test_what_two_servers_could_read_differently_is_refused(hub: LiveHub, request_: bytes) -> None:
    found = statuses(exchange(hub, request_))
    assert len(found) == 1, found
    assert 400 <= found[0] < 500


def test_a_request_cut_anywhere_is_never_half_served(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    msg = Author(Label(b"t" * 32)).draft()
    whole = post("/submit", msg.encode())
    cuts = sorted(rng.sample(range(1, len(whole)), scaled(60, len(whole) - 1)))
    for cut in cuts:
        found = statuses(exchange(hub, whole[:cut]))
        assert all(400 <= status < 500 for status in found), cut
    leaf = msg.leaf_hash().hex()
    assert hub.client().get(f"/receipt?leaf_hash={leaf}").status == 404


def test_random_queries_are_4xx(hub: LiveHub, rng: random.Random, scaled: Scaled) -> None:
    client = hub.client()
    label = Label(b"q" * 32)
    Author(label).send(client)
    names = ["label", "seq", "from", "to", "size", "limit", "upto", "with_proof", "id", "leaf_hash",
             "epoch_min", "epoch_max", "from_size", "to_size", "at", "from_label", "x"]  # fmt: skip
    values = [label.hex(), "0", "1", "2", "-1", "", "%00", "%ff", "a" * 64, "0" * 64, "1" * 400,
              "18446744073709551615", "18446744073709551616", "1e9", "%2e%2e%2f", "%c3%a9",
              "null", "1&seq=1", "[]"]  # fmt: skip
    for _ in range(scaled(1500, 50_000)):
        pairs = [f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randint(0, 5))]
        path = rng.choice(ROUTES) + rng.choice(["", "", "x", "0" * 64])
        reply = client.get(path + "?" + "&".join(pairs))
        assert reply.status < 500, (path, pairs)
        if reply.status != 200:
            assert reply.code in {"E.FORMAT", "E.NOTFOUND"}, (path, pairs)


@pytest.mark.slow
def test_slow_heads_do_not_stop_others_and_are_cut(hub: LiveHub) -> None:
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", hub.port), timeout=20))
            for _ in range(200)
        ]
        for link in slow:
            link.sendall(b"POST /submit HTTP/1.1\r\nHost: h")
        client, author = hub.client(), Author(Label(b"z" * 32))
        started = time.monotonic()
        while time.monotonic() - started < 3:
            begun = time.monotonic()
            author.send(client)
            assert time.monotonic() - begun < 2
            for link in slow[:20]:
                with contextlib.suppress(OSError):
                    link.sendall(b"x")  # a byte now and then must not buy more time
        for link in slow:
            answer = b""
            with contextlib.suppress(ConnectionError):
                while part := link.recv(4096):
                    answer += part
            assert all(400 <= status < 500 for status in statuses(answer))
        assert time.monotonic() - started < 20


def test_many_small_garbage_requests_on_one_connection(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    client = hub.client()
    for _ in range(scaled(500, 20_000)):
        body = rng.randbytes(rng.randint(0, 300))
        path = rng.choice(["/submit", "/authorize", "/report_equivocation"])
        reply = client.ask("POST", path, body, CBOR)
        assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_random_tokens_and_receipts_never_hit_a_5xx(
    hub: LiveHub, rng: random.Random, scaled: Scaled
) -> None:
    client = hub.client()
    token = CapToken.issue(
        ISSUER, subject_pk=SigningKey.generate().public, stream_ids=[bytes(32)], ttl=9
    ).encode()
    receipt = Author(Label(b"z" * 32)).send(client).encode()
    for path, good in (("/authorize", token), ("/report_equivocation", b"\x82" + receipt * 2)):
        for _ in range(scaled(300, 10_000)):
            data = bytearray(good)
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            reply = client.ask("POST", path, bytes(data), CBOR)
            assert reply.status in {200, 400, 403, 409, 413}, bytes(data)
