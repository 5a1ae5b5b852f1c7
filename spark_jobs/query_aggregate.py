"""Aggregates: groups folded where they are read, merged, ordered and encoded [query, Rows]."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from queryapi.contract.descriptor import Aggregate, Descriptor
from queryapi.contract.rows import CLOSE, OPEN, RowShape
from queryapi.result_files import INDEX, ROWS, Joined, JoinedFile
from spark_jobs.query_batch import Batch
from spark_jobs.query_damage import reading
from spark_jobs.query_filter import matching, unreadable
from spark_jobs.query_groups import Gathered, Partial, merge, partial_of
from spark_jobs.query_job import QueryJob, QueryLimits
from spark_jobs.query_metrics import in_order, nothing, row_columns, with_distinct
from spark_jobs.query_parts import IndexFile
from spark_jobs.query_plan import Chunk, Plan, deal
from spark_jobs.query_select import check_limits
from spark_jobs.query_summary import grouping_of, split, summarized
from spark_jobs.query_tables import load, save
from spark_jobs.query_tasks import Engine
from spark_jobs.query_text import Encoded, encode_columns

_FOLD_ROWS: Final = 262_144
_FOLD_BYTES: Final = 128 * 1024 * 1024
_MERGE_ROWS: Final = 500_000
_ENCODE_ROWS: Final = 32_768
_ENCODE_ROWS_MIN: Final = 4_096  # fewer are spelled before another thread has started


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Where one run of chunks left its partial groups; None when nothing matched."""

    groups: str | None
    distinct: dict[int, str]
    unreadable_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """The rows file, and the groups behind its rows in their order."""

    rows: Joined
    groups: pa.Table | None  # None when nothing matched
    unreadable_count: int


def aggregate(engine: Engine, job: QueryJob, plan: Plan, parts: Path) -> Aggregation:
    """Write rows and index of an aggregate."""
    descriptor = job.descriptor
    asked = descriptor.aggregate
    assert asked is not None
    grouping = grouping_of(descriptor)
    told, scanned = split(plan.chunks, grouping)
    runs = deal(scanned, cores=engine.cores, tasks=job.tasks)
    found = engine.run("groups", partial(_fold_run, descriptor, job.limits, parts), runs)
    partials = [_load(one) for one in found if one.groups is not None]
    if told:
        partials.append(summarized(descriptor, told, grouping or "", engine.cores))
    merged = merge(asked, partials)
    groups = None if merged is None else in_order(asked, merged)
    distinct = {} if merged is None else merged.distinct
    rows = _write(job, asked, groups, distinct, engine.cores)
    return Aggregation(
        rows=rows,
        groups=groups,
        unreadable_count=plan.unreadable_count + sum(one.unreadable_count for one in found),
    )


def _write(
    job: QueryJob,
    asked: Aggregate,
    groups: pa.Table | None,
    distinct: dict[int, pa.Table],
    cores: int,
) -> Joined:
    shape = RowShape.of(job.descriptor)
    if groups is not None:
        check_limits(job.limits, groups.num_rows, 0)
        groups = with_distinct(asked, groups, distinct)
    with (
        JoinedFile(job.folder / ROWS, OPEN, CLOSE) as rows,
        IndexFile(job.folder / INDEX) as index,
    ):
        for pieces in _encoded(shape, asked, groups, cores):
            for encoded in pieces:
                rows.add(encoded.data, encoded.rows)
                index.add(encoded.lengths)
                check_limits(job.limits, 0, rows.bytes)
        joined = rows.finish()
        index.finish()
    return joined


def _encoded(
    shape: RowShape, asked: Aggregate, groups: pa.Table | None, cores: int
) -> Iterator[list[Encoded]]:
    """The rows in pieces; the next ones are spelled by other threads while one is written."""
    if groups is None or not groups.num_rows:
        if not asked.group_by:
            yield encode_columns(shape, nothing(asked))
        return

    step = min(_ENCODE_ROWS, max(_ENCODE_ROWS_MIN, -(-groups.num_rows // cores)))

    def spell(start: int) -> list[Encoded]:
        return encode_columns(shape, row_columns(asked, groups.slice(start, step)))

    if groups.num_rows <= step:
        yield spell(0)
        return
    starts = iter(range(0, groups.num_rows, step))
    with ThreadPoolExecutor(cores) as pool:
        ahead = deque(pool.submit(spell, start) for start in islice(starts, cores + 1))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(pool.submit(spell, start) for start in islice(starts, 1))


def _fold_run(
    descriptor: Descriptor, limits: QueryLimits, parts: Path, number: int, chunks: Sequence[Chunk]
) -> Folded:
    """A task: filter and fold the events of some chunks."""
    asked = descriptor.aggregate
    assert asked is not None
    fold = _Fold(asked, limits)
    errors = 0
    for chunk in chunks:
        with reading(chunk, descriptor.evidence.mode):
            if chunk.counts_unreadable:
                errors += unreadable(chunk, descriptor.filter)
            for batch in matching(chunk, descriptor.filter):
                fold.add(batch)
    folded = fold.finish()
    if folded is None:
        return Folded(groups=None, distinct={}, unreadable_count=errors)
    stem = parts / f"{number:06}-{secrets.token_hex(8)}"
    distinct = {
        metric: save(pairs, stem.with_suffix(f".d{metric}.arrow"))
        for metric, pairs in folded.distinct.items()
    }
    groups = save(folded.groups, stem.with_suffix(".arrow"))
    return Folded(groups=groups, distinct=distinct, unreadable_count=errors)


class _Fold:
    """Gathers events, folds them when enough have come together, keeps one partial."""

    def __init__(self, asked: Aggregate, limits: QueryLimits) -> None:
        self._asked = asked
        self._limits = limits
        self._gathered: Gathered | None = None
        self._waiting: list[Partial] = []
        self._rows = 0  # of partials that wait to be merged

    def add(self, batch: Batch) -> None:
        """Take the rows of a batch; batches come in (stream, seq) order."""
        gathered = self._gathered
        if gathered is not None and gathered.stream != batch.chunk.stream:
            self._fold()
        if self._gathered is None:
            self._gathered = Gathered(self._asked, batch.chunk.stream)
        self._gathered.add(batch)
        if self._gathered.rows >= _FOLD_ROWS or self._gathered.bytes >= _FOLD_BYTES:
            self._fold()

    def _fold(self) -> None:
        if self._gathered is None:
            return
        one = partial_of(self._asked, self._gathered)
        self._gathered = None
        self._waiting.append(one)
        self._rows += one.groups.num_rows + sum(two.num_rows for two in one.distinct.values())
        if self._rows > _MERGE_ROWS and len(self._waiting) > 1:
            self._merge()

    def _merge(self) -> None:
        merged = merge(self._asked, self._waiting)
        assert merged is not None
        self._waiting, self._rows = [merged], 0  # Again when as much again has come together.
        check_limits(self._limits, merged.groups.num_rows, 0)

    def finish(self) -> Partial | None:
        """All groups; None when nothing came."""
        self._fold()
        if len(self._waiting) > 1:
            self._merge()
        return self._waiting[0] if self._waiting else None


def _load(one: Folded) -> Partial:
    assert one.groups is not None
    return Partial(
        groups=load(one.groups),
        distinct={metric: load(path) for metric, path in one.distinct.items()},
    )
