"""A hub process of the benchmark's own: started, asked, stopped, started again [OP0.5]."""

from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Self
from urllib.parse import urlsplit

from hub import control
from hub.errors import ErrorCode, VeenError

_START = (
    "import sys; from pathlib import Path; from hub.server.main import run; "
    "from hub.server.config import HubConfig; "
    "run(HubConfig(data_dir=Path(sys.argv[1]), open_admission=True, open_reads=True))"
)


class LiveHub:
    """The real processes on a free port, with the durable path and nothing else."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        started = perf_counter()
        self._log = data_dir.with_name("hub.log").open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own arguments
            [sys.executable, "-c", _START, str(data_dir)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("hub ready "):
            raise VeenError(ErrorCode.UNREACHABLE, "the hub did not start")
        self.start_s = perf_counter() - started
        fields = dict(part.split("=", 1) for part in line.split()[2:])
        self.url = fields["url"]
        where = urlsplit(self.url)
        assert where.hostname is not None
        assert where.port is not None
        self.host, self.port = where.hostname, where.port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it and wait."""
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def status(self) -> dict[str, Any]:
        """The control socket's word on it."""
        return control.call(self.data_dir, "status")

    def connection(self) -> http.client.HTTPConnection:
        """A keep-alive connection."""
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def writer_rss_bytes(self) -> int:
        """Resident memory of the process that owns the log."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * 4096


def post(connection: http.client.HTTPConnection, body: bytes, media: str) -> bytes:
    """One POST /submit; anything but 200 raises."""
    connection.request("POST", "/submit", body, {"Content-Type": media})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise VeenError(ErrorCode.INTERNAL, f"status {answer.status}: {data[:200]!r}")
    return data
