"""An adapter as the command starts it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.connections import Cast
from tests.support.live_hub import ROOT, START_S


@dataclass(frozen=True)
class Adapter:
    """Its ports, by name."""

    ports: dict[str, int]
    pid: int


@contextmanager
def running(cast: Cast, folder: Path, *flags: str) -> Iterator[Adapter]:
    """`veen recorder adapter ...` for the length of a block; it must end well."""
    command = [
        sys.executable, "-m", "config.cli", "recorder", "adapter", *flags,
        "--connection", str(cast.write(folder)), "--spool-dir", str(folder / "spool"), "--json",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        try:
            assert process.stdout is not None
            readable, _, _ = select.select([process.stdout], [], [], START_S)
            assert readable, "the adapter did not get ready"
            said = json.loads(process.stdout.readline())
            ports = {name: said[name] for name in ("udp", "tcp", "port") if name in said}
            yield Adapter(ports, process.pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            if process.poll() is None:
                process.kill()
