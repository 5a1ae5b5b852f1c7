"""Which files a query has to open, and which it need not [spark, What to aim for].

Segments outside the coverage or the window are never opened, nor those whose key copy says that the
subject cannot be in them. Row groups are the grain of the work: chunks are cut at their borders, in
(stream, seq) order, and dealt out as runs, so that parts of an answer follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hub.errors import StoreError
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor, Filter, Mode
from recorder.lake.columns import bucket_of
from recorder.lake.manifest import Segment
from recorder.lake.reader import LakeSnapshot, read_rows
from spark_jobs.query_damage import UNREAD, broken, damaged, opened

ROW_GROUP_ROWS: Final = 32_768  # of a rows file; chunks of a segment start at multiples of it
SMALL_ROWS: Final = 60_000  # below this a second task costs more than it saves
VERIFIED_ROWS: Final = 8_192  # of a proofs file's row group
VERIFIED_ROWS_MIN: Final = 500
_GRAINS: Final = (32_768, 16_384, VERIFIED_ROWS)  # of verified work, largest first
TASK_ROWS: Final = 1_000_000  # more tasks than cores only where each has work for a while
_VERIFIED_TASKS_PER_CORE: Final = (3, 8)  # fewer leave cores idle at the end, more cost starts


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProbe:
    """Where a segment's key copy says which sequences a subject has."""

    file: str
    row_group: int
    subject_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A run of one segment's rows within the coverage."""

    stream: str
    hub_id: str
    rows_file: str
    groups_file: str | None
    proofs_file: str
    key_ids: tuple[int, ...]  # reader keys that were tried on its messages
    segment_first: int  # the sequence of the file's first row
    segment_last: int
    first: int
    last: int
    is_windowed: bool  # some of its rows may lie outside the window
    paths: frozenset[str]  # payload paths that have a column
    groupings: frozenset[str]  # that the groups file has
    commit_times: tuple[int, int]  # least and greatest of the segment
    event_times: tuple[int | None, int | None]
    has_errors: bool  # some of its events may be unreadable
    counts_unreadable: bool  # the summary does not tell how many there are
    probe: KeyProbe | None

    @property
    def rows(self) -> int:
        """How many rows it spans."""
        return self.last - self.first + 1

    @property
    def is_whole(self) -> bool:
        """Whether it is its segment, all of it inside the window."""
        return (
            not self.is_windowed
            and self.first == self.segment_first
            and self.last == self.segment_last
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The chunks in order, and the unreadable events that summaries know of."""

    chunks: tuple[Chunk, ...]
    unreadable_count: int

    @property
    def rows(self) -> int:
        """How many rows may have to be looked at."""
        return sum(chunk.rows for chunk in self.chunks)


def open_coverage(
    lake: Path, coverage: Sequence[Coverage], mode: Mode = Mode.NONE
) -> dict[str, LakeSnapshot]:
    """A snapshot for each stream that has events, or the code that says what is missing."""
    found = {}
    for part in coverage:
        if part.to_seq == 0:
            continue
        try:
            snapshot = opened(lake, part.label)
            _check_held(part, snapshot)
        except StoreError as damage:
            raise damaged(mode, damage, part.stream, part.to_seq) from damage
        assert snapshot is not None
        found[part.stream] = snapshot
    return found


def _check_held(part: Coverage, snapshot: LakeSnapshot | None) -> None:
    held = 0 if snapshot is None else snapshot.manifest.upto_seq
    if snapshot is None or held < part.to_seq:
        missing = f"{part.stream}: {held + 1} to {part.to_seq} are not held here"
        raise QueryError(QueryCode.COVERAGE_INCOMPLETE, missing)
    manifest = snapshot.manifest
    if manifest.hub_id != part.hub_id.hex():
        raise QueryError(QueryCode.COVERAGE_MISMATCH, f"{part.stream}: held from another hub")
    if manifest.first_seq > part.from_seq:
        gone = f"{part.stream}: {part.from_seq} to {manifest.first_seq - 1} were pruned"
        raise QueryError(QueryCode.COVERAGE_PRUNED, gone)
    assert part.mmr_root is not None, "a stream with events has a root"
    root = _root_at(snapshot, part.to_seq)
    if root is not None and root != part.mmr_root.hex():
        other = f"{part.stream}: the root at {part.to_seq} is another one here"
        raise QueryError(QueryCode.COVERAGE_MISMATCH, other)


def _root_at(snapshot: LakeSnapshot, seq: int) -> str | None:
    """None where nothing up to there is retained: then no row is read, and no root known."""
    manifest = snapshot.manifest
    if seq == manifest.upto_seq or seq < manifest.first_seq:
        return manifest.upto_root if seq == manifest.upto_seq else None
    [segment] = manifest.find(seq, seq)
    if segment.to_seq == seq:
        return segment.upto_root
    try:
        [batch] = read_rows(snapshot, seq, seq, columns=["mmr_root"])
        root: bytes = batch.column("mmr_root")[0].as_py()
    except (*UNREAD, ValueError, StoreError) as flaw:
        path = snapshot.folder.path(segment.rows)
        raise broken(path, flaw.detail if isinstance(flaw, StoreError) else flaw) from flaw
    return root.hex()


def make_plan(descriptor: Descriptor, snapshots: Mapping[str, LakeSnapshot]) -> Plan:
    """Everything that may hold an answer, by (stream, seq)."""
    assert descriptor.coverage is not None
    chunks, unreadable = [], 0
    for part in descriptor.coverage:
        if part.stream not in snapshots:
            continue
        snapshot = snapshots[part.stream]
        for segment in snapshot.manifest.find(part.from_seq, part.to_seq):
            chunk = _chunk(descriptor, part, snapshot, segment)
            if chunk is None:
                continue
            if not chunk.counts_unreadable:
                unreadable += sum(segment.summary.errors.values())
            chunks.append(chunk)
    return Plan(chunks=tuple(chunks), unreadable_count=unreadable)


def _chunk(
    descriptor: Descriptor, part: Coverage, snapshot: LakeSnapshot, segment: Segment
) -> Chunk | None:
    asked, root = descriptor.filter, f"{snapshot.folder.root}/"  # joined as text, many times
    starts, ends = segment.min_hub_commit_time, segment.max_hub_commit_time
    first, last = max(part.from_seq, segment.from_seq), min(part.to_seq, segment.to_seq)
    # A manifest stands in no record of the log: full evidence opens what it would leave closed.
    is_full = descriptor.evidence.mode is Mode.FULL
    is_before = asked.time_from is not None and ends < asked.time_from
    is_after = asked.time_to is not None and asked.time_to < starts
    if (is_before or is_after) and not is_full:
        return None
    has_window = asked.time_from is not None or asked.time_to is not None
    is_windowed = (has_window and is_full) or (
        (asked.time_from is not None and starts < asked.time_from)
        or (asked.time_to is not None and asked.time_to < ends)
    )
    is_cut = is_windowed or (first, last) != (segment.from_seq, segment.to_seq)
    return Chunk(
        stream=part.stream,
        hub_id=part.hub_id.hex(),
        rows_file=root + segment.rows.file,
        groups_file=None if segment.groups is None else root + segment.groups.file,
        proofs_file=root + segment.proofs.file,
        key_ids=segment.key_ids,
        segment_first=segment.from_seq,
        segment_last=segment.to_seq,
        first=first,
        last=last,
        is_windowed=is_windowed,
        paths=frozenset(segment.paths),
        groupings=frozenset(segment.summary.groupings),
        commit_times=(starts, ends),
        event_times=(segment.summary.min_event_time, segment.summary.max_event_time),
        has_errors=is_full or bool(segment.summary.errors),
        counts_unreadable=is_full or (is_cut and bool(segment.summary.errors)),
        probe=None if is_full else _probe(asked, snapshot, segment),
    )


def whole_chunks(part: Coverage, snapshot: LakeSnapshot) -> list[Chunk]:
    """All that a coverage spans, whatever a question asks for."""
    return [
        Chunk(
            stream=part.stream,
            hub_id=part.hub_id.hex(),
            rows_file=str(snapshot.folder.path(segment.rows)),
            groups_file=None,
            proofs_file=str(snapshot.folder.path(segment.proofs)),
            key_ids=segment.key_ids,
            segment_first=segment.from_seq,
            segment_last=segment.to_seq,
            first=max(part.from_seq, segment.from_seq),
            last=min(part.to_seq, segment.to_seq),
            is_windowed=False,
            paths=frozenset(segment.paths),
            groupings=frozenset(),
            commit_times=(segment.min_hub_commit_time, segment.max_hub_commit_time),
            event_times=(None, None),
            has_errors=True,
            counts_unreadable=False,
            probe=None,
        )
        for segment in snapshot.manifest.find(part.from_seq, part.to_seq)
    ]


def _probe(asked: Filter, snapshot: LakeSnapshot, segment: Segment) -> KeyProbe | None:
    if asked.subject_id is None or segment.keys is None:
        return None
    bucket = bucket_of(asked.subject_id)
    counts = segment.keys.buckets
    # Only buckets with rows have a row group; an empty one is past the end, which reads nothing.
    number = sum(map(bool, counts[:bucket])) if counts[bucket] else -1
    return KeyProbe(
        file=str(snapshot.folder.path(segment.keys)), row_group=number, subject_id=asked.subject_id
    )


def deal(
    chunks: Sequence[Chunk],
    *,
    cores: int,
    tasks: int | None = None,
    is_verified: bool = False,
) -> list[list[Chunk]]:
    """The chunks as runs of about equal size, one for each task, in order.

    Where events are to be verified the work is cut finer: a signature costs more than reading. But
    a row group that two tasks share is read twice, so not finer than all cores need.
    """
    rows = sum(chunk.rows for chunk in chunks)
    grain = ROW_GROUP_ROWS
    if is_verified:
        least, most = _VERIFIED_TASKS_PER_CORE
        enough = (one for one in _GRAINS if rows // one >= cores * least)
        grain = next(enough, VERIFIED_ROWS)
        cuts = rows // grain if rows // grain >= cores * least else rows // VERIFIED_ROWS_MIN
        tasks = tasks or max(1, min(cores * most, cuts))
    elif tasks is None:
        is_small = rows < SMALL_ROWS or all(chunk.probe is not None for chunk in chunks)
        rounds = max(1, round(rows / (cores * TASK_ROWS)))
        tasks = 1 if is_small else min(cores * rounds, 1 + rows // ROW_GROUP_ROWS)
    runs: list[list[Chunk]] = [[] for _ in range(max(1, tasks))]
    share, dealt = max(1, -(-rows // len(runs))), 0
    for piece in _pieces(chunks, share, min(grain, share)):
        run = min(dealt // share, len(runs) - 1)
        runs[run].append(piece)
        dealt += piece.rows
    return [run for run in runs if run]


def _pieces(chunks: Sequence[Chunk], share: int, grain: int) -> list[Chunk]:
    """Chunks cut at multiples of the grain where they are larger than a task's share."""
    step = max(1, share // grain) * grain
    pieces = []
    for chunk in chunks:
        is_one = chunk.rows <= share or chunk.probe is not None
        pieces += [chunk] if is_one else cut(chunk, grain, step)
    return pieces


def cut(chunk: Chunk, grain: int, step: int | None = None) -> list[Chunk]:
    """Pieces of up to `step` rows that end at multiples of the grain, counted in the segment."""
    pieces, start = [], chunk.first
    while start <= chunk.last:
        border = start - (start - chunk.segment_first) % grain + (step or grain) - 1
        end = min(border, chunk.last)
        pieces.append(replace(chunk, first=start, last=end))
        start = end + 1
    return pieces
