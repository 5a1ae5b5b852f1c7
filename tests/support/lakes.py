"""Segments and manifests made straight from a recorded log, as ingest would make them."""

from __future__ import annotations

import pyarrow as pa

from recorder.lake.columns import PROOFS, rows_table
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment, SegmentState
from recorder.lake.segments import SegmentContent, write_segment
from tests.support.recorded_log import RecordedLog, RecordedStream


def content(log: RecordedLog, stream: RecordedStream, first: int, last: int) -> SegmentContent:
    rows = log.rows(stream)[first - 1 : last]
    entries = log.entries(stream)[first - 1 : last]
    proofs = pa.Table.from_pydict(
        {
            "hub_commit_seq": list(range(first, last + 1)),
            "msg": [msg for _, msg in entries],
            "receipt": [receipt for receipt, _ in entries],
        },
        schema=PROOFS,
    )
    key_ids = tuple(sorted(key_id for key_id, _ in stream.secrets))
    return SegmentContent(
        rows=rows_table(rows), proofs=proofs, upto_root=rows[-1].mmr_root, key_ids=key_ids
    )


def segment(  # noqa: PLR0917 - what it is made of
    log: RecordedLog,
    stream: RecordedStream,
    folder: LakeFolder,
    first: int,
    last: int,
    state: SegmentState = SegmentState.LIVE,
) -> Segment:
    return write_segment(folder, content(log, stream, first, last), state)


def manifest(log: RecordedLog, stream: RecordedStream, *segments: Segment) -> LakeManifest:
    return LakeManifest(
        stream=stream.name,
        label=stream.label.hex(),
        hub_id=log.core.identity.hub_id.hex(),
        first_seq=segments[0].from_seq if segments else 1,
        upto_seq=segments[-1].to_seq if segments else 0,
        upto_root=segments[-1].upto_root if segments else None,
        segments=segments,
    )
