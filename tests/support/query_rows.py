"""Rows of a lake without a log behind them, for questions that ask for no proof."""

from __future__ import annotations

import random

from hub.crypto.hashing import h
from hub.types import HubId, Label, LeafHash, MmrRoot, StreamSeq
from queryapi.contract.coverage import Coverage
from queryapi.selftest.questions import Asker
from recorder.event import UnixMillis
from recorder.projection import Row, RowError, receipt_id

HUB_ID = HubId(h(b"hub"))
START_S = 1_767_225_600


def random_rows(rng: random.Random, stream: str, count: int) -> list[Row]:
    """A stream of random events, one in ten unreadable, several in each second."""
    asker = Asker(rng)
    rows = []
    for number in range(1, count + 1):
        event = asker.event()
        error = rng.choice(list(RowError)) if rng.random() < 0.1 else None
        leaf = LeafHash(h(f"{stream} {number}".encode()))
        rows.append(
            Row(
                stream=stream,
                hub_commit_seq=StreamSeq(number),
                hub_commit_time=UnixMillis((START_S + number // 5) * 1000),
                subject_id=None if error else event.subject_id,
                principal_id=h(b"principal %d" % rng.randrange(3)).hex(),
                event_type=None if error else event.event_type,
                event_time=None if error else event.event_time,
                origin=None if error else event.origin,
                payload_text=None if error else event.payload,
                error=error,
                receipt_id=receipt_id(leaf),
                leaf_hash=leaf,
                mmr_root=MmrRoot(h(leaf)),
                hub_id=HUB_ID,
            )
        )
    return rows


def coverage_of(rows: list[Row], stream: str) -> Coverage:
    """Everything of one stream."""
    own = [row for row in rows if row.stream == stream]
    return Coverage(
        stream=stream,
        label=Label(h(stream.encode())),
        hub_id=HUB_ID,
        from_seq=1,
        to_seq=len(own),
        mmr_root=own[-1].mmr_root if own else None,
    )
