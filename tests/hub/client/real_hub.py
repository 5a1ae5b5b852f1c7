"""A hub in its own process, started by the real command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hub.types import PublicKey


@dataclass(frozen=True)
class RealHub:
    """A running hub; `process` may be killed by a test."""

    data_dir: Path
    url: str
    hub_pk: PublicKey
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def running_hub(root: Path, *flags: str, port: int = 0) -> Iterator[RealHub]:
    """Start a hub on root/data and wait for its one line; stop it at the end."""
    command = [sys.executable, "-m", "config.cli", "hub", "start", "--port", str(port)]
    command += ["--data-dir", str(root / "data"), "--workers", "1", *flags]
    log = (root / "log").open("ab")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        assert process.stdout is not None
        words = process.stdout.readline().decode().split()
        assert words[:2] == ["hub", "ready"], (root / "log").read_text()
        said = dict(word.split("=", 1) for word in words[2:])
        try:
            yield RealHub(
                data_dir=root / "data",
                url=said["url"],
                hub_pk=PublicKey(bytes.fromhex(said["hub_pk"])),
                process=process,
            )
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
