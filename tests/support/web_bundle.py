"""What the web process finds under `veen up`: a running hub, the realm's trust, tokens, a lake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings as DjangoSettings

from hub.crypto.signing import SigningKey
from hub.server.config import HubConfig
from hub.server.core import Submission
from hub.streamitem import StreamItem
from hub.types import HubId, PublicKey
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from recorder.auth import sha256_of
from recorder.codes import RecordCode, RecordError
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest
from recorder.models import ApiToken, EventType, Producer, ReaderKey, Stream
from recorder.projection import Row, project
from recorder.streams import LONG_TERM
from tests.support import hubs, lakes, live_hub
from tests.support.live_hub import LiveHub
from tests.support.recorded_log import RecordedLog, RecordedStream

TRUST_KEY = SigningKey(hubs.seed("realm trust"))


class LiveLog(RecordedLog):
    """Streams of events on a running hub, read back over its data plane."""

    __repr__ = object.__repr__

    def __init__(self, hub: LiveHub, token: str) -> None:
        self.root = hub.data_dir
        self.hub = hub
        self.token = token

    def commit(self, submissions: list[Submission], per_batch: int = 512) -> None:
        for start in range(0, len(submissions), per_batch):
            batch = submissions[start : start + per_batch]
            with _client(self.hub) as client:
                items = client.batch(*[one.data for one in batch]).items()
            assert [live_hub.code_of(item) for item in items] == [None] * len(batch)

    def items(self, stream: RecordedStream) -> list[StreamItem]:
        found: list[StreamItem] = []
        path: str | None = f"/stream?label={stream.label.hex()}&limit=10000"
        with _client(self.hub) as client:
            while path is not None:
                answer = client.get(path, self.token)
                found += [StreamItem.decode(item) for item in answer.items()]
                path = answer.next_link()
        return found

    def entries(self, stream: RecordedStream) -> list[tuple[bytes, bytes]]:
        return [(one.receipt_bytes, one.msg_bytes) for one in self.items(stream)]

    def rows(self, stream: RecordedStream, keys: object = None) -> list[Row]:
        return [
            project(
                msg,
                receipt,
                stream=stream.name,
                hub_id=HubId(self.hub.hub_id),
                secrets=[secret for _, secret in stream.secrets],
            )
            for receipt, msg in self.entries(stream)
        ]

    def checkpoint(self) -> str:
        """Make a manifest now; its id."""
        return str(self.hub.control("checkpoint")["manifest_id"])


@contextmanager
def _client(hub: LiveHub) -> Iterator[live_hub.HttpClient]:
    client = live_hub.HttpClient(hub.url)
    try:
        yield client
    finally:
        client.close()


@dataclass
class WebBundle:
    """The state directory as the web sees it, its settings pointed there."""

    root: Path
    hub: LiveHub
    log: LiveLog
    streams: dict[str, RecordedStream] = field(default_factory=dict)

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def hub_pk(self) -> PublicKey:
        return self.hub.hub_pk

    def point(self, settings: DjangoSettings) -> None:
        """Write the files that `veen up` writes, and have the settings name them."""
        (self.root / "web.token").write_text(self.log.token)
        key = TrustedKey(pk=self.hub.hub_pk, status=KeyStatus.ACTIVE)
        named = TrustedHub(hub_id=HubId(self.hub.hub_id), keys=(key,))
        trust = TrustFile(serial=1, realm="tests", hubs=(named,))
        (self.root / "trust.json").write_bytes(trust.encode())
        (self.root / "trust.json.sig").write_bytes(trust.sign(TRUST_KEY))
        (self.root / "trust.pk").write_text(TRUST_KEY.public.hex())
        settings.VEEN_STATUS_FILE = self.root / "status.json"
        settings.VEEN_READ_TOKEN_FILE = self.root / "web.token"
        settings.VEEN_TRUST_FILE = self.root / "trust.json"
        settings.VEEN_TRUST_PK_FILE = self.root / "trust.pk"
        settings.VEEN_LAKE_DIR = self.lake
        self.status()

    def status(self, **changes: object) -> None:
        """The status file of a running bundle."""
        status = {"hub_url": self.hub.url, "hub_id": self.hub.hub_id.hex(), **changes}
        django_settings.VEEN_STATUS_FILE.write_text(json.dumps(status))

    def stream(self, name: str, *event_types: str, **changes: object) -> RecordedStream:
        """A stream of the recorder, known to SQL and ready for messages."""
        made = RecordedStream(name)
        fields = {
            "label": made.label.hex(), "label_class": "log", "sensitivity": "medium",
            "retention_hint": LONG_TERM, "event_bytes_max": 65_536, "created_at": timezone.now(),
        }  # fmt: skip
        row = Stream.objects.create(name=name, **(fields | changes))
        for one in event_types:
            EventType.objects.create(event_type=one, stream=row)
        ReaderKey.objects.create(
            stream=row, key_id=1, record=b"record of " + name.encode(), created_at=timezone.now()
        )
        self.streams[name] = made
        return made

    def record(self, name: str, count: int) -> None:
        """Events on a stream."""
        self.log.commit(self.streams[name].events(count))

    def ingest(self, name: str, *, upto: int | None = None) -> LakeManifest:
        """What ingest does, without Spark: the rows that are missing, in one more segment."""
        stream = self.streams[name]
        folder = LakeFolder.of(self.lake, stream.label)
        with folder.locked(wait_s=5):
            old = folder.read()
            held = 0 if old is None else old.upto_seq
            last = len(self.log.entries(stream)) if upto is None else upto
            if old is not None and held >= last:
                return old
            made = lakes.segment(self.log, stream, folder, held + 1, last)
            segments = (made,) if old is None else (*old.segments, made)
            new = LakeManifest(
                stream=name,
                label=stream.label.hex(),
                hub_id=self.hub.hub_id.hex(),
                upto_seq=made.to_seq,
                upto_root=made.upto_root,
                segments=segments,
            )
            return folder.publish(old, new, now_ms=0)


def token(role: str, name: str = "", streams: tuple[str, ...] = (), **fields: object) -> str:
    """The text of a token whose row is made here."""
    text = f"vat_{role}_{name or role}_{ApiToken.objects.count()}"
    row = ApiToken.objects.create(
        name=name or role, role=role, sha256=sha256_of(text), created_at=timezone.now(), **fields
    )
    row.streams.set(Stream.objects.filter(name__in=streams))
    return text


def producer(name: str, *streams: str) -> Producer:
    """A gateway-held producer of these streams."""
    row = Producer.objects.create(
        name=name,
        principal=hubs.seed(f"principal/{name}").hex(),
        held=Producer.Held.GATEWAY,
        cap_token=b"",
        auth_ref="00" * 32,
        created_at=timezone.now(),
    )
    row.streams.set(Stream.objects.filter(name__in=streams))
    return row


def bearer(text: str) -> dict[str, str]:
    """The header of a token, for Django's test client."""
    return {"Authorization": f"Bearer {text}"}


@contextmanager
def running(folder: Path) -> Iterator[LiveHub]:
    """An open hub whose reads need a token."""
    config = HubConfig(data_dir=folder / "hub", open_admission=True, workers=1)
    with live_hub.running(config) as hub:
        yield hub


class LaunchedIngest:
    """A LakeLauncher for tests: brings up what `bundle` knows, and remembers that it was asked."""

    bundle: WebBundle | None = None
    asked: list[Mapping[str, int]]

    def bring_up_to(self, streams: Mapping[str, int], timeout_s: float) -> None:
        assert self.bundle is not None
        type(self).asked.append(dict(streams))
        for name, seq in streams.items():
            self.bundle.ingest(name, upto=seq)


class SlowIngest(LaunchedIngest):
    """Is not ready the first times."""

    refusals = 0

    def bring_up_to(self, streams: Mapping[str, int], timeout_s: float) -> None:
        if type(self).refusals:
            type(self).refusals -= 1
            raise RecordError(RecordCode.LAKE_BEHIND, "not yet", retry_after_s=1)
        super().bring_up_to(streams, timeout_s)
