"""A newly granted reader key opens what was sealed, from the proofs files [architecture].

The messages are the same bytes as before, so nothing is asked of the hub. Segments that change are
replaced in a new snapshot; of sealed ones the log is told which files took the place of which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hub.errors import VeenError
from hub.types import MmrRoot
from recorder.lake import compaction
from recorder.lake.columns import PROOFS, fields_table
from recorder.lake.manifest import LakeManifest, Segment
from recorder.lake.segments import SegmentContent, read_file, write_segment
from recorder.projection import RowError, project_fields
from spark_jobs.chunk import StreamPlace
from spark_jobs.session import INGEST_POOL
from spark_jobs.tasks import JobControl, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenTask:
    """One segment whose messages are tried with the keys at hand."""

    place: StreamPlace
    segment: Segment


def may_open_more(manifest: LakeManifest, key_ids: Sequence[int]) -> tuple[Segment, ...]:
    """Segments with sealed events on which some of these keys were never tried."""
    return tuple([
        one
        for one in manifest.segments
        if one.summary.errors.get(RowError.SEALED) and not set(key_ids) <= set(one.key_ids)
    ])  # fmt: skip


def reopen_segment(task: ReopenTask) -> Segment:
    """The segment as the keys at hand show it."""
    folder, segment = task.place.folder, task.segment
    proofs = read_file(folder, segment.proofs, PROOFS)
    secrets = task.place.opened_secrets()
    fields = [
        project_fields(msg, receipt, secrets)
        for msg, receipt in zip(
            proofs["msg"].to_pylist(), proofs["receipt"].to_pylist(), strict=True
        )
    ]
    content = SegmentContent(
        rows=fields_table(task.place.stream, task.place.hub_id, fields),
        proofs=proofs,
        upto_root=MmrRoot(bytes.fromhex(segment.upto_root)),
        key_ids=tuple(sorted({*task.place.key_ids, *segment.key_ids})),
    )
    return write_segment(folder, content, segment.state)


def reopen(
    spark: SparkSession, place: StreamPlace, *, now_ms: int, wait_s: float = 0.0
) -> LakeManifest | None:
    """Replace every segment that the keys at hand may open further; None for no lake."""
    with place.folder.locked(wait_s=wait_s):
        old = place.folder.read()
        due = () if old is None else may_open_more(old, place.key_ids)
        if old is None or not due:
            return old
        tasks = [ReopenTask(place=place, segment=one) for one in due]
        control = JobControl(pool=INGEST_POOL)
        changes = []
        for before, after in zip(
            due, run_tasks(spark, tasks, reopen_segment, Segment, control), strict=True
        ):
            if isinstance(after, VeenError):
                raise after
            changes.append((before, after))
        keys = ", ".join(map(str, place.key_ids))
        new = compaction.reseal(old, changes, f"opened with the reader keys {keys}")
        return place.folder.publish(old, new, now_ms=now_ms)
