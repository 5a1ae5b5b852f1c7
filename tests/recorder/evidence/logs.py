"""A real hub with a few recorder events on it, for everything that starts from a committed log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hub.client import Draft, HubClient
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.label import derive, stream_id
from hub.server.config import HubConfig
from hub.types import Label
from hub.wire.payload import PayloadHeader
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from tests.support.live_hub import ROUTING_KEY, LiveHub, running

STREAM: Final = "record/security/iam"
LABEL: Final[Label] = derive(ROUTING_KEY, stream_id(STREAM))
PRODUCER: Final = SigningKey(b"a producer of recorder events...")
READER: Final = DhSecret(b"secret half of the stream's key.")


def event(number: int) -> RecorderEvent:
    return RecorderEvent(
        subject_id=f"user:{number}",
        event_type="login.failed",
        event_time=UnixMillis(1_700_000_000_000 + number),
        origin="api-gateway-1",
        payload=f'{{"n":{number}}}',
    )


def config(root: Path, **options: object) -> HubConfig:
    """Without tokens and capabilities; manifests are made on demand only."""
    settings: dict[str, object] = {
        "data_dir": root / "hub",
        "routing_key": ROUTING_KEY,
        "open_admission": True,
        "open_reads": True,
        "workers": 1,
        "checkpoint_interval_s": 86_400,
        **options,
    }
    return HubConfig(**settings)  # type: ignore[arg-type]


@contextmanager
def hub(root: Path, **options: object) -> Iterator[LiveHub]:
    with running(config(root, **options)) as live:
        yield live


def record(client: HubClient, first: int, last: int, *, label: Label = LABEL) -> None:
    """Events first..last, in one batch."""
    drafts = [
        Draft(
            label=label,
            reader_pk=READER.public,
            header=PayloadHeader(schema=SCHEMA),
            body=event(number).encode(),
        )
        for number in range(first, last + 1)
    ]
    with client.producer(PRODUCER) as producer:
        producer.submit_batch(drafts)
