"""`veen hub start`: what it prints when it is ready, and which flags change what it serves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def started(root: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """The foreground hub of a command line; stopped at the end."""
    command = [sys.executable, "-m", "config.cli", "hub", "start", "--port", "0"]
    command += ["--data-dir", str(root / "data"), "--workers", "1", *flags]
    log = (root / "log").open("ab")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def test_json_prints_exactly_one_document(tmp_path: Path) -> None:
    with started(tmp_path, "--json") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        kept = json.loads((tmp_path / "data" / "hub.json").read_bytes())
        assert said == {name: kept[name] for name in ("url", "hub_pk", "hub_id", "pid")}
        assert said["pid"] == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
