"""Reading a lake with pyarrow alone, in order and in constant memory [architecture, The lake]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub.errors import ErrorCode, StoreError
from hub.types import Label
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeFile, LakeManifest, Segment

BATCH_ROWS: Final = 4_096
BATCH_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSnapshot:
    """One manifest and the folder of its files; it reads the same for as long as it is used."""

    folder: LakeFolder
    manifest: LakeManifest


def open_snapshot(lake: Path, label: Label) -> LakeSnapshot | None:
    """The newest snapshot of a stream's lake, None where nothing was ingested."""
    folder = LakeFolder.of(lake, label)
    manifest = folder.read()
    return None if manifest is None else LakeSnapshot(folder=folder, manifest=manifest)


def read_rows(
    snapshot: LakeSnapshot,
    from_seq: int,
    to_seq: int,
    *,
    columns: Sequence[str] = tuple(ROWS.names),
) -> Iterator[pa.RecordBatch]:
    """The rows of an inclusive range, by rising hub_commit_seq."""
    for segment in snapshot.manifest.find(from_seq, to_seq):
        yield from read_segment(snapshot.folder, segment, segment.rows, (from_seq, to_seq), columns)


def read_proofs(
    snapshot: LakeSnapshot,
    from_seq: int,
    to_seq: int,
    *,
    columns: Sequence[str] = tuple(PROOFS.names),
) -> Iterator[pa.RecordBatch]:
    """hub_commit_seq, msg and receipt of an inclusive range, by rising hub_commit_seq."""
    for segment in snapshot.manifest.find(from_seq, to_seq):
        yield from read_segment(
            snapshot.folder, segment, segment.proofs, (from_seq, to_seq), columns
        )


def first_at_or_after(snapshot: LakeSnapshot, hub_commit_time: int) -> int:
    """The first sequence committed at that millisecond or later; upto_seq + 1 if there is none."""
    for segment in snapshot.manifest.segments:
        if segment.max_hub_commit_time < hub_commit_time:
            continue
        if segment.min_hub_commit_time >= hub_commit_time:
            return segment.from_seq
        times = pq.read_table(
            snapshot.folder.path(segment.rows), columns=["hub_commit_time"], partitioning=None
        )["hub_commit_time"]
        # Commit times never go back within a stream.
        return segment.from_seq + int(pc.sum(pc.less(times, hub_commit_time)).as_py())
    return snapshot.manifest.upto_seq + 1


def read_segment(
    folder: LakeFolder,
    segment: Segment,
    one: LakeFile,
    seqs: tuple[int, int],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """An inclusive range of `rows` or `proofs`, cut from the row groups that hold it."""
    first, last = max(seqs[0], segment.from_seq), min(seqs[1], segment.to_seq)
    path = folder.path(one)
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing", ErrorCode.DAMAGE) from None
    except pa.ArrowInvalid as flaw:
        raise StoreError(f"{path}: {flaw}", ErrorCode.DAMAGE) from flaw
    with file:
        groups, start = [], segment.from_seq
        at, group_bytes = None, 0
        for number in range(file.num_row_groups):
            count = file.metadata.row_group(number).num_rows
            if start <= last and first <= start + count - 1:
                groups.append(number)
                group_bytes += file.metadata.row_group(number).total_byte_size
                at = start if at is None else at
            start += count
        if at is None:
            return
        held = sum(file.metadata.row_group(number).num_rows for number in groups)
        # Large payloads make smaller batches: memory is bounded in bytes, not in events.
        batch_rows = max(1, min(BATCH_ROWS, BATCH_BYTES * held // max(1, group_bytes)))
        for batch in file.iter_batches(batch_rows, row_groups=groups, columns=list(columns)):
            begin, end = max(first - at, 0), min(last - at + 1, batch.num_rows)
            if begin < end:
                yield batch.slice(begin, end - begin)
            at += batch.num_rows
