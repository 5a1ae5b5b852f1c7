"""`veen bench record`: SDK and gateway beside what their parts cost [interfaces, Benchmarks]."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hub.bench import wrk
from hub.errors import ErrorCode, VeenError
from recorder.bench.ground import Ground, event
from recorder.bench.parts import Parts

CORES: Final = 2
BATCH: Final = 100
CONNECTIONS: Final = 8
EVENTS: Final = "/api/record/events"
_ROOT: Final = Path(__file__).resolve().parents[2]

Say = Callable[[str], None]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    events = 30_000 if quick else 200_000
    seconds = 6 if quick else 30
    parts = Parts()
    with tempfile.TemporaryDirectory(prefix="veen-bench-") as scratch:
        ground = Ground(Path(scratch))
        try:
            say("part costs")
            parts.measure(2_000)
            say("SDK")
            sdk = [_sdk(ground, events, number) for number in range(1 if quick else 3)]
            say("part costs")
            parts.measure(2_000)
            say("gateway")
            gateway = _gateway(ground, seconds, parts)
            say("part costs")
            parts.measure(2_000)
        finally:
            ground.hub.close()
    costs = parts.costs_us()
    possible = CORES * 1e6 / sum(costs.values())
    sdk_per_s = statistics.median(one["per_s"] for one in sdk)
    return {
        "name": "record",
        "quick": quick,
        "cores": CORES,
        "events": events,
        "batch": BATCH,
        "load_generator": gateway["generator"],
        "part_costs_us": costs,
        "possible_per_s": round(possible),
        "sdk_per_s": round(sdk_per_s),
        "sdk_ratio": round(sdk_per_s / possible, 3),
        "gateway_per_s": round(gateway["per_s"]),
        "gateway_ratio": round(gateway["per_s"] / possible, 3),
        "gateway_p50_ms": round(gateway["p50_ms"], 1),
        "enqueue_per_s": round(statistics.median(one["enqueue_per_s"] for one in sdk)),
        "cpu_us_per_event": {"sdk": sdk[-1]["cpu_us"], "gateway": gateway["cpu_us"]},
    }


def _sdk(ground: Ground, events: int, number: int) -> dict[str, Any]:
    """A service of its own that records and waits until everything is in the log."""
    path = ground.connection_file(f"sdk-{number}")
    before = ground.messages()
    pids = ground.hub_pids()
    hub_cpu = sum(map(_cpu_s, pids))
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "recorder.bench.service", str(path), str(events)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    hub_cpu = sum(map(_cpu_s, pids)) - hub_cpu
    if ground.messages() - before < events:
        raise VeenError(ErrorCode.INTERNAL, "events are missing from the log")
    found["cpu_us"] = {
        "producer": round(found["cpu_s"] / events * 1e6),
        "hub": round(hub_cpu / events * 1e6),
    }
    return found


def _gateway(ground: Ground, seconds: int, parts: Parts) -> dict[str, Any]:
    """Batches of 100 over a few connections, until the time is over."""
    token = secrets.token_hex(16)
    most = int(CORES * 1e6 / sum(parts.costs_us().values()) * (seconds + 2) / BATCH)
    bodies = [
        json.dumps({"events": [event(number * BATCH + one) for one in range(BATCH)]}).encode()
        for number in range(most)
    ]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with ground.gateway(token) as (url, pid):
        _post(url, headers, bodies[:1])  # the first event of a key waits for its authority
        pids = [pid, *ground.hub_pids()]
        cpu = [_cpu_s(one) for one in pids]
        before, started = ground.messages(), time.perf_counter()
        if wrk.is_installed():
            load = _by_wrk(ground.folder, url, bodies[1:], headers, seconds)
            generator, p50_ms = "wrk", load.p50_ms
        else:
            p50_ms = _post(url, headers, bodies[1:], seconds=seconds)
            generator = "sockets"
        took = time.perf_counter() - started
        recorded = ground.messages() - before
        spent = [_cpu_s(one) - was for one, was in zip(pids, cpu, strict=True)]
    return {
        "generator": generator,
        "per_s": recorded / took,
        "p50_ms": p50_ms,
        "cpu_us": {
            "gateway": round(spent[0] / recorded * 1e6),
            "hub": round(sum(spent[1:]) / recorded * 1e6),
        },
    }


def _by_wrk(
    folder: Path, url: str, bodies: Sequence[bytes], headers: dict[str, str], seconds: int
) -> wrk.Load:
    path = folder / "bodies"
    wrk.write_bodies(path, bodies)
    load = wrk.run(
        url, path, folder, seconds, path=EVENTS, headers=headers, connections=CONNECTIONS
    )
    path.unlink()
    return load


def _post(
    url: str, headers: dict[str, str], bodies: Sequence[bytes], *, seconds: float = 60.0
) -> float:
    """Post every body, or as many as fit the time; returns the median of the waits in ms."""
    waits: list[float] = []
    line = iter(bodies)
    guard = threading.Lock()
    end = time.perf_counter() + seconds
    where = urlsplit(url)

    def work() -> None:
        assert where.hostname is not None
        link = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        while time.perf_counter() < end:
            with guard:
                body = next(line, None)
            if body is None:
                break
            started = time.perf_counter()
            link.request("POST", EVENTS, body, headers)
            answer = link.getresponse()
            data = answer.read()
            if answer.status != 200 or b"error_code" in data:
                raise VeenError(ErrorCode.INTERNAL, f"{answer.status}: {data[:200]!r}")
            waits.append((time.perf_counter() - started) * 1000)
        link.close()

    threads = [threading.Thread(target=work) for _ in range(min(CONNECTIONS, len(bodies)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statistics.median(waits)


def _cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
