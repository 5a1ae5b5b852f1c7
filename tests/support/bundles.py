"""A running `veen up` with everything it says, and the `veen` command beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from config.settings_file import Settings
from config.up_processes import ORDER, chosen
from config.up_state import StateDir

PROCESSES = [name for name in ORDER if name in chosen(Settings(run_worker=False))]


def environment() -> dict[str, str]:
    """Without the worker, whose Java takes longer than everything else together."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VEEN_", "DJANGO_"))}
    return {**kept, "VEEN_RUN_WORKER": "0"}


def veen(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "config.cli", *arguments]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=90
    )


class Up:
    """One running `veen up` and everything it says."""

    def __init__(self, state: StateDir, *arguments: str, run_worker: bool = False) -> None:
        self.state = state
        command = [sys.executable, "-m", "config.cli", "up", "--no-open"]
        command += ["--data-dir", str(state.root), *arguments]
        # Ports of its own: bundles of other tests look for free ones from the default on.
        ports = {"VEEN_HUB_PORT": str(free_port()), "VEEN_GATEWAY_PORT": str(free_port())}
        self.process = subprocess.Popen(
            command,
            env={**environment(), **ports, "VEEN_RUN_WORKER": str(int(run_worker))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())

    @property
    def text(self) -> str:
        return "\n".join(self.said)

    def until(self, what: Callable[[], object], timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while not what():
            ended = self.process.poll() is not None
            assert not ended, f"up ended:\n{self.text}\n{self._logs()}"
            assert time.monotonic() < deadline, f"too late:\n{self.text}\n{self._logs()}"
            time.sleep(0.05)

    def _logs(self) -> str:
        logs = (self.state.log(name) for name in PROCESSES)
        return "\n".join(path.read_text()[-2000:] for path in logs if path.exists())

    def says(self, sentence: str) -> None:
        self.until(lambda: sentence in self.text)

    def ready(self) -> Up:
        self.says("Ctrl-C stops everything.")
        return self

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state.status.read_bytes())
        return found

    def pid(self, name: str) -> int:
        return int(next(p["pid"] for p in self.status()["processes"] if p["name"] == name))

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
