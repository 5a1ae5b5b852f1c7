"""A way to ask the engine, and what it answered as bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queryapi.contract.descriptor import Descriptor
from queryapi.result_files import ResultFolder
from spark_jobs.evidence_trust import Means
from spark_jobs.query import run_query
from spark_jobs.query_job import QueryJob, QueryLimits, QueryOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Answered:
    outcome: QueryOutcome
    folder: ResultFolder

    @property
    def rows(self) -> bytes:
        return self.folder.rows.read_bytes()

    @property
    def evidence(self) -> bytes:
        return self.folder.evidence.read_bytes()


Ask = Callable[..., Answered]


@pytest.fixture
def ask(spark: SparkSession, tmp_path: Path) -> Ask:
    numbers = itertools.count()

    def ask_once(
        lake: Path,
        descriptor: Descriptor,
        *,
        tasks: int | None = None,
        limits: QueryLimits | None = None,
        means: Means | None = None,
    ) -> Answered:
        folder = tmp_path / f"result-{next(numbers)}"
        folder.mkdir()
        job = QueryJob(
            descriptor=descriptor,
            lake=lake,
            folder=folder,
            limits=limits or QueryLimits(),
            tasks=tasks,
            means=means,
        )
        return Answered(run_query(spark, job), ResultFolder(folder))

    return ask_once
