"""A real gateway process, and what the author process would publish for it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hub.storage.disk import Disk
from tests.support.connections import ADMIN, Cast
from tests.support.live_hub import ROOT, START_S

EVENTS = "/api/record/events"


def token_of(name: str) -> str:
    return f"token-of-{name}"


@dataclass
class Publisher:
    """Writes `gateway.keys` and `config.json` in that order, each whole."""

    state_dir: Path
    serial: int = 0
    event_bytes_max: int = 65_536
    more_tokens: list[dict[str, str]] = field(default_factory=list)
    other_tokens: list[str] = field(default_factory=list)

    def publish(
        self, *casts: Cast, without_tokens: Sequence[str] = (), retiring: Sequence[Cast] = ()
    ) -> None:
        disk = Disk()
        for folder in ("secrets", "gateway"):
            disk.mkdir(self.state_dir / folder)
        self.serial += 1
        keys = {cast.key.public.hex(): cast.key.seed.hex() for cast in (*casts, *retiring)}
        self._write("secrets/gateway.keys", {"ver": 1, "producers": keys})
        streams = {name: self._stream(cast, name) for cast in casts for name in cast.types}
        config: dict[str, Any] = {
            "ver": 1,
            "serial": self.serial,
            "hub_url": casts[0].hub_url,
            "hub_pk": casts[0].hub_pk.hex(),
            "hub_id": casts[0].connection().hub_id.hex(),
            "recorder_admin_pk": ADMIN.public.hex(),
            "streams": list(streams.values()),
            "producers": [self._producer(cast) for cast in casts],
            "tokens": [
                {
                    "id": f"id-{cast.name}",
                    "sha256": sha256(token_of(cast.name).encode()).hexdigest(),
                    "producer": cast.name,
                }
                for cast in casts
                if cast.name not in without_tokens
            ]
            + self.more_tokens,
        }
        if self.other_tokens:
            others = [sha256(one.encode()).hexdigest() for one in self.other_tokens]
            config["other_tokens"] = others
        if retiring:
            config["retiring"] = [self._producer(cast) for cast in retiring]
        self._write("gateway/config.json", config)

    def _producer(self, cast: Cast) -> dict[str, object]:
        return {
            "name": cast.name,
            "principal": cast.key.public.hex(),
            "cap_token": b64encode(cast.token().encode()).decode(),
            "streams": list(cast.types),
        }

    def _stream(self, cast: Cast, name: str) -> dict[str, object]:
        entry = cast.entry(name)
        return {
            "name": name,
            "label": entry.label.hex(),
            "event_types": list(entry.event_types),
            "event_bytes_max": self.event_bytes_max,
            "reader_key": b64encode(entry.reader_key.encode()).decode(),
        }

    def _write(self, name: str, document: object) -> None:
        Disk().write_atomic(self.state_dir / name, json.dumps(document).encode())


@dataclass(frozen=True)
class Reply:
    """One answer; every one is JSON and carries the request id."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str:
        assert self.status >= 400, self
        assert self.body["request_id"] == self.headers["veen-request-id"]
        assert self.body["message"]
        if self.status in (429, 503):
            assert int(self.headers["retry-after"]) >= 1
        return str(self.body["error_code"])


@dataclass
class Gateway:
    """A running gateway."""

    process: subprocess.Popen[bytes]
    url: str
    log_path: Path

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 30,
    ) -> Reply:
        where = urlsplit(self.url)
        assert where.hostname is not None
        link = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout_s)
        try:
            link.request(method, path, body, headers or {})
            answer = link.getresponse()
            data = answer.read()
        finally:
            link.close()
        names = {name.lower(): value for name, value in answer.getheaders()}
        is_json = names["content-type"] == "application/json"
        return Reply(answer.status, names, json.loads(data) if is_json and data else data.decode())

    def post(self, found: object, *, token: str, timeout_s: float = 30) -> Reply:
        """POST of an event or batch; bytes are sent as they are."""
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return self.ask("POST", EVENTS, body, headers, timeout_s)

    def log_text(self) -> bytes:
        return self.log_path.read_bytes()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@contextmanager
def running(state_dir: Path, *, port: int = 0, patience_s: float = 20.0) -> Iterator[Gateway]:
    """A gateway for the length of a block."""
    log_path = state_dir / "gateway.log"
    command = [
        sys.executable, "-m", "recorder.gateway", "--state-dir", str(state_dir),
        "--port", str(port), "--patience-s", str(patience_s),
    ]  # fmt: skip
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        with process.stdout as stdout:
            readable, _, _ = select.select([stdout], [], [], START_S)
            assert readable, "the gateway did not get ready"
            line = stdout.readline().decode()
        assert line.startswith("gateway ready url="), (line, log_path.read_text())
        gateway = Gateway(process, line.strip().partition("url=")[2], log_path)
        yield gateway
        gateway.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
