"""Selections: one row for each event that matches, encoded where it is read [query, Rows]."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor, Mode
from queryapi.contract.rows import CLOSE, OPEN, RowShape
from queryapi.result_files import INDEX, ROWS, Joined, JoinedFile
from spark_jobs.query_damage import reading
from spark_jobs.query_filter import matching, unreadable
from spark_jobs.query_job import QueryJob, QueryLimits
from spark_jobs.query_parts import IndexFile, Part, PartWriter, join_part
from spark_jobs.query_plan import Chunk, Plan, deal
from spark_jobs.query_tasks import Engine
from spark_jobs.query_text import encode_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What one run of chunks gave."""

    part: Part
    unreadable_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rows file, and how many rows each run of chunks gave."""

    rows: Joined
    runs: tuple[tuple[Chunk, ...], ...]
    run_rows: tuple[int, ...]
    unreadable_count: int


def select(engine: Engine, job: QueryJob, plan: Plan, parts: Path) -> Selection:
    """Write rows and index of a selection."""
    is_verified = job.descriptor.evidence.mode is not Mode.NONE
    runs = deal(plan.chunks, cores=engine.cores, tasks=job.tasks, is_verified=is_verified)
    work = partial(_select_run, job.descriptor, job.limits, parts)
    found = engine.run("rows", work, runs)
    for rows, size in _running_totals(found):
        check_limits(job.limits, rows, size)
    with (
        JoinedFile(job.folder / ROWS, OPEN, CLOSE) as rows_file,
        IndexFile(job.folder / INDEX) as index,
        ThreadPoolExecutor(1) as beside,
    ):
        for one in found:
            join_part(one.part, rows_file, index)
        indexed = beside.submit(index.finish)  # Both wait for the disk.
        joined = rows_file.finish()
        indexed.result()
    return Selection(
        rows=joined,
        runs=tuple(map(tuple, runs)),
        run_rows=tuple(one.part.rows for one in found),
        unreadable_count=plan.unreadable_count + sum(one.unreadable_count for one in found),
    )


def _running_totals(found: Sequence[Selected]) -> list[tuple[int, int]]:
    rows, size, totals = 0, 0, []
    for one in found:
        rows, size = rows + one.part.rows, size + one.part.bytes
        totals.append((rows, size))
    return totals


def check_limits(limits: QueryLimits, rows: int, size: int) -> None:
    """Raise result_too_large."""
    if rows > limits.rows_max:
        message = f"more than {limits.rows_max} rows"
        raise QueryError(QueryCode.RESULT_TOO_LARGE, message)
    if size > limits.bytes_max:
        message = f"more than {limits.bytes_max} bytes of rows"
        raise QueryError(QueryCode.RESULT_TOO_LARGE, message)


def _select_run(
    descriptor: Descriptor, limits: QueryLimits, parts: Path, number: int, chunks: Sequence[Chunk]
) -> Selected:
    """A task: filter, encode and write the rows of some chunks."""
    shape = RowShape.of(descriptor)
    writer = PartWriter(parts, number)
    errors = 0
    for chunk in chunks:
        with reading(chunk, descriptor.evidence.mode):
            if chunk.counts_unreadable:
                errors += unreadable(chunk, descriptor.filter)
            for batch in matching(chunk, descriptor.filter):
                for encoded in encode_batch(shape, descriptor.projection, batch):
                    writer.add(encoded)
                    check_limits(limits, writer.rows, writer.bytes)
    return Selected(part=writer.finish(), unreadable_count=errors)
