"""Committed log to verified, opened, typed Parquet, exactly once [architecture, The lake].

    (1) take the stream's lock, read its manifest, remove what a killed run left behind
    (2) choose the end and check that a pinned key vouches for the root there
    (3) cut what is new into chunks and let tasks verify, open and write them
    (4) chain the chunks: manifest root -> chunk -> chunk -> signed root
    (5) merge and seal live segments, sync names, replace the manifest

Until the replacement in (5) nothing of a run exists for anyone; after it, all of it does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import Label, PublicKey
from hub.wire.receipt import Receipt
from recorder.lake import compaction
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment
from recorder.lake.segments import SEGMENT_EVENTS_MAX
from spark_jobs.chunk import Chunk, ChunkReport, StreamPlace, StreamSecret, ingest_chunk
from spark_jobs.session import INGEST_POOL
from spark_jobs.sources import LogSource, OpenLog
from spark_jobs.tasks import JobControl, run_tasks
from spark_jobs.trust import check_head, open_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_EVENTS_MIN: Final = 2_000
RUN_EVENTS_MAX: Final = 16 * SEGMENT_EVENTS_MAX  # so that a long backlog becomes visible in steps
RETENTION: Final = "retention took the payloads from the log"

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """One stream to be brought up to a sequence, or to its head."""

    lake: Path
    stream: str
    label: Label
    source: LogSource
    hub_pk: PublicKey  # pinned; rotations lead on from it
    now_ms: int
    parent_keys: tuple[PublicKey, ...] = ()
    secrets: tuple[StreamSecret, ...] = field(default=(), repr=False)  # newest first
    upto: int | None = None
    wait_s: float = 0.0  # for the stream's lock

    @property
    def folder(self) -> LakeFolder:
        """Where the stream's lake lies."""
        return LakeFolder.of(self.lake, self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What a run found and did."""

    manifest: LakeManifest
    events: int
    head_seq: int
    took_s: float


def ingest(spark: SparkSession, plan: IngestPlan, *, step: Step = lambda _: None) -> IngestResult:
    """Bring one stream's lake up to date, or raise and leave it as it was."""
    [found] = ingest_many(spark, [plan], step=step)
    if isinstance(found, VeenError):
        raise found
    return found


def ingest_many(
    spark: SparkSession, plans: Sequence[IngestPlan], *, step: Step = lambda _: None
) -> list[IngestResult | VeenError]:
    """The same for several streams in one Spark job; each stands or falls by itself."""
    started = time.monotonic()
    outcomes: list[IngestResult | VeenError] = [VeenError(ErrorCode.INTERNAL)] * len(plans)
    runs: list[tuple[int, _Run]] = []
    with contextlib.ExitStack() as locks:
        for number, plan in enumerate(plans):
            try:
                locks.enter_context(plan.folder.locked(wait_s=plan.wait_s))
                runs.append((number, _Run(plan, spark.sparkContext.defaultParallelism)))
            except VeenError as refusal:
                outcomes[number] = refusal
        step("planned")
        chunks = [chunk for _, run in runs for chunk in run.chunks]
        control = JobControl(pool=INGEST_POOL)
        answers = iter(run_tasks(spark, chunks, ingest_chunk, ChunkReport, control))
        step("written")
        for number, run in runs:
            try:
                manifest = run.finish([next(answers) for _ in run.chunks], step)
                outcomes[number] = IngestResult(
                    manifest=manifest,
                    events=run.events,
                    head_seq=run.head_seq,
                    took_s=time.monotonic() - started,
                )
            except VeenError as refusal:
                outcomes[number] = refusal
    return outcomes


def cut_range(first: int, last: int, parallelism: int) -> Iterator[tuple[int, int]]:
    """Equal parts: enough for all cores, none too small to be worth a task, none too large."""
    count = last - first + 1
    parts = max(min(parallelism, count // CHUNK_EVENTS_MIN), -(-count // SEGMENT_EVENTS_MAX), 1)
    if parts > parallelism:
        parts = -(-parts // parallelism) * parallelism
    for number in range(parts):
        yield first + count * number // parts, first + count * (number + 1) // parts - 1


class _Run:
    """One stream between its lock and its new manifest."""

    def __init__(self, plan: IngestPlan, parallelism: int) -> None:
        self._plan = plan
        self._old = plan.folder.read()
        plan.folder.clean(self._old)
        log = plan.source.open()
        try:
            self._prepare(log, parallelism)
        finally:
            log.close()

    def _prepare(self, log: OpenLog, parallelism: int) -> None:
        plan = self._plan
        chain = open_chain(log, plan.hub_pk, plan.parent_keys)
        self._manifest = self._old or LakeManifest(
            stream=plan.stream, label=plan.label.hex(), hub_id=chain.hub_id.hex()
        )
        if self._manifest.hub_id != chain.hub_id.hex() or self._manifest.stream != plan.stream:
            detail = f"{plan.folder.root} holds another log than {plan.stream} of this hub"
            raise ProofError(detail, ErrorCode.TRUST)
        self.chunks: list[Chunk] = []
        self.events = 0
        head = log.head(plan.label)
        self.head_seq = 0
        if head is None:
            return
        self.head_seq = check_head(
            log, chain, plan.label, Receipt.decode(head).stream_seq
        ).stream_seq
        first_held = log.first_held(plan.label)
        self._manifest = compaction.prune(plan.folder, self._manifest, first_held, RETENTION)
        first = self._manifest.upto_seq + 1
        wanted = self.head_seq if plan.upto is None else min(plan.upto, self.head_seq)
        last = min(wanted, first + RUN_EVENTS_MAX - 1)
        if last < first:
            return
        self._root = check_head(log, chain, plan.label, last).mmr_root.hex()
        place = StreamPlace(
            lake=plan.lake,
            stream=plan.stream,
            label=plan.label,
            hub_id=chain.hub_id,
            source=plan.source,
            secrets=plan.secrets,
        )
        self.events = last - first + 1
        self.chunks = [
            Chunk(place=place, first=start, last=end)
            for start, end in cut_range(first, last, parallelism)
        ]

    def finish(self, answers: Sequence[ChunkReport | VeenError], step: Step) -> LakeManifest:
        """Publish what the tasks wrote, once it is chained to a signed root."""
        plan, new = self._plan, self._manifest
        reports = []
        for answer in answers:
            if isinstance(answer, VeenError):
                raise answer
            reports.append(answer)
        if reports:
            self._check_chain(reports)
            added: list[Segment] = [one for report in reports for one in report.segments]
            new = compaction.append(plan.folder, new, added, now_ms=plan.now_ms)
        else:
            new = compaction.seal(plan.folder, new, now_ms=plan.now_ms)
        step("settled")
        if new == (self._old or replace(new, snapshot=-1)):
            return new
        published = plan.folder.publish(self._old, new, now_ms=plan.now_ms)
        step("published")
        plan.folder.clean(published)  # parts that were merged before anyone could name them
        return published

    def _check_chain(self, reports: Sequence[ChunkReport]) -> None:
        """Each part goes on from the one before; the first from the manifest, the last to the head.

        Where the lake starts after a pruned part there is no root to go on from: then the signed
        root at the end alone proves the peaks that the first part was given.
        """
        known = self._manifest.upto_root
        if known is not None and reports[0].start_root != known:
            detail = f"the log before {reports[0].first} is not the one that was ingested"
            raise ProofError(detail, ErrorCode.EQUIVOCATION)
        for before, after in pairwise(reports):
            if after.first != before.last + 1 or after.start_root != before.end_root:
                raise ProofError(f"the log does not go on at {after.first}")
        if reports[-1].end_root != self._root:
            raise ProofError(f"the root at {reports[-1].last} is not the signed one")
