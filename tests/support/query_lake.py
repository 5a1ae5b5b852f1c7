"""Lakes made straight from rows, cut into segments anywhere, as ingest might have left them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from hub.storage.disk import Disk
from hub.types import Label
from recorder.lake.columns import PROOFS, rows_table
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, SegmentState
from recorder.lake.segments import SegmentContent, date_of, write_segment
from recorder.projection import Row

Entry = tuple[bytes, bytes]  # MSG, RECEIPT


def write_lake(
    lake: Path,
    label: Label,
    rows: Sequence[Row],
    *,
    segment_rows: int,
    entries: Sequence[Entry] | None = None,
    live: int = 1,
    key_ids: tuple[int, ...] = (1,),
) -> LakeManifest:
    """The rows of one stream, in segments; the last `live` of them are not sealed."""
    folder = LakeFolder.of(lake, label)
    Disk().mkdir(folder.root)
    cuts = _cuts(rows, segment_rows)
    segments = []
    for number, (first, last) in enumerate(cuts):
        own = rows[first:last]
        proofs = [(b"", b"")] * len(own) if entries is None else entries[first:last]
        content = SegmentContent(
            rows=rows_table(own),
            proofs=pa.Table.from_pydict(
                {
                    "hub_commit_seq": [row.hub_commit_seq for row in own],
                    "msg": [msg for msg, _ in proofs],
                    "receipt": [receipt for _, receipt in proofs],
                },
                schema=PROOFS,
            ),
            upto_root=own[-1].mmr_root,
            key_ids=key_ids,
        )
        is_live = number >= len(cuts) - live
        state = SegmentState.LIVE if is_live else SegmentState.SEALED
        segments.append(write_segment(folder, content, state))
    manifest = LakeManifest(
        stream=rows[0].stream,
        label=label.hex(),
        hub_id=rows[0].hub_id.hex(),
        first_seq=rows[0].hub_commit_seq,
        upto_seq=rows[-1].hub_commit_seq,
        upto_root=segments[-1].upto_root,
        segments=tuple(segments),
    )
    return folder.publish(None, manifest, now_ms=0)


def _cuts(rows: Sequence[Row], segment_rows: int) -> list[tuple[int, int]]:
    """Ends of segments: every so many rows, and wherever the date changes."""
    cuts, start = [], 0
    for index in range(1, len(rows) + 1):
        is_end = index == len(rows)
        is_new_date = not is_end and date_of(rows[index].hub_commit_time) != date_of(
            rows[start].hub_commit_time
        )
        if is_end or is_new_date or index - start == segment_rows:
            cuts.append((start, index))
            start = index
    return cuts


def write_lakes(
    lake: Path, rows: Sequence[Row], labels: Mapping[str, Label], *, segment_rows: int
) -> None:
    """A lake for each stream among the rows."""
    for stream, label in labels.items():
        own = [row for row in rows if row.stream == stream]
        if own:
            write_lake(lake, label, own, segment_rows=segment_rows)
