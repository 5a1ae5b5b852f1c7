"""Every field of the lake against the log again, signatures included [architecture, The lake].

For each entry of a range, from the proofs files or from the hub: the RECEIPT is signed by a key of
the log, MSG.sig holds, ct_hash and leaf follow from the MSG bytes, the running root is the one its
RECEIPT names, and the MSG opened again gives every column of its row, shredded paths included. The
files must be those the manifest names, key copy and groups what the rows give. Tasks are chained to
each other and to a signed root, as in ingest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hub import mmr
from hub.errors import ErrorCode, ProofError, StoreError, VeenError
from hub.types import PublicKey
from hub.verify_range import check_entries
from recorder.lake.columns import (
    GROUPS,
    KEYS,
    PROOFS,
    ROWS,
    fields_table,
    groups_table,
    keys_table,
    path_column,
)
from recorder.lake.manifest import LakeFile, LakeManifest, Segment
from recorder.lake.reader import read_segment
from recorder.lake.segments import read_file
from recorder.lake.shred import shred
from recorder.projection import project_fields
from spark_jobs.chunk import StreamPlace
from spark_jobs.session import INGEST_POOL
from spark_jobs.sources import Entry, OpenLog
from spark_jobs.tasks import JobControl, run_tasks
from spark_jobs.trust import check_head, claimed_peaks, open_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART_EVENTS: Final = 16_384  # of one task, so that progress is seen and memory is bounded
DIFFERENCES_MAX: Final = 20  # of one part; all are counted
_TEXT_MAX: Final = 160
# What says something about lake or log; anything else is about this machine or this question.
_FLAWS: Final = frozenset({
    ErrorCode.DAMAGE, ErrorCode.EQUIVOCATION, ErrorCode.FORMAT, ErrorCode.PROOF, ErrorCode.SIG,
    ErrorCode.TRUST,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where lake and log disagree; `seq` is None for a whole file."""

    seq: int | None
    what: str
    lake: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """A part of one segment."""

    place: StreamPlace
    segment: Segment
    first: int
    last: int
    hub_keys: tuple[PublicKey, ...]
    from_hub: bool
    checks_files: bool  # one part of each segment does


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """What was found in one segment."""

    first: int
    last: int
    start_root: str | None
    end_root: str
    count: int  # of differences
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The verdict on a range."""

    first: int
    last: int
    upto_root: str
    events: int
    snapshot: int
    count: int
    differences: tuple[Difference, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        """Whether the lake says what the log says."""
        return self.count == 0


def audit(
    spark: SparkSession,
    place: StreamPlace,
    hub_pk: PublicKey,
    seqs: tuple[int, int] | None = None,
    *,
    from_hub: bool = False,
    control: JobControl | None = None,
) -> AuditResult:
    """Audit a range, or all that the lake holds; differences are found, not raised."""
    manifest = place.folder.read()
    if manifest is None or not manifest.segments:
        raise VeenError(ErrorCode.NOTFOUND, f"the lake holds nothing of {place.stream}")
    first, last = seqs or (manifest.first_seq, manifest.upto_seq)
    if not manifest.first_seq <= first <= last <= manifest.upto_seq:
        held = f"{manifest.first_seq} to {manifest.upto_seq}"
        raise VeenError(ErrorCode.NOTFOUND, f"the lake of {place.stream} holds {held}")
    log = place.source.open()
    try:
        chain = open_chain(log, hub_pk)
        root = check_head(log, chain, place.label, last).mmr_root.hex()
    finally:
        log.close()
    hub_keys = tuple(reversed(chain.keys))
    tasks = [
        AuditTask(
            place=_with_tried_keys(place, one),
            segment=one,
            first=start,
            last=min(start + PART_EVENTS - 1, last, one.to_seq),
            hub_keys=hub_keys,
            from_hub=from_hub,
            checks_files=start == max(first, one.from_seq),
        )
        for one in manifest.find(first, last)
        for start in range(max(first, one.from_seq), min(last, one.to_seq) + 1, PART_EVENTS)
    ]
    control = control or JobControl(pool=INGEST_POOL)
    answers = run_tasks(spark, tasks, audit_segment, SegmentVerdict, control)
    return _joined(manifest, tasks, answers, root)


def _joined(
    manifest: LakeManifest,
    tasks: Sequence[AuditTask],
    answers: Sequence[SegmentVerdict | VeenError],
    root: str,
) -> AuditResult:
    found: list[Difference] = []
    count = 0
    verdicts = []
    for task, answer in zip(tasks, answers, strict=True):
        if isinstance(answer, VeenError):
            if answer.code not in _FLAWS:
                raise answer
            what = f"segment {task.segment.name}"
            found.append(Difference(seq=None, what=what, lake="", log=str(answer)[:_TEXT_MAX]))
            count += 1
        else:
            verdicts.append(answer)
            found += answer.differences
            count += answer.count
    for before, after in pairwise(verdicts):
        if after.first == before.last + 1 and after.start_root != before.end_root:
            found.append(_difference(after.first, "chain", after.start_root, before.end_root))
            count += 1
    last = tasks[-1].last
    if verdicts and verdicts[-1].last == last and verdicts[-1].end_root != root:
        found.append(_difference(last, "signed root", verdicts[-1].end_root, root))
        count += 1
    return AuditResult(
        first=tasks[0].first,
        last=last,
        upto_root=root,
        events=last - tasks[0].first + 1,
        snapshot=manifest.snapshot,
        count=count,
        differences=tuple(found[:DIFFERENCES_MAX]),
    )


def _difference(seq: int | None, what: str, lake: object, log: object) -> Difference:
    return Difference(seq=seq, what=what, lake=str(lake)[:_TEXT_MAX], log=str(log)[:_TEXT_MAX])


def audit_segment(task: AuditTask) -> SegmentVerdict:
    """Compare one segment with the log; raises where there is nothing to compare with."""
    log = task.place.source.open()
    try:
        entries = _entries(task, log)
        peaks = claimed_peaks(log, task.place.label, task.first - 1)
    finally:
        log.close()
    start_root = mmr.root(peaks).hex() if peaks else None
    if len(entries) != task.last - task.first + 1:
        raise ProofError(f"{len(entries)} entries for {task.first} to {task.last}")
    check_entries(
        entries, label=task.place.label, first=task.first, hub_keys=task.hub_keys, peaks=peaks
    )
    secrets = task.place.opened_secrets()
    fields = [project_fields(msg, receipt, secrets) for receipt, msg in entries]
    truth = fields_table(task.place.stream, task.place.hub_id, fields)
    for path, column in shred(truth["payload_text"].to_pylist(), task.segment.paths).items():
        truth = truth.append_column(path_column(path), column)
    found = list(_row_differences(task, truth))
    if task.checks_files:
        found += [*_file_differences(task), *_copy_differences(task)]
    return SegmentVerdict(
        first=task.first,
        last=task.last,
        start_root=start_root,
        end_root=mmr.root(peaks).hex(),
        count=len(found),
        differences=tuple(found[:DIFFERENCES_MAX]),
    )


def _with_tried_keys(place: StreamPlace, segment: Segment) -> StreamPlace:
    """The keys that made the rows; a later one would open what they rightly call sealed."""
    tried = tuple([one for one in place.secrets if one.key_id in segment.key_ids])
    missing = set(segment.key_ids) - {one.key_id for one in tried}
    if missing:
        keys = ", ".join(map(str, sorted(missing)))
        raise VeenError(ErrorCode.KEYSTORE, f"{place.stream} was opened with keys {keys}")
    return replace(place, secrets=tried)


def _entries(task: AuditTask, log: OpenLog) -> list[Entry]:
    if task.from_hub:
        blocks = log.blocks(task.place.label, task.first, task.last)
        return [entry for block in blocks for entry in block]
    proofs = _read_part(task, task.segment.proofs, PROOFS.names)
    return list(zip(proofs["receipt"].to_pylist(), proofs["msg"].to_pylist(), strict=True))


def _read_part(task: AuditTask, one: LakeFile, columns: Sequence[str]) -> pa.Table:
    seqs = (task.first, task.last)
    try:
        batches = list(read_segment(task.place.folder, task.segment, one, seqs, columns))
        return pa.Table.from_batches(batches)
    except (OSError, ValueError, pa.ArrowException) as flaw:
        raise StoreError(f"{one.file}: {flaw}", ErrorCode.DAMAGE) from flaw


def _file_differences(task: AuditTask) -> Iterator[Difference]:
    for one in task.segment.files:
        try:
            task.place.folder.check(one)
        except VeenError as flaw:
            yield _difference(None, f"file {one.file}", flaw.detail, one.sha256)


def _row_differences(task: AuditTask, truth: pa.Table) -> Iterator[Difference]:
    """Columns compared whole; only those that differ are looked at row by row."""
    try:
        rows = _read_part(task, task.segment.rows, truth.schema.names)
    except VeenError as flaw:
        yield _difference(None, "rows", flaw.detail, "a readable file")
        return
    if rows.schema.names != truth.schema.names or rows.num_rows != truth.num_rows:
        yield _difference(None, "columns", rows.schema.names, truth.schema.names)
        return
    for name in truth.schema.names:
        lake, log = rows[name].to_pylist(), truth[name].to_pylist()
        if lake != log:
            for number, (ours, theirs) in enumerate(zip(lake, log, strict=True)):
                if ours != theirs:
                    yield _difference(task.first + number, name, ours, theirs)


def _copy_differences(task: AuditTask) -> Iterator[Difference]:
    """Key copy and groups against the rows they were made from."""
    segment, folder = task.segment, task.place.folder
    copies = (
        ("keys", segment.keys, KEYS, keys_table),
        ("groups", segment.groups, GROUPS, groups_table),
    )
    for name, one, schema, make in copies:
        if one is None:
            continue
        try:
            held = read_file(folder, one, schema)
            made = make(read_file(folder, segment.rows, ROWS)).cast(schema)
        except (VeenError, OSError, pa.ArrowException) as flaw:
            yield _difference(None, name, flaw, "a readable file")
            continue
        if not held.equals(made):
            yield _difference(None, name, "other rows", "what the rows give")
