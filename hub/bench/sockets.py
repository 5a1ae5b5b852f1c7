"""Load by sockets of our own: an open and a closed loop [interfaces, Benchmarks]."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from dataclasses import dataclass, field
from time import perf_counter

import uvloop

from hub.bench.wrk import CONNECTIONS, Load

_DRAIN_S = 10


@dataclass(slots=True)
class _Tally:
    ok: int = 0
    refused: int = 0
    latencies_s: list[float] = field(default_factory=list)


class _Connection(asyncio.Protocol):
    """One keep-alive connection: a request at a time, answers timed from when they were due."""

    def __init__(self, tally: _Tally, idle: deque[_Connection], freed: asyncio.Event) -> None:
        self._tally = tally
        self._idle = idle
        self._freed = freed
        self._buffer = b""
        self._due = 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._idle.append(self)

    def send(self, request: bytes, due: float) -> None:
        self._due = due
        assert self.transport is not None
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end].lower()
        at = head.find(b"content-length: ") + 16
        length = int(head[at : head.find(b"\r", at) if head.find(b"\r", at) > 0 else None])
        if len(self._buffer) < head_end + 4 + length:
            return
        self._tally.latencies_s.append(perf_counter() - self._due)
        if head.startswith(b"http/1.1 200"):
            self._tally.ok += 1
        else:
            self._tally.refused += 1
        self._buffer = b""
        self._idle.append(self)
        self._freed.set()


def request_of(host: str, body: bytes) -> bytes:
    """One submit as it goes over the wire."""
    head = f"POST /submit HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/cbor\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def open_loop(host: str, port: int, bodies: list[bytes], per_s: float) -> Load:
    """Send at a fixed rate, whatever the answers do; latency counts from the due time."""
    return uvloop.run(_drive(host, port, bodies, per_s))


def closed_loop(host: str, port: int, bodies: list[bytes]) -> Load:
    """Every connection sends its next message when it has the answer to the last."""
    return uvloop.run(_drive(host, port, bodies, None))


async def _drive(host: str, port: int, bodies: list[bytes], per_s: float | None) -> Load:
    tally, idle, freed = _Tally(), deque[_Connection](), asyncio.Event()
    loop = asyncio.get_running_loop()
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: _Connection(tally, idle, freed), host, port)
    connections = list(idle)
    requests = [request_of(f"{host}:{port}", body) for body in bodies]
    started = perf_counter()
    for number in itertools.count():
        if number == len(requests):
            break
        due = started + number / per_s if per_s else perf_counter()
        await _wait_until(due)
        while not idle:
            freed.clear()
            await freed.wait()
        idle.popleft().send(requests[number], due if per_s else perf_counter())
    deadline = perf_counter() + _DRAIN_S
    while len(tally.latencies_s) < len(requests) and perf_counter() < deadline:
        freed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(freed.wait(), 0.1)
    seconds = perf_counter() - started
    for connection in connections:
        assert connection.transport is not None
        connection.transport.close()
    ordered = sorted(tally.latencies_s)
    return Load(
        generator="sockets",
        ok=tally.ok,
        refused=tally.refused,
        seconds=seconds,
        p50_ms=percentile(ordered, 50) * 1000,
        p99_ms=percentile(ordered, 99) * 1000,
    )


async def _wait_until(due: float) -> None:
    ahead = due - perf_counter()
    if ahead > 0.0005:
        await asyncio.sleep(ahead)
    else:
        await asyncio.sleep(0)


def percentile(ordered: list[float], share: int) -> float:
    """The value below which `share` percent of an ordered list lie."""
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]
