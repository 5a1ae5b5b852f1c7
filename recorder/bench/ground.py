"""A hub, a producer and a gateway of the benchmark's own [interfaces, Benchmarks]."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from hub import control
from hub import label as labels
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.selftest.live import LiveHub, Plan
from hub.storage.disk import Disk
from hub.types import HubId, UnixSeconds
from hub.wire.captoken import CapToken
from hub.wire.readerkey import ReaderKeyRecord
from recorder.connection import Connection, ProducerKey, StreamEntry
from recorder.streams import EVENT_BYTES_MAX_DEFAULT

STREAM: Final = "record/app/bench"
EVENT_TYPE: Final = "http.request"
_START_S: Final = 40.0
_YEAR_S: Final = 365 * 86_400
_ROOT: Final = Path(__file__).resolve().parents[2]


def event(number: int) -> dict[str, object]:
    """A small event of a web service."""
    return {
        "event_type": EVENT_TYPE,
        "subject_id": f"user:{number % 1000}",
        "payload": {
            "method": "POST",
            "path": f"/cart/{number}",
            "status": 200,
            "ms": number % 250,
            "request": f"{number:016x}",
        },
    }


@dataclass
class Ground:
    """What a benchmark of recording stands on."""

    folder: Path
    hub: LiveHub = field(init=False)
    issuer: SigningKey = field(default_factory=SigningKey.generate)
    admin: SigningKey = field(default_factory=SigningKey.generate)
    reader: DhSecret = field(default_factory=DhSecret.generate)
    routing_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def __post_init__(self) -> None:
        plan = Plan(
            data_dir=self.folder / "hub",
            routing_key=self.routing_key,
            trusted_issuer=self.issuer.public,
        )
        self.hub = LiveHub(plan)
        self.hub.start()

    def messages(self) -> int:
        """How many messages the hub has committed."""
        return int(control.call(self.folder / "hub", "status")["messages"])

    def hub_pids(self) -> list[int]:
        """The writer and its workers."""
        pid = int(control.call(self.folder / "hub", "status")["pid"])
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [pid, *(int(one) for tids in tasks for one in tids.read_text("ascii").split())]

    def connection(self, name: str) -> Connection:
        """A new producer of the one stream."""
        key = SigningKey.generate()
        stream_id = labels.stream_id(STREAM)
        record = ReaderKeyRecord.sign(
            self.admin,
            stream_id=stream_id,
            key_id=1,
            reader_pk=self.reader.public,
            ts=UnixSeconds(1_700_000_000),
        )
        entry = StreamEntry(
            name=STREAM,
            label=labels.derive(self.routing_key, stream_id),
            event_types=(EVENT_TYPE,),
            reader_key=record,
        )
        return Connection(
            hub_url=self.hub.url,
            hub_pk=self.hub.hub_pk,
            hub_id=HubId(self.hub.hub_id),
            trust_pk=self.admin.public,
            recorder_admin_pk=self.admin.public,
            streams=(entry,),
            producer=ProducerKey(name=name, key=key.seed),
            cap_token=CapToken.issue(
                self.issuer, subject_pk=key.public, stream_ids=[stream_id], ttl=_YEAR_S
            ),
        )

    def connection_file(self, name: str) -> Path:
        """The connection of a new producer as a file."""
        path = self.folder / f"{name}.json"
        Disk().write_atomic(path, self.connection(name).render())
        return path

    @contextmanager
    def gateway(self, token: str) -> Iterator[tuple[str, int]]:
        """A gateway process that holds one producer; its address and pid."""
        state = self.folder / "state"
        self._publish(state, token)
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            [sys.executable, "-m", "recorder.gateway", "--state-dir", str(state), "--port", "0"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        try:
            assert process.stdout is not None
            with process.stdout as stdout:
                readable, _, _ = select.select([stdout], [], [], _START_S)
                line = stdout.readline().decode() if readable else ""
            if not line.startswith("gateway ready url="):
                raise VeenError(ErrorCode.UNREACHABLE, "the gateway did not start")
            yield line.strip().partition("url=")[2], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def _publish(self, state: Path, token: str) -> None:
        """What the author process would write."""
        connection = self.connection("gateway")
        (entry,) = connection.streams
        assert connection.producer is not None
        assert connection.producer.key is not None
        assert connection.cap_token is not None
        principal = connection.principal.hex()
        seeds = {principal: connection.producer.key.hex()}
        held = {
            "name": "gateway",
            "principal": principal,
            "cap_token": b64encode(connection.cap_token.encode()).decode(),
            "streams": [STREAM],
        }
        stream = {
            "name": STREAM,
            "label": entry.label.hex(),
            "event_types": [EVENT_TYPE],
            "event_bytes_max": EVENT_BYTES_MAX_DEFAULT,
            "reader_key": b64encode(entry.reader_key.encode()).decode(),
        }
        hashed = sha256(token.encode()).hexdigest()
        config = {
            "ver": 1,
            "serial": 1,
            "hub_url": connection.hub_url,
            "hub_pk": connection.hub_pk.hex(),
            "hub_id": connection.hub_id.hex(),
            "recorder_admin_pk": connection.recorder_admin_pk.hex(),
            "streams": [stream],
            "producers": [held],
            "tokens": [{"id": "bench", "sha256": hashed, "producer": "gateway"}],
        }
        disk = Disk()
        for name, document in (
            ("secrets/gateway.keys", {"ver": 1, "producers": seeds}),
            ("gateway/config.json", config),
        ):
            disk.mkdir((state / name).parent)
            disk.write_atomic(state / name, json.dumps(document).encode())
