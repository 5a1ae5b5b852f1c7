"""What `veen selftest recorder` records: three services by three ways in, one event each [SDR0 3].

A till with the SDK and its spool, a door that knows no crypto and posts to the gateway, a service
that only logs. Till and service share a stream, so that who did what is a question.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from config.selftest.bundle import TemporaryBundle, until
from config.up_processes import HUB
from hub.client import HubClient
from hub.crypto.signing import SigningKey
from hub.selftest.checks import require
from hub.types import Label
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from recorder.cli import connection_file
from recorder.connection import ProducerKey
from recorder.gateway_client import GatewayClient
from recorder.handler import RecorderHandler
from recorder.replay_client import ReplayedEvent, Replaying, replay
from recorder.sdk import Recorder

SHOP: Final = "record/app/selftest"
DOOR: Final = "record/security/selftest"
STREAMS: Final = (SHOP, DOOR)
TYPES: Final = {SHOP: ["order.placed", "order.paid", "log.line"], DOOR: ["door.opened"]}
TILL, BADGE, SERVICE = "selftest-till", "selftest-door", "selftest-service"
PEOPLE: Final = 7
BATCH: Final = 100
FLUSH_S: Final = 120.0
PATIENCE_S: Final = 90.0
EVENTS_URL: Final = "/api/record/events"

Progress = Callable[[str], None]


@dataclass(slots=True)
class Ground:
    """A bundle, who records on it, and what they recorded."""

    bundle: TemporaryBundle
    folder: Path
    rng: random.Random
    events: int
    keys: dict[str, SigningKey] = field(default_factory=dict)  # of the file-held producers
    given: dict[str, dict[str, Any]] = field(default_factory=dict)  # what each producer was given
    labels: dict[str, Label] = field(default_factory=dict)
    door_token: str = ""
    reader_token: str = ""
    recorded: list[ReplayedEvent] = field(default_factory=list)

    # -- making

    def create(self) -> None:
        """Streams, three producers, one reader."""
        for name in STREAMS:
            self.bundle.act("stream.create", name=name, event_types=TYPES[name])
        for name in (TILL, SERVICE):
            key = self.keys[name] = SigningKey.generate()
            given = self.bundle.act(
                "producer.add", name=name, streams=[SHOP], principal=key.public.hex()
            )
            connection_file.write(
                self.connection(name), given, ProducerKey(name=name, key=key.seed)
            )
            self._know(name, given)
        given = self.bundle.act("producer.add", name=BADGE, streams=[DOOR], held="gateway")
        self._know(BADGE, given)
        self.door_token = self._token(role="producer", name="door", producer=BADGE)
        self.reader_token = self._token(role="reader", name="auditor", all=True)
        until(lambda: self.post([])[0] == 200, "the gateway knows the door's token", FLUSH_S)

    def _know(self, name: str, given: dict[str, Any]) -> None:
        self.given[name] = given
        for one in given["streams"]:
            self.labels[one["name"]] = Label(bytes.fromhex(one["label"]))

    def _token(self, **args: object) -> str:
        return str(self.bundle.act("token.create", **args)["token"])

    def connection(self, name: str) -> Path:
        """The connection file of a producer that holds its own key."""
        return self.folder / f"{name}.json"

    # -- the ways in

    def by_sdk(self, progress: Progress) -> None:
        """The till; in the middle the hub is killed, which stops nobody and loses nothing."""
        count = self.share(TILL)
        with Recorder(self.connection(TILL), self.folder / "till-spool") as recorder:
            for number in range(count):
                if number == count // 2:
                    self.kill_hub()
                kind = TYPES[SHOP][number % 2]
                payload = {"n": number, "total": 100 + number}
                recorder.record(event_type=kind, subject_id=subject(number), payload=payload)
            progress(f"{count} events of the till wait in its spool")
            require(recorder.flush(FLUSH_S), "not every event of the till has its receipt")
            require(recorder.state().dead_letters == 0, "the till has dead letters")

    def kill_hub(self) -> None:
        """Kill -9; the supervisor starts it again."""
        os.kill(self.bundle.pid(HUB), signal.SIGKILL)

    def by_handler(self, progress: Progress) -> None:
        """The service: `logging`, and nothing else."""
        count = self.share(SERVICE)
        handler = RecorderHandler(self.connection(SERVICE), spool_dir=self.folder / "service-spool")
        logger = logging.Logger("selftest.service")  # noqa: LOG001 - of its own, gone afterwards
        logger.addHandler(handler)
        try:
            for number in range(count):
                about = {"subject_id": subject(number), "n": number}
                logger.info("step %d\r\n\x1b[31mis done", number, extra=about)
            progress(f"{count} log lines are recorded")
            require(handler.recorder.flush(FLUSH_S), "not every line has its receipt")
        finally:
            handler.close()

    def by_gateway(self, progress: Progress) -> None:
        """The door: plain JSON in batches, each event with its key."""
        count = self.share(BADGE)
        for start in range(0, count, BATCH):
            batch = [self.door_event(number) for number in range(start, min(start + BATCH, count))]
            status, found = self.post(batch)
            require(status == 200, f"status {status}: {found}")
            refused = [one for one in found["results"] if "error_code" in one]
            require(not refused, f"refused: {refused[:1]}")
            progress(f"{start + len(batch)} of {count} events through the gateway")

    def door_event(self, number: int) -> dict[str, Any]:
        """One event as a service without crypto writes it."""
        return {
            "event_type": "door.opened",
            "subject_id": subject(number),
            "origin": f"door-{number % 3}",
            "payload": {"n": number},
            "idempotency_key": f"door-{number}",
        }

    def post(self, events: Sequence[object]) -> tuple[int, Any]:
        """A batch to the gateway, with the door's token."""
        with GatewayClient(self.bundle.status["gateway_url"], self.door_token) as gateway:
            answer = gateway.post(EVENTS_URL, json.dumps({"events": events}).encode())
        return answer.status, answer.body

    def share(self, name: str) -> int:
        """How many events a producer records."""
        part = self.events // 3
        return self.events - 2 * part if name == TILL else part

    # -- reading

    def replay(self, **asked: Any) -> Replaying:  # noqa: ANN401 - as `replay` itself takes it
        """A replay that believes nothing: pinned key, known labels, contents opened again."""
        asked = {"streams": STREAMS, "labels": self.labels, "secrets": self.secrets(), **asked}
        return replay(
            self.bundle.web_url, self.reader_token, hub_pk=self.bundle.hub_pk,
            patience_s=PATIENCE_S, **asked,
        )  # fmt: skip

    def secrets(self) -> dict[str, list[bytes]]:
        """What opens the streams, as a reader of all of them holds it."""
        held = json.loads(self.bundle.state.secret("readers.keys").read_bytes())["streams"]
        return {name: [bytes.fromhex(row["secret"]) for row in held[name]] for name in STREAMS}

    def hub(self) -> HubClient:
        """The hub's data plane with a read token."""
        token = self.bundle.state.secret("web.token").read_text().strip()
        return HubClient(self.bundle.status["hub_url"], self.bundle.hub_pk, token=token)

    def manifests(self) -> Iterator[Manifest]:
        """Every manifest of the hub, the newest first, each verified."""
        with self.hub() as hub:
            found = hub.manifest()
            while True:
                yield found
                if not any(found.previous):
                    return
                found = hub.manifest(found.previous)

    def of(self, producer: str) -> list[ReplayedEvent]:
        """What was recorded with a producer's key, in order."""
        principal = self.principal(producer)
        return [one for one in self.recorded if one.principal_id == principal]

    def principal(self, producer: str) -> str:
        """The principal_id of a producer."""
        return str(self.given[producer]["principal"])

    def check_receipt(self, found: dict[str, Any]) -> Receipt:
        """The receipt in an answer of the gateway, if it is the hub's."""
        receipt = Receipt.decode(b64decode(found["receipt"]))
        receipt.verify(self.bundle.hub_pk)
        require(receipt.stream_seq == found["hub_commit_seq"], "the receipt is of another place")
        return receipt


def subject(number: int) -> str:
    """Whom an event is about."""
    return f"person-{number % PEOPLE}"
