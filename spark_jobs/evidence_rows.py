"""The events behind the rows of an answer, verified, and the summary of it [Query 5.4, 6]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract import evidence
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Aggregate, Descriptor, Mode
from queryapi.contract.rows import RowShape
from queryapi.result_files import EVIDENCE, Joined, JoinedFile
from spark_jobs.evidence_events import EventChecker, Witness
from spark_jobs.evidence_groups import (
    EVENTS,
    GROUP,
    HASH,
    Dealt,
    LeafDealer,
    group_names,
    groups_of,
    hash_bucket,
)
from spark_jobs.query_aggregate import Aggregation
from spark_jobs.query_batch import Batch
from spark_jobs.query_damage import checking
from spark_jobs.query_dictionary import decoded
from spark_jobs.query_filter import matching
from spark_jobs.query_groups import EVENTS as GROUP_EVENTS
from spark_jobs.query_groups import key_names
from spark_jobs.query_job import QueryJob
from spark_jobs.query_parts import Part, PartWriter, join_part
from spark_jobs.query_plan import Chunk, Plan, deal
from spark_jobs.query_select import Selection
from spark_jobs.query_tables import load
from spark_jobs.query_tasks import Engine
from spark_jobs.query_text import Encoded, encode_columns, quote

_EVENT: Final = RowShape(["hub_id", "mmr_root", "receipt_id", "row", "seq", "stream"])
_GROUP: Final = RowShape(["events", "receipt_id", "row"])
_NO_EVENTS: Final = sha256().hexdigest()

Witnesses = Mapping[str, Witness]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Chunks, and the index of the first row they gave."""

    chunks: tuple[Chunk, ...]
    first_row: int


def verify_selection(
    engine: Engine, job: QueryJob, selection: Selection, witnesses: Witnesses, parts: Path
) -> Joined:
    """Verify the sampled rows of a selection and write the summary."""
    starts = [0, *accumulate(selection.run_rows)]
    runs = [
        Run(chunks=chunks, first_row=start)
        for chunks, start, rows in zip(selection.runs, starts, selection.run_rows, strict=False)
        if rows
    ]
    work = partial(_verify_run, job.descriptor, witnesses, parts)
    found = engine.run("evidence: rows", work, runs)
    head = evidence.summary_head(job.descriptor)
    with JoinedFile(job.folder / EVIDENCE, head, evidence.TAIL) as summary:
        for part in found:
            join_part(part, summary, None)
        return summary.finish()


def _verify_run(
    descriptor: Descriptor, witnesses: Witnesses, parts: Path, number: int, run: Run
) -> Part:
    """A task: verify the sampled rows of some chunks and write their entries."""
    sampler = evidence.Sampler(descriptor)
    writer = PartWriter(parts, number)
    row = run.first_row
    for chunk in run.chunks:
        checker = EventChecker(witnesses[chunk.stream], chunk)
        with checking(chunk):
            for batch in matching(chunk, descriptor.filter):
                taken = [at for at in range(batch.rows) if sampler.takes(row + at)]
                rows = [row + at for at in taken]
                row += batch.rows
                if taken:
                    batch.keep(taken)
                    checker.verify(batch, is_signed=True)
                    for entries in _entries(batch, rows):
                        writer.add(entries)
    return writer.finish()


def _entries(batch: Batch, rows: Sequence[int]) -> list[Encoded]:
    roots = [f'"{root.hex()}"' for root in batch.raw("mmr_root").to_pylist()]
    count = len(rows)
    stream = quote(pa.array([batch.chunk.stream], pa.string()))[0]
    columns = {
        "hub_id": pa.repeat(pa.scalar(f'"{batch.chunk.hub_id}"'), count),
        "mmr_root": pa.array(roots, pa.string()),
        "receipt_id": quote(batch.raw("receipt_id")),
        "row": pa.array(rows, pa.int64()).cast(pa.string()),
        "seq": pa.array(batch.seqs(), pa.int64()).cast(pa.string()),
        "stream": pa.repeat(stream, count),
    }
    return encode_columns(_EVENT, [columns[name] for name in _EVENT.names])


def verify_groups(  # noqa: PLR0917 - one step of a query
    engine: Engine,
    job: QueryJob,
    plan: Plan,
    found: Aggregation,
    witnesses: Witnesses,
    parts: Path,
) -> Joined:
    """Verify every event of the sampled groups of an aggregate and write the summary."""
    descriptor = job.descriptor
    asked = descriptor.aggregate
    assert asked is not None
    names, counts = _rows_of(asked, found)
    sampler = evidence.Sampler(descriptor)
    rows = [row for row in range(len(names)) if sampler.takes(row)]
    sampled = names.take(pa.array(rows, pa.int64()))
    table = _hashed(engine, job, plan, None if descriptor.evidence.mode is Mode.FULL else sampled,
                    witnesses, parts)  # fmt: skip
    place = pc.index_in(sampled, value_set=table[GROUP].combine_chunks())
    events = pc.fill_null(table[EVENTS].combine_chunks().take(place), pa.scalar(0, pa.int64()))
    hashes = pc.fill_null(table[HASH].combine_chunks().take(place), pa.scalar(_NO_EVENTS))
    if not events.equals(counts.take(pa.array(rows, pa.int64()))):
        message = "a group has not the events that were verified for it"
        raise QueryError(QueryCode.EVIDENCE_FAILED, message)
    columns = [
        events.cast(pa.string()),
        pc.binary_join_element_wise('"rset-', hashes, '"', ""),
        pa.array(rows, pa.int64()).cast(pa.string()),
    ]
    head = evidence.summary_head(descriptor)
    with JoinedFile(job.folder / EVIDENCE, head, evidence.TAIL) as summary:
        for entries in encode_columns(_GROUP, columns) if rows else ():
            summary.add(entries.data, entries.rows)
        return summary.finish()


def _rows_of(asked: Aggregate, found: Aggregation) -> tuple[pa.Array, pa.Array]:
    """The name of each row's group, and how many events the answer counts in it."""
    groups = found.groups
    if groups is None or not groups.num_rows:
        only = 0 if asked.group_by else 1
        return pa.repeat(pa.scalar("[]"), only), pa.repeat(0, only).cast(pa.int64())
    keys = [decoded(groups[name].combine_chunks()) for name in key_names(asked)]
    return group_names(keys, groups.num_rows), groups[GROUP_EVENTS].combine_chunks()


def _hashed(  # noqa: PLR0917 - one step of a query
    engine: Engine,
    job: QueryJob,
    plan: Plan,
    sampled: pa.Array | None,
    witnesses: Witnesses,
    parts: Path,
) -> pa.Table:
    """Groups with their events counted and hashed; only the sampled ones, or all."""
    empty = pa.table({
        GROUP: pa.array([], pa.string()), EVENTS: pa.array([], pa.int64()),
        HASH: pa.array([], pa.string()),
    })  # fmt: skip
    if sampled is not None and not len(sampled):
        return empty
    runs = deal(plan.chunks, cores=engine.cores, tasks=job.tasks, is_verified=True)
    wanted = None if sampled is None else frozenset(sampled.to_pylist())
    work = partial(_deal_run, job.descriptor, witnesses, parts, engine.cores, wanted)
    dealt = engine.run("evidence: groups", work, runs)
    buckets = [
        [one.files[bucket] for one in dealt if bucket in one.files]
        for bucket in range(engine.cores)
    ]
    paths = engine.run("evidence: hashes", partial(hash_bucket, parts), [b for b in buckets if b])
    return pa.concat_tables([empty, *[load(path) for path in paths]])


def _deal_run(  # noqa: PLR0917 - one task
    descriptor: Descriptor,
    witnesses: Witnesses,
    parts: Path,
    buckets: int,
    wanted: frozenset[str] | None,
    number: int,
    chunks: Sequence[Chunk],
) -> Dealt:
    """A task: verify the events of sampled groups and deal out their leaves."""
    asked = descriptor.aggregate
    assert asked is not None
    dealer = LeafDealer(buckets)
    for chunk in chunks:
        checker = EventChecker(witnesses[chunk.stream], chunk)
        with checking(chunk):
            for batch in matching(chunk, descriptor.filter):
                codes, names = groups_of(asked, batch)
                if wanted is not None:
                    is_wanted = pa.array([name in wanted for name in names.to_pylist()])
                    mask = is_wanted.take(codes)
                    codes = codes.filter(mask)
                    batch.narrow(mask)
                if batch.rows:
                    checker.verify(batch, is_signed=True)
                    dealer.add(names.take(codes), batch.raw("leaf_hash"))
    return dealer.finish(parts, number)
