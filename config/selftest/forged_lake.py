"""A lake changed by someone who can write its files, manifest included [architecture, The lake]."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa

from hub.selftest.checks import NotHeldError
from hub.types import MmrRoot
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment
from recorder.lake.segments import SegmentContent, read_file, write_segment


def manifest_of(folder: LakeFolder) -> LakeManifest:
    """The snapshot as it is; there must be one."""
    found = folder.read()
    if found is None:
        raise NotHeldError("no manifest")
    return found


def change_payload(folder: LakeFolder, honest: LakeManifest) -> int:
    """Change one readable payload of the first segment; the sequence of that event."""
    first = honest.segments[0]
    rows = read_file(folder, first.rows, ROWS)
    readable = [not error for error in rows["error"].to_pylist()]
    position = readable.index(True)
    payloads = rows["payload_text"].to_pylist()
    payloads[position] = '"forged"'
    place = rows.schema.get_field_index("payload_text")
    column = pa.array(payloads, rows.schema.field(place).type)
    changed = rows.set_column(place, "payload_text", column)
    content = SegmentContent(
        rows=changed,
        proofs=read_file(folder, first.proofs, PROOFS),
        upto_root=MmrRoot(bytes.fromhex(first.upto_root)),
        key_ids=first.key_ids,
    )
    with folder.locked(wait_s=30):
        forged: Segment = write_segment(folder, content, first.state)
        _publish(folder, (forged, *honest.segments[1:]))
    return int(rows["hub_commit_seq"][position].as_py())


def put_back(folder: LakeFolder, honest: LakeManifest) -> None:
    """The honest segments again."""
    with folder.locked(wait_s=30):
        _publish(folder, honest.segments)


def _publish(folder: LakeFolder, segments: tuple[Segment, ...]) -> None:
    now = manifest_of(folder)
    kept = {one.file for segment in segments for one in segment.files}
    retired = tuple(one for one in now.retired if one.file not in kept)
    new = replace(now, segments=segments, retired=retired)
    folder.publish(now, new, now_ms=time.time_ns() // 1_000_000)
