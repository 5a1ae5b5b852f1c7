"""A log of sealed recorder events for benchmarks, made on all cores [interfaces, Benchmarks]."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from hub import canonical_json
from hub.authoring import author
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.label import stream_id
from hub.server.config import HubConfig
from hub.server.core import HubCore, Submission, open_hub
from hub.types import ClientSeq, DhKey, Label, LeafHash, PublicKey
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from recorder.event import SCHEMA, RecorderEvent, UnixMillis

STREAM: Final = "record/app/bench"
SUBJECTS: Final = 50_000
BATCH: Final = 1_000
_SHARE: Final = 5_000  # messages that one task of the pool makes


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLog:
    """A data directory with one stream, and what opens it."""

    data_dir: Path
    label: Label
    hub_pk: PublicKey
    secret: bytes
    events: int


def label_of(name: str) -> Label:
    """A label of the benchmark's own."""
    return Label(stream_id(name))


def open_log(data_dir: Path) -> HubCore:
    """A hub without sockets, with the durable path and nothing else."""
    return open_hub(HubConfig(data_dir=data_dir, open_admission=True))


def make_log(data_dir: Path, count: int) -> BenchLog:
    """A log of `count` events; authoring runs on all cores, committing is one writer's."""
    reader = DhSecret.generate()
    core = open_log(data_dir)
    try:
        for submissions in authored(count, reader.public):
            answers = core.submit(submissions)
            assert all(isinstance(answer, bytes) for answer in answers), answers
        hub_pk = PublicKey(core.identity.key.public)
    finally:
        core.close()
    return BenchLog(
        data_dir=data_dir,
        label=label_of(STREAM),
        hub_pk=hub_pk,
        secret=reader.secret,
        events=count,
    )


def authored(count: int, reader_pk: DhKey) -> Iterator[list[Submission]]:
    """Batches of messages of several producers, sealed and signed on all cores."""
    shares = [
        (number, min(_SHARE, count - number * _SHARE), bytes(reader_pk))
        for number in range(-(-count // _SHARE))
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count() or 1) as pool:
        for made in pool.imap(_author_share, shares):
            found = iter(made)
            while batch := [Submission(data, leaf) for data, leaf in islice(found, BATCH)]:
                yield batch


def _author_share(share: tuple[int, int, bytes]) -> Sequence[tuple[bytes, LeafHash]]:
    number, count, reader_pk = share
    key, label, made = SigningKey.generate(), label_of(STREAM), []
    now = UnixMillis(time.time_ns() // 1_000_000)
    for index in range(count):
        overall = number * _SHARE + index
        message = author(
            key=key,
            profile=PRODUCT,
            label=label,
            client_seq=ClientSeq(index + 1),
            prev_ack=0,
            auth_ref=None,
            reader_pk=DhKey(reader_pk),
            header=PayloadHeader(schema=SCHEMA),
            body=_event(overall, now).encode(),
        )
        made.append((message.msg_bytes, message.leaf_hash))
    return made


def _event(number: int, now: UnixMillis) -> RecorderEvent:
    payload = {
        "status": 200 + number % 5 * 100,
        "path": f"/api/items/{number % 997}",
        "ms": number * 7 % 977,
        "user": {"id": number % SUBJECTS, "role": "buyer"},
        "trace": f"{number:032x}",
    }
    return RecorderEvent(
        subject_id=f"user-{number * 7_919 % SUBJECTS}",
        event_type=f"http.request.{number % 10}",
        event_time=now,
        origin=f"web-{number % 20}",
        payload=canonical_json.encode_text(payload),
    )
