"""Executes a query on Spark: plan, rows file with its index, evidence [Query 8; spark]."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from hub.storage.disk import Disk
from queryapi.contract.descriptor import Mode
from queryapi.contract.evidence import NONE
from queryapi.result_files import EVIDENCE, Joined, JoinedFile
from spark_jobs.query_aggregate import aggregate
from spark_jobs.query_job import QueryJob, QueryOutcome
from spark_jobs.query_plan import make_plan, open_coverage
from spark_jobs.query_select import select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTS: Final = "parts"


def run_query(spark: SparkSession, job: QueryJob) -> QueryOutcome:
    """Write rows, index and evidence into the job's folder, or raise QueryError."""
    descriptor = job.descriptor
    assert descriptor.coverage is not None
    parts = job.folder / _PARTS
    Disk().mkdir(parts)
    try:
        plan = make_plan(descriptor, open_coverage(job.lake, descriptor.coverage))
        if descriptor.aggregate is None:
            selection = select(spark, job, plan, parts)
            rows, unreadable_count = selection.rows, selection.unreadable_count
        else:
            aggregation = aggregate(spark, job, plan, parts)
            rows, unreadable_count = aggregation.rows, aggregation.unreadable_count
        evidence = _no_evidence(job)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    return QueryOutcome(
        row_count=rows.items,
        rows_bytes=rows.bytes,
        rows_hash=rows.sha256,
        evidence_hash=evidence.sha256,
        unreadable_count=unreadable_count,
    )


def _no_evidence(job: QueryJob) -> Joined:
    assert job.descriptor.evidence.mode is Mode.NONE
    with JoinedFile(job.folder / EVIDENCE, NONE, b"") as file:
        return file.finish()
