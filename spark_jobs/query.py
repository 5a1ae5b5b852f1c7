"""Executes a query on Spark: plan, rows file with its index, evidence [Query 8; spark]."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hub.errors import StoreError, VeenError
from hub.storage.disk import Disk
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Mode
from queryapi.contract.evidence import NONE
from queryapi.result_files import EVIDENCE, Joined, JoinedFile
from spark_jobs.evidence import prepare
from spark_jobs.evidence_events import Witness
from spark_jobs.evidence_rows import verify_groups, verify_selection
from spark_jobs.query_aggregate import aggregate
from spark_jobs.query_damage import code_of, find_damage
from spark_jobs.query_job import QueryJob, QueryOutcome
from spark_jobs.query_plan import Plan, make_plan, open_coverage
from spark_jobs.query_select import select
from spark_jobs.query_summary import is_told
from spark_jobs.query_tasks import UNWATCHED, Engine
from spark_jobs.session import is_alive
from spark_jobs.tasks import JobControl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTS: Final = "parts"


def run_query(
    spark: SparkSession,
    job: QueryJob,
    control: JobControl = UNWATCHED,
    on_step: Callable[[str], None] = lambda _: None,
) -> QueryOutcome:
    """Write rows, index and evidence into the job's folder, or raise QueryError."""
    parts = job.folder / _PARTS
    mode, coverage = job.descriptor.evidence.mode, job.descriptor.coverage or ()
    try:
        return _run(Engine(spark, control, on_step), job, parts)
    except StoreError as damage:
        raise QueryError(code_of(mode), f"the lake is damaged: {damage.detail}") from damage
    except (VeenError, OSError):
        raise
    except Exception as fault:
        found = find_damage(job.lake, coverage, mode) if is_alive(spark) else None
        if found is None:
            raise
        raise found from fault
    finally:
        if parts.exists():
            shutil.rmtree(parts, ignore_errors=True)


def _run(engine: Engine, job: QueryJob, parts: Path) -> QueryOutcome:
    descriptor = job.descriptor
    assert descriptor.coverage is not None
    snapshots = open_coverage(job.lake, descriptor.coverage, descriptor.evidence.mode)
    witnesses: dict[str, Witness] = {}
    if descriptor.evidence.mode is not Mode.NONE:
        if job.means is None:
            raise QueryError(QueryCode.EXECUTION_FAILED, "nothing to verify with is at hand")
        ground = prepare(engine, descriptor, job.means, snapshots)
        witnesses = {stream: one.witness for stream, one in ground.items()}
    plan = make_plan(descriptor, snapshots)
    if not is_told(descriptor, plan.chunks):  # Otherwise no task runs, and nobody leaves parts.
        Disk().mkdir(parts)
    if descriptor.aggregate is None:
        rows, evidence, unreadable_count = _selected(engine, job, plan, witnesses, parts)
    else:
        rows, evidence, unreadable_count = _aggregated(engine, job, plan, witnesses, parts)
    return QueryOutcome(
        row_count=rows.items,
        rows_bytes=rows.bytes,
        rows_hash=rows.sha256,
        evidence_hash=evidence.sha256,
        unreadable_count=unreadable_count,
    )


def _selected(
    engine: Engine, job: QueryJob, plan: Plan, witnesses: dict[str, Witness], parts: Path
) -> tuple[Joined, Joined, int]:
    found = select(engine, job, plan, parts)
    if job.descriptor.evidence.mode is Mode.NONE:
        return found.rows, _no_evidence(job), found.unreadable_count
    evidence = verify_selection(engine, job, found, witnesses, parts)
    return found.rows, evidence, found.unreadable_count


def _aggregated(
    engine: Engine, job: QueryJob, plan: Plan, witnesses: dict[str, Witness], parts: Path
) -> tuple[Joined, Joined, int]:
    found = aggregate(engine, job, plan, parts)
    if job.descriptor.evidence.mode is Mode.NONE:
        return found.rows, _no_evidence(job), found.unreadable_count
    evidence = verify_groups(engine, job, plan, found, witnesses, parts)
    return found.rows, evidence, found.unreadable_count


def _no_evidence(job: QueryJob) -> Joined:
    with JoinedFile(job.folder / EVIDENCE, NONE, b"") as file:
        return file.finish()
