"""Requests by wrk, each body once: by default 64 connections of submits [interfaces]."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONNECTIONS: Final = 64
_CBOR: Final = {"Content-Type": "application/cbor"}
_SCRIPT: Final = """
local bodies, position = {}, 0  -- wrk asks for one request before the run and drops it
wrk.method = "POST"
wrk.path = os.getenv("VEEN_BENCH_PATH")
for name, value in os.getenv("VEEN_BENCH_HEADERS"):gmatch("([^:\\n]+): ([^\\n]+)") do
  wrk.headers[name] = value
end
function setup(thread) thread:set("file", os.getenv("VEEN_BENCH_BODIES")) end
function init(args)
  local input = io.open(file, "rb")
  while true do
    local head = input:read(4)
    if not head then break end
    local a, b, c, d = head:byte(1, 4)
    bodies[#bodies + 1] = wrk.format(nil, nil, nil, input:read(((a * 256 + b) * 256 + c) * 256 + d))
  end
  input:close()
end
function request()
  position = position + 1
  return bodies[math.max(1, position - 1)] or error("more requests than messages")
end
function done(summary, latency, requests)
  io.write(string.format('\\nVEEN {"requests": %d, "us": %d, "status": %d, ',
    summary.requests, summary.duration, summary.errors.status))
  io.write(string.format('"p50_us": %d, "p99_us": %d}\\n',
    latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a closed loop of connections achieved."""

    generator: str
    ok: int
    refused: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_s(self) -> float:
        """Receipts per second."""
        return self.ok / self.seconds


def _binary() -> str:
    return shutil.which("wrk") or ""


def is_installed() -> bool:
    """Whether wrk is on PATH."""
    return bool(_binary())


def write_bodies(path: Path, bodies: Iterable[bytes]) -> None:
    """u32be length and MSG, one after the other."""
    with path.open("wb") as out:
        for body in bodies:
            out.write(struct.pack(">I", len(body)) + body)


def run(
    url: str,
    bodies: Path,
    folder: Path,
    seconds: int,
    *,
    path: str = "/submit",
    headers: Mapping[str, str] = _CBOR,
    connections: int = CONNECTIONS,
) -> Load:
    """Send each body at most once over the connections of one thread, for `seconds`."""
    script = folder / "post.lua"
    script.write_text(_SCRIPT, "utf-8")
    done = subprocess.run(  # noqa: S603 - our own arguments
        [_binary(), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url],
        check=True,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "VEEN_BENCH_BODIES": str(bodies),
            "VEEN_BENCH_PATH": path,
            "VEEN_BENCH_HEADERS": "\n".join(f"{name}: {text}" for name, text in headers.items()),
        },
    )
    line = next(row for row in done.stdout.splitlines() if row.startswith("VEEN "))
    said = json.loads(line.removeprefix("VEEN "))
    return Load(
        generator="wrk",
        ok=said["requests"] - said["status"],
        refused=said["status"],
        seconds=said["us"] / 1e6,
        p50_ms=said["p50_us"] / 1000,
        p99_ms=said["p99_us"] / 1000,
    )
