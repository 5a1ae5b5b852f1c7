"""A temporary hub of real processes, started, killed and started again [OP0.4].

Run as a module it becomes that hub: its configuration comes over stdin, because a routing key has
no place on a command line.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey
from hub.wire.profile import DEFAULT_PROFILES, Profile

START_S: Final = 40.0
STOP_S: Final = 20.0
_ROOT: Final = Path(__file__).resolve().parents[2]
# Labels of this profile change every hour, so that the epoch window can be tried.
HOURLY: Final = Profile(epoch_sec=3600, pad_block=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the temporary hub is told."""

    data_dir: Path
    routing_key: bytes
    trusted_issuer: PublicKey

    def to_json(self) -> str:
        """One document for stdin."""
        return json.dumps(
            {
                "data_dir": str(self.data_dir),
                "routing_key": self.routing_key.hex(),
                "trusted_issuer": self.trusted_issuer.hex(),
            }
        )


class LiveHub:
    """One hub; closing it always ends it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.url = ""
        self.hub_pk = PublicKey(b"")
        self.hub_id = b""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        """What the hub says on stderr."""
        return self.plan.data_dir.with_name("hub.stderr")

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "hub.selftest.live"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as pipe:
            pipe.write(self.plan.to_json().encode())
        words = dict(word.split("=", 1) for word in self._first_line(process.stdout).split()[2:])
        self.url = words["url"]
        self.hub_pk = PublicKey(bytes.fromhex(words["hub_pk"]))
        self.hub_id = bytes.fromhex(words["hub_id"])

    def _first_line(self, stdout: IO[bytes]) -> str:
        with stdout, selectors.DefaultSelector() as ready:
            ready.register(stdout, selectors.EVENT_READ)
            line = stdout.readline().decode() if ready.select(START_S) else ""
        if not line.startswith("hub ready "):
            tail = self.log_path.read_text("utf-8", errors="replace").splitlines()[-3:]
            self.close()
            raise VeenError(ErrorCode.UNREACHABLE, "the hub did not start: " + " | ".join(tail))
        return line

    def kill(self) -> None:
        """As kill -9 does: no handler runs, nothing is flushed."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_S)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_S)

    def close(self) -> None:
        """End it whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(STOP_S)


def _become_hub() -> None:
    from hub.server.config import HubConfig  # noqa: PLC0415 - only the child needs the server
    from hub.server.main import run  # noqa: PLC0415

    told = json.load(sys.stdin)
    run(
        HubConfig(
            data_dir=Path(told["data_dir"]),
            routing_key=bytes.fromhex(told["routing_key"]),
            trusted_issuers=frozenset({PublicKey(bytes.fromhex(told["trusted_issuer"]))}),
            profiles=(*DEFAULT_PROFILES, HOURLY),
        )
    )


if __name__ == "__main__":
    _become_hub()
