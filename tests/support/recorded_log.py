"""A hub without sockets whose streams hold sealed recorder events, good ones and odd ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hub import canonical_json
from hub.authoring import author
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.server.core import HubCore, Submission
from hub.types import ClientSeq, Hash, Label
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.projection import Row, project
from tests.support import hubs
from tests.support.hubs import START_TS, Ticker

EVENT_TIME = UnixMillis(START_TS * 1000 - 250)


@dataclass
class RecordedStream:
    """One stream with its reader keys, newest first, and one producer."""

    name: str
    secrets: list[tuple[int, DhSecret]] = field(default_factory=list)
    client_seq: int = 0

    def __post_init__(self) -> None:
        self.label = Label(h(b"stream/" + self.name.encode()))
        self.key = SigningKey(hubs.seed(f"producer/{self.name}"))
        if not self.secrets:
            self.rotate_key()

    def rotate_key(self) -> None:
        key_id = len(self.secrets) + 1
        self.secrets.insert(0, (key_id, DhSecret(hubs.seed(f"reader/{self.name}/{key_id}"))))

    def event(
        self,
        event_type: str = "login.failed",
        subject_id: str = "alice",
        payload: canonical_json.Encodable = None,
        origin: str = "web-1",
    ) -> Submission:
        """The next message of the producer, sealed to the newest key."""
        body = RecorderEvent(
            subject_id=subject_id,
            event_type=event_type,
            event_time=UnixMillis(EVENT_TIME + self.client_seq),
            origin=origin,
            payload=canonical_json.encode_text(payload),
        ).encode()
        return self.message(body)

    def message(self, body: bytes, *, schema: Hash = SCHEMA) -> Submission:
        self.client_seq += 1
        authored = author(
            key=self.key,
            profile=PRODUCT,
            label=self.label,
            client_seq=ClientSeq(self.client_seq),
            prev_ack=0,
            auth_ref=None,
            reader_pk=self.secrets[0][1].public,
            header=PayloadHeader(schema=schema),
            body=body,
        )
        return Submission(authored.msg_bytes, authored.leaf_hash)

    def events(self, count: int, *, subjects: int = 7) -> list[Submission]:
        """Events that differ in type, subject and payload in a fixed way."""
        return [
            self.event(
                event_type=f"type.{number % 3}",
                subject_id=f"subject-{number % subjects}",
                origin=f"host-{number % 2}",
                payload={"n": number, "status": 200 + number % 5, "user": {"id": str(number)}},
            )
            for number in range(self.client_seq, self.client_seq + count)
        ]


@dataclass
class RecordedLog:
    """A data directory with streams of events; time moves by the ticker only."""

    root: Path
    clock: Ticker = field(default_factory=Ticker)

    def __post_init__(self) -> None:
        self.core: HubCore = hubs.open_core(self.root, clock=self.clock)

    def commit(self, submissions: list[Submission], per_batch: int = 64) -> None:
        for start in range(0, len(submissions), per_batch):
            hubs.receipts_of(self.core.submit(submissions[start : start + per_batch]))

    def entries(self, stream: RecordedStream) -> list[tuple[bytes, bytes]]:
        """(RECEIPT, MSG) of the whole stream."""
        last = self.core.reader.count(stream.label)
        return list(self.core.reader.entries(stream.label, 1, last))

    def rows(self, stream: RecordedStream, keys: list[DhSecret] | None = None) -> list[Row]:
        """What the lake must hold, made one by one by the one judge."""
        secrets = [secret for _, secret in stream.secrets] if keys is None else keys
        return [
            project(
                msg,
                receipt,
                stream=stream.name,
                hub_id=self.core.identity.hub_id,
                secrets=secrets,
            )
            for receipt, msg in self.entries(stream)
        ]

    def close(self) -> None:
        self.core.close()
