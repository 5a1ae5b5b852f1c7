"""`veen bench hub`: HTTP, disk and proofs beside the crypto alone [interfaces, Benchmarks]."""

from __future__ import annotations

import http.client
import itertools
import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter
from typing import Any

from hub.bench import sockets, wrk
from hub.bench.live import LiveHub, post
from hub.bench.messages import ceiling_per_s, label_of, messages
from hub.bench.sockets import percentile

BATCH = 128
BATCH_CONNECTIONS = 16
SMALL, LARGE = 1_000, 100_000
CBOR, CBOR_SEQ = "application/cbor", "application/cbor-seq"

Say = Callable[[str], None]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    total = LARGE if quick else 10 * LARGE
    with tempfile.TemporaryDirectory(prefix="veen-bench-") as scratch:
        folder = Path(scratch)
        say("ceiling")
        ceilings = [ceiling_per_s(8_000 if quick else 20_000)]
        with LiveHub(folder / "data") as hub:
            say("single submits")
            single = _single(hub, folder, 4 if quick else 15, ceilings[0])
            ceilings.append(ceiling_per_s(8_000 if quick else 20_000))
            say("p99 at half load")
            half = _half_load(hub, single.per_s * 0.5, 4 if quick else 20)
            say("a lone client")
            lone = _lone(hub, 200)
            say("batches")
            batch_per_s, rss = _batches(hub, total, say)
            ceilings.append(ceiling_per_s(8_000 if quick else 20_000))
            say("proofs")
            proofs = _proofs(hub, 300)
            status = hub.status()
        say("restart")
        with LiveHub(folder / "data") as again:
            restart_s, entries = again.start_s, again.status()["messages"]
    ceiling = sorted(ceilings)[1]
    return {
        "name": "hub",
        "quick": quick,
        "messages": entries,
        "load_generator": single.generator,
        "ceiling_per_s": round(ceiling),
        "submit_per_s": round(single.per_s),
        "submit_refused": single.refused,
        "submit_p50_ms": round(single.p50_ms, 2),
        "submit_p99_ms": round(single.p99_ms, 2),
        "batch_per_s": round(batch_per_s),
        "batch": BATCH,
        "batch_connections": BATCH_CONNECTIONS,
        "submit_ratio": round(single.per_s / ceiling, 3),
        "batch_ratio": round(batch_per_s / ceiling, 3),
        "p99_ms_at_half_load": round(half.p99_ms, 2),
        **lone,
        **proofs,
        "durable": {"fsyncs": status["fsyncs"], "messages": status["messages"]},
        "writer_rss_mib": rss,
        "restart_s": round(restart_s, 2),
    }


def _single(hub: LiveHub, folder: Path, seconds: int, ceiling: float) -> wrk.Load:
    """64 connections, one MSG each; there are more messages than two cores can verify."""
    count = int(ceiling * 2 * seconds)
    bodies = messages(count, label=label_of("single"), clients=1024)
    if not wrk.is_installed():
        return sockets.closed_loop(hub.host, hub.port, list(itertools.islice(bodies, count // 4)))
    path = folder / "bodies"
    wrk.write_bodies(path, bodies)
    try:
        return wrk.run(hub.url, path, folder, seconds)
    finally:
        path.unlink()


def _half_load(hub: LiveHub, per_s: float, seconds: int) -> wrk.Load:
    bodies = list(messages(int(per_s * seconds), label=label_of("half"), clients=1024))
    return sockets.open_loop(hub.host, hub.port, bodies, per_s)


def _lone(hub: LiveHub, count: int) -> dict[str, float]:
    """One client, one message at a time, beside what the disk alone takes to sync."""
    connection = hub.connection()
    took = []
    for body in messages(count, label=label_of("lone"), clients=1):
        started = perf_counter()
        post(connection, body, CBOR)
        took.append(perf_counter() - started)
    connection.close()
    syncs = _fsync_times(hub.data_dir, count)
    return {
        "lone_ms": round(percentile(sorted(took), 50) * 1000, 2),
        "lone_p99_ms": round(percentile(sorted(took), 99) * 1000, 2),
        "fsync_ms": round(percentile(syncs, 50) * 1000, 2),
    }


def _fsync_times(folder: Path, count: int) -> list[float]:
    path = folder / "fsync.probe"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    took = []
    try:
        for number in range(count):
            os.pwrite(fd, os.urandom(1024), number * 1024)
            started = perf_counter()
            os.fdatasync(fd)
            took.append(perf_counter() - started)
    finally:
        os.close(fd)
        path.unlink()
    return sorted(took)


def _batches(hub: LiveHub, total: int, say: Say) -> tuple[float, list[int]]:
    """Batches of 128 over sixteen connections, until one label has `total` leaves."""
    connection = hub.connection()
    small = list(messages(SMALL, label=label_of("small"), clients=4))
    post(connection, b"".join(small), CBOR_SEQ)
    connection.close()
    per_round = LARGE // 4
    spent, rss = 0.0, [hub.writer_rss_bytes() // 2**20]
    for done in range(0, total, per_round):
        spent += _batch_round(hub, per_round, f"{done}")
        if (done + per_round) % LARGE == 0:
            rss.append(hub.writer_rss_bytes() // 2**20)
            say(f"batches: {done + per_round} messages, writer {rss[-1]} MiB")
    return total / spent, rss


def _batch_round(hub: LiveHub, count: int, salt: str) -> float:
    """One timed round: messages are signed before the clock starts, senders are processes."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(BATCH_CONNECTIONS + 1)
    share, more = divmod(count, BATCH_CONNECTIONS)
    senders = [
        context.Process(
            target=_send_batches, args=(hub.host, hub.port, share + (number < more), barrier)
        )
        for number in range(BATCH_CONNECTIONS)
    ]
    for sender in senders:
        sender.start()
    barrier.wait(120)
    started = perf_counter()
    for sender in senders:
        sender.join()
        assert sender.exitcode == 0, f"sender of round {salt} failed"
    return perf_counter() - started


def _send_batches(host: str, port: int, count: int, barrier: Barrier) -> None:
    bodies = [b"".join(part) for part in _parts(count)]
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.connect()
    barrier.wait(120)
    for body in bodies:
        post(connection, body, CBOR_SEQ)
    connection.close()
    os._exit(0)  # nothing to clean up, and the clock is running


def _parts(count: int) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    for body in messages(count, label=label_of("large"), clients=1):
        part.append(body)
        if len(part) == BATCH:
            yield part
            part = []
    if part:
        yield part


def _proofs(hub: LiveHub, count: int) -> dict[str, float]:
    """The same question to a small and a large label, in turn."""
    connection = hub.connection()
    dice = random.Random(7)  # noqa: S311 - which proofs are asked for is no secret
    took: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(count):
        for name, size in (("small", SMALL), ("large", LARGE)):
            path = f"/proof?label={label_of(name).hex()}&seq={dice.randint(1, size)}&size={size}"
            started = perf_counter()
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            took[name].append(perf_counter() - started)
    connection.close()
    small, large = (percentile(sorted(took[name]), 50) * 1000 for name in ("small", "large"))
    return {
        "proof_ms_at_1e3": round(small, 3),
        "proof_ms_at_1e5": round(large, 3),
        "proof_flatness": round(large / small, 2),
    }
