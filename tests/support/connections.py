"""A small cast of recorder streams with one producer, and connection files for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hub import label as labels
from hub.authoring import open_message
from hub.client import HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import HubId, PublicKey, UnixSeconds
from hub.wire.captoken import CapToken, Rate
from hub.wire.profile import PRODUCT
from hub.wire.readerkey import ReaderKeyRecord
from hub.wire.rotation import hub_id_of
from recorder.connection import Connection, ProducerKey, StreamEntry
from recorder.event import RecorderEvent
from tests.support.live_hub import ISSUER, ROUTING_KEY

ADMIN: Final = SigningKey(b"the recorder admin of the tests.")
TRUST: Final = SigningKey(b"the realm trust key of the tests")
TTL_S: Final = 315_360_000
HTTP: Final = "record/app/http"
IAM: Final = "record/security/iam"
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    HTTP: ("http.error", "http.request"),
    IAM: ("login.failed", "login.ok"),
}


@dataclass(kw_only=True)
class Cast:
    """One producer of a hub: its key, its token and the secrets that open what it seals."""

    hub_pk: PublicKey
    hub_url: str = "http://127.0.0.1:1"
    hub_id: HubId | None = None
    name: str = "shop"
    types: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: TYPES)
    key: SigningKey = field(default_factory=SigningKey.generate)
    rate: Rate | None = None
    more: dict[str, Any] = field(default_factory=dict)
    readers: dict[str, DhSecret] = field(init=False)

    def __post_init__(self) -> None:
        self.readers = {name: DhSecret.generate() for name in self.types}

    def token(self) -> CapToken:
        """The right to append to exactly the streams of the cast."""
        return CapToken.issue(
            ISSUER,
            subject_pk=self.key.public,
            stream_ids=[labels.stream_id(name) for name in self.types],
            ttl=TTL_S,
            rate=self.rate,
        )

    def reader_key(self, name: str, key_id: int = 1) -> ReaderKeyRecord:
        """The signed public half of the stream's present reader key."""
        return ReaderKeyRecord.sign(
            ADMIN,
            stream_id=labels.stream_id(name),
            key_id=key_id,
            reader_pk=self.readers[name].public,
            ts=UnixSeconds(1_700_000_000 + key_id),
        )

    def entry(self, name: str) -> StreamEntry:
        return StreamEntry(
            name=name,
            label=labels.derive(ROUTING_KEY, labels.stream_id(name)),
            event_types=self.types[name],
            reader_key=self.reader_key(name),
        )

    def connection(self, **changes: Any) -> Connection:
        """What `producer add` would write."""
        given: dict[str, Any] = {
            "hub_url": self.hub_url,
            "hub_pk": self.hub_pk,
            "hub_id": self.hub_id or hub_id_of(self.hub_pk),
            "trust_pk": TRUST.public,
            "recorder_admin_pk": ADMIN.public,
            "producer": ProducerKey(name=self.name, key=self.key.seed),
            "cap_token": self.token(),
            "streams": tuple(self.entry(name) for name in self.types),
            **self.more,
        }
        return Connection(**{**given, **changes})

    def write(self, folder: Path, **changes: Any) -> Path:
        """The connection file, as private as `producer add` makes it."""
        path = folder / f"{self.name}.json"
        path.touch(mode=0o600)
        path.write_bytes(self.connection(**changes).render())
        return path

    def events(self, url: str, name: str) -> list[RecorderEvent]:
        """What is in the log of a stream, verified and opened."""
        with HubClient(url, self.hub_pk) as client:
            found = []
            try:
                for item in client.follow(self.entry(name).label):
                    item.msg.verify()
                    opened = open_message(item.msg, profile=PRODUCT, secret=self.readers[name])
                    assert item.msg.client_id.hex() == self.key.public.hex()
                    found.append(RecorderEvent.decode(opened.body))
            except VeenError as absent:
                if absent.code is not ErrorCode.NOTFOUND:
                    raise
            return found
