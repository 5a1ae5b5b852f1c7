"""A real log with random events, its lake with recorded segments, and what verifies answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto.hashing import h
from hub.crypto.hpke import DhSecret
from hub.types import Hash, MmrRoot, PublicKey
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.selftest.questions import Asker
from recorder import streams
from recorder.event import UnixMillis
from recorder.lake.compaction import SEALED
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, SegmentState
from recorder.projection import Row
from spark_jobs.chunk import StreamPlace, StreamSecret
from spark_jobs.evidence_trust import Means
from spark_jobs.sources import HubFiles
from tests.support.query_lake import write_lake
from tests.support.recorded_log import RecordedLog, RecordedStream

PRINCIPAL = "ab" * 32


@dataclass
class QuestionedLog:
    """Streams of random events on one hub, and their lake."""

    root: Path
    names: Sequence[str]
    streams: dict[str, RecordedStream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = RecordedLog(self.root / "hub")
        self.streams = {name: RecordedStream(name) for name in (*self.names, streams.LAKE)}

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def hub_pk(self) -> PublicKey:
        return self.log.core.identity.key.public

    def fill(self, rng: random.Random, name: str, count: int) -> None:
        """Random events; one in twelve cannot be read."""
        asker, stream = Asker(rng), self.streams[name]
        for _ in range(count):
            event = asker.event().encode()
            odd = rng.randrange(12)
            if odd == 0:
                keys, stream.secrets = stream.secrets, [(9, DhSecret(bytes([9]) * 32))]
                submission = stream.message(event)
                stream.secrets = keys
            elif odd == 1:
                body, schema = rng.choice([(b"\xa0", None), (event, Hash(h(b"other")))])
                submission = stream.message(body, schema=schema) if schema else stream.message(body)
            else:
                submission = stream.message(event)
            self.log.commit([submission])
            self.log.clock.at += rng.randrange(2)

    def rows(self, name: str) -> list[Row]:
        return self.log.rows(self.streams[name])

    def all_rows(self) -> list[Row]:
        return [row for name in self.names for row in self.rows(name)]

    def entries(self, name: str) -> list[tuple[bytes, bytes]]:
        return [(msg, receipt) for receipt, msg in self.log.entries(self.streams[name])]

    def ingest(self, name: str, *, segment_rows: int, live: int = 1) -> LakeManifest:
        stream = self.streams[name]
        return write_lake(
            self.lake,
            stream.label,
            self.rows(name),
            segment_rows=segment_rows,
            entries=self.entries(name),
            live=live,
            key_ids=tuple(key_id for key_id, _ in stream.secrets),
        )

    def record_seals(self, name: str) -> None:
        """An event for each sealed segment, and the lake of those events."""
        manifest = LakeFolder.of(self.lake, self.streams[name].label).read()
        assert manifest is not None
        for segment in manifest.segments:
            if segment.state is SegmentState.SEALED:
                payload: dict[str, Value] = {
                    "stream": name,
                    "label": manifest.label,
                    "from_seq": segment.from_seq,
                    "to_seq": segment.to_seq,
                    "segment": segment.name,
                    "files": segment.hashes(),
                }
                event = self.streams[streams.LAKE].event(SEALED, "recorder", payload)
                self.log.commit([event])
        self.ingest(streams.LAKE, segment_rows=1000)

    def coverage(self, name: str, to_seq: int | None = None) -> Coverage:
        stream = self.streams[name]
        rows = self.rows(name)[:to_seq]
        return Coverage(
            stream=name,
            label=stream.label,
            hub_id=self.log.core.identity.hub_id,
            from_seq=1,
            to_seq=len(rows),
            mmr_root=MmrRoot(rows[-1].mmr_root) if rows else None,
        )

    def place(self, name: str) -> StreamPlace:
        stream = self.streams[name]
        return StreamPlace(
            lake=self.lake,
            stream=name,
            label=stream.label,
            hub_id=self.log.core.identity.hub_id,
            source=HubFiles(data_dir=self.root / "hub"),
            secrets=tuple(
                StreamSecret(key_id=key_id, secret=secret.secret)
                for key_id, secret in stream.secrets
            ),
        )

    def means(self) -> Means:
        return Means(
            hub_pk=self.hub_pk,
            places={name: self.place(name) for name in self.names},
            records=self.place(streams.LAKE),
        )

    def pinned(self, source: dict[str, Value], number: int = 1) -> Descriptor:
        text = canonical_json.encode(source)
        asked = read_submitted(text, query_id=f"q-{number}").asked_by(PRINCIPAL, UnixMillis(0))
        return asked.pin([self.coverage(name) for name in asked.scope])

    def close(self) -> None:
        self.log.close()


def without_record(means: Means) -> Means:
    """As if the lake's own stream had never been written."""
    return replace(means, records=None)
