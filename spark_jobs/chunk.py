"""One task of ingest: a range of the log, verified, opened and written [architecture, The lake].

Each entry: ct_hash and leaf are recomputed from the MSG bytes and equal those of its RECEIPT, its
sequence is the next one, its commit time does not go back, and the MMR over all leaves so far has
the root that its RECEIPT names. What the task starts from is a claim of the log; the driver chains
the tasks to each other, to what was ingested before and to a signed head.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa

from hub import mmr
from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, ProofError
from hub.types import HubId, Label, MmrRoot
from recorder.lake.columns import PROOFS, fields_table
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import Segment, SegmentState
from recorder.lake.segments import (
    SEAL_EVENTS,
    SEGMENT_BYTES_MAX,
    SEGMENT_EVENTS_MAX,
    SegmentContent,
    write_segment,
)
from recorder.projection import Fields, project_fields
from spark_jobs.sources import Entry, LogSource, OpenLog
from spark_jobs.trust import claimed_peaks

DAY_MS: Final = 86_400_000
GATHERED_MAX: Final = 4_096
GATHERED_BYTES_MAX: Final = 64 * 1024 * 1024
_MSG_LABEL: Final = slice(38, 70)  # where every MSG has its label


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSecret:
    """A reader key of a stream, with the number its record has."""

    key_id: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlace:
    """A stream, its log and its lake, as a task needs them."""

    lake: Path
    stream: str
    label: Label
    hub_id: HubId
    source: LogSource
    secrets: tuple[StreamSecret, ...] = ()  # newest first

    @property
    def folder(self) -> LakeFolder:
        """Where its segments lie."""
        return LakeFolder.of(self.lake, self.label)

    @property
    def key_ids(self) -> tuple[int, ...]:
        """The numbers of the keys at hand."""
        return tuple(sorted(one.key_id for one in self.secrets))

    def opened_secrets(self) -> list[DhSecret]:
        """The keys, ready to open with."""
        return [DhSecret(one.secret) for one in self.secrets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """An inclusive range of one stream."""

    place: StreamPlace
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReport:
    """What a task did: the roots it went from and to, and the segments it wrote."""

    first: int
    last: int
    start_root: str | None
    end_root: str
    segments: tuple[Segment, ...]


def ingest_chunk(chunk: Chunk) -> ChunkReport:
    """Verify, open and write one range; raises and leaves only unnamed files on any flaw."""
    log = chunk.place.source.open()
    # Millions of small objects that form no cycles: the collector would only walk over them.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _ingest(chunk, log)
    finally:
        if was_enabled:
            gc.enable()
        log.close()


def _ingest(chunk: Chunk, log: OpenLog) -> ChunkReport:
    place = chunk.place
    peaks = claimed_peaks(log, place.label, chunk.first - 1)
    start_root = mmr.root(peaks) if peaks else None
    secrets = place.opened_secrets()
    pending = _Pending(place)
    last_time = 0
    for seq, entry in _entries(log, place.label, chunk.first, chunk.last):
        fields = _verified(place.label, seq, entry, secrets, peaks)
        if fields[1] < last_time:
            raise ProofError(f"commit time goes back at {seq}")
        if pending.rows and (fields[1] // DAY_MS != last_time // DAY_MS or pending.is_full()):
            pending.write()
        last_time = fields[1]
        pending.add(fields, entry)
    pending.write()
    return ChunkReport(
        first=chunk.first,
        last=chunk.last,
        start_root=None if start_root is None else start_root.hex(),
        end_root=mmr.root(peaks).hex(),
        segments=tuple(pending.segments),
    )


def _entries(log: OpenLog, label: Label, first: int, last: int) -> Iterator[tuple[int, Entry]]:
    seq = first
    for block in log.blocks(label, first, last):
        for entry in block:
            yield seq, entry
            seq += 1
    if seq != last + 1:
        raise ProofError(f"the log ends at {seq - 1} where {last} was due")


def _verified(
    label: Label, seq: int, entry: Entry, secrets: Sequence[DhSecret], peaks: list[bytes]
) -> Fields:
    receipt, msg = entry
    fields = project_fields(msg, receipt, secrets)
    if fields[0] != seq or msg[_MSG_LABEL] != label:
        raise ProofError(f"the entry at {seq} is of another place")
    mmr.append(peaks, seq - 1, fields[10])
    if mmr.root(peaks) != fields[11]:
        detail = f"mmr_root of {seq} does not extend the log before it"
        raise ProofError(detail, ErrorCode.PROOF)
    return fields


class _Pending:
    """The segment that is being gathered; rows become columns a few thousand at a time."""

    def __init__(self, place: StreamPlace) -> None:
        self._place = place
        self._entries: list[Entry] = []
        self._fields: list[Fields] = []
        self._tables: list[tuple[pa.Table, pa.Table]] = []
        self._bytes = self._gathered_bytes = 0
        self._root = MmrRoot(b"")
        self.rows = 0
        self.segments: list[Segment] = []

    def add(self, fields: Fields, entry: Entry) -> None:
        self._fields.append(fields)
        self._entries.append(entry)
        self._bytes += len(entry[1])
        self._root = fields[11]
        self.rows += 1
        if (
            len(self._fields) >= GATHERED_MAX
            or self._bytes - self._gathered_bytes >= GATHERED_BYTES_MAX
        ):
            self._gather()

    def _gather(self) -> None:
        if self._fields:
            rows = fields_table(self._place.stream, self._place.hub_id, self._fields)
            self._tables.append((rows, proofs_table(self._fields[0][0], self._entries)))
            self._fields, self._entries = [], []
            self._gathered_bytes = self._bytes

    def is_full(self) -> bool:
        return self.rows >= SEGMENT_EVENTS_MAX or self._bytes >= SEGMENT_BYTES_MAX

    def write(self) -> None:
        """A segment of what was gathered; one that is large enough is sealed at once."""
        self._gather()
        content = SegmentContent(
            rows=pa.concat_tables([rows for rows, _ in self._tables]),
            proofs=pa.concat_tables([proofs for _, proofs in self._tables]),
            upto_root=self._root,
            key_ids=self._place.key_ids,
        )
        state = SegmentState.SEALED if self.rows >= SEAL_EVENTS else SegmentState.LIVE
        self.segments.append(write_segment(self._place.folder, content, state))
        self._tables, self.rows, self._bytes, self._gathered_bytes = [], 0, 0, 0


def proofs_table(first: int, entries: Sequence[Entry]) -> pa.Table:
    """The bytes of entries that follow each other from `first`."""
    columns = [
        pa.array(range(first, first + len(entries)), pa.int64()),
        _binary([msg for _, msg in entries]),
        _binary([receipt for receipt, _ in entries]),
    ]
    return pa.Table.from_arrays(columns, schema=PROOFS)


def _binary(values: Sequence[bytes]) -> pa.Array:
    """`pa.array` without growing buffers step by step."""
    ends = array("i", accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
