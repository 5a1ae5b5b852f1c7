"""Segments as files: written from rows and proofs, merged, sealed [architecture, The lake]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub.types import MmrRoot
from recorder.lake.columns import (
    GROUP_FIELDS,
    GROUPS,
    KEYS,
    PROOFS,
    ROWS,
    groups_tables,
    keys_table,
    path_column,
    summarize,
)
from recorder.lake.folder import LakeFolder, Spelling, write_table
from recorder.lake.manifest import (
    BUCKETS,
    KeyFile,
    LakeFile,
    Segment,
    SegmentState,
)
from recorder.lake.shred import frequent_paths, shred

SEAL_EVENTS: Final = 10_000
SEGMENT_EVENTS_MAX: Final = 131_072
SEGMENT_BYTES_MAX: Final = 192 * 1024 * 1024  # of proofs, which are held in memory while written

_ROWS: Final = Spelling(
    kind="rows",
    row_group_rows=32_768,
    plain=("hub_commit_seq", "leaf_hash", "mmr_root", "receipt_id", "payload_text"),
)
# Signatures and sealed bytes do not compress.
_PROOFS: Final = Spelling(
    kind="proofs", compression="none", row_group_rows=8_192, plain=tuple(PROOFS.names)
)
_KEYS: Final = Spelling(kind="keys", row_group_rows=SEGMENT_EVENTS_MAX, plain=("hub_commit_seq",))
_GROUPS: Final = Spelling(
    kind="groups",
    row_group_rows=SEGMENT_EVENTS_MAX,
    plain=tuple(name for name in GROUPS.names if name not in {"grouping", *GROUP_FIELDS}),
)


def date_of(hub_commit_time: int) -> str:
    """The UTC date of a commit, which is the partition of its segment."""
    return datetime.fromtimestamp(hub_commit_time // 1000, UTC).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContent:
    """The rows (columns of `columns.ROWS`) and proofs of one segment to be, of one date."""

    rows: pa.Table
    proofs: pa.Table
    upto_root: MmrRoot
    key_ids: tuple[int, ...]


def write_segment(folder: LakeFolder, content: SegmentContent, state: SegmentState) -> Segment:
    """Write the files of a segment; it exists only once a manifest names it."""
    rows = content.rows.select(ROWS.names).combine_chunks()
    seqs, times = rows["hub_commit_seq"], rows["hub_commit_time"]
    first, last = seqs[0].as_py(), seqs[-1].as_py()
    date, stem = date_of(times[0].as_py()), f"{first}-{last}"
    assert date == date_of(times[-1].as_py()), "a segment has one date"
    texts = rows["payload_text"].to_pylist()
    paths = frequent_paths(texts)
    shredded = rows
    for path, column in shred(texts, paths).items():
        shredded = shredded.append_column(path_column(path), column)
    is_sealed = state is SegmentState.SEALED
    groups = groups_tables(rows) if is_sealed else {}
    rows_file = write_table(folder.root, date, stem, [shredded], _ROWS)
    return Segment(
        name=rows_file.file.rpartition("/")[2].removesuffix(".rows.parquet"),
        from_seq=first,
        to_seq=last,
        date=date,
        state=state,
        rows=rows_file,
        proofs=write_table(folder.root, date, stem, [content.proofs], _PROOFS),
        keys=_write_keys(folder.root, date, stem, rows) if is_sealed else None,
        # A row group for each grouping, so that a question reads the one it needs.
        groups=write_table(folder.root, date, stem, list(groups.values()), _GROUPS)
        if groups
        else None,
        upto_root=content.upto_root.hex(),
        min_hub_commit_time=times[0].as_py(),
        max_hub_commit_time=times[-1].as_py(),
        summary=summarize(rows, list(groups)),
        paths=paths,
        key_ids=content.key_ids,
    )


def _write_keys(folder: Path, date: str, stem: str, rows: pa.Table) -> KeyFile | None:
    keys = keys_table(rows)
    if not keys.num_rows:
        return None
    counts = [0] * BUCKETS
    for one in keys["bucket"].value_counts().to_pylist():
        counts[one["values"]] = one["counts"]
    parts, start = [], 0
    for count in counts:
        if count:
            parts.append(keys.slice(start, count))
        start += count
    written = write_table(folder, date, stem, [part.cast(KEYS) for part in parts], _KEYS)
    return KeyFile(
        file=written.file, bytes=written.bytes, sha256=written.sha256, buckets=tuple(counts)
    )


def read_file(folder: LakeFolder, one: LakeFile, schema: pa.Schema) -> pa.Table:
    """The columns of a schema from a file, after its hash was compared with the manifest's."""
    folder.check(one)
    with pq.ParquetFile(folder.path(one)) as file:
        return file.read(columns=schema.names).cast(schema)


def merge_segments(folder: LakeFolder, segments: Sequence[Segment], state: SegmentState) -> Segment:
    """One segment with the rows of several that follow each other on one date."""
    assert len({one.date for one in segments}) == 1, "a segment has one date"
    tried = set.intersection(*[set(one.key_ids) for one in segments])
    content = SegmentContent(
        rows=pa.concat_tables([read_file(folder, one.rows, ROWS) for one in segments]),
        proofs=pa.concat_tables([read_file(folder, one.proofs, PROOFS) for one in segments]),
        upto_root=MmrRoot(bytes.fromhex(segments[-1].upto_root)),
        key_ids=tuple(sorted(tried)),
    )
    seqs = content.rows["hub_commit_seq"]
    expected = pa.array(range(segments[0].from_seq, segments[-1].to_seq + 1), pa.int64())
    assert pc.all(pc.equal(seqs, expected)).as_py(), "segments follow each other"
    return write_segment(folder, content, state)
