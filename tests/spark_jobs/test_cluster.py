"""The same jobs on a standalone cluster give the same bytes: lake, rows, digest, evidence."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hub.canonical_json import Value
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.result_files import ResultFolder
from recorder.lake.folder import LakeFolder
from spark_jobs.ingest import ingest
from spark_jobs.query import run_query
from spark_jobs.query_job import QueryJob, QueryLimits
from tests.spark_jobs.test_ingest import check_lake, plan_for
from tests.support.query_log import QuestionedLog
from tests.support.recorded_log import RecordedLog, RecordedStream
from tests.support.spark_cluster import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
A, B = "record/app/a", "record/app/b"
CHILD = """
import json, os, pickle, sys
from queryapi.contract.codes import QueryError
from spark_jobs.ingest import ingest
from spark_jobs.query import run_query
from spark_jobs.session import SessionPlan, start_session, stop_session

plan, session, jobs = pickle.loads(sys.stdin.buffer.read())
spark = start_session(SessionPlan(**session))
where = spark.sparkContext.parallelize(range(2), 2).map(lambda _: os.getppid())
found = {"master": spark.sparkContext.master, "executors": len(set(where.collect()))}
found["ingested"] = ingest(spark, plan).events
found["answers"] = []
for job in jobs:
    try:
        done = run_query(spark, job)
        found["answers"].append([done.rows_hash, done.evidence_hash, done.unreadable_count])
    except QueryError as failure:
        found["answers"].append([failure.error_code.value, failure.message])
stop_session(spark)
print(json.dumps(found))
"""
SOURCES: tuple[dict[str, Value], ...] = (
    {"scope": [A, B], "evidence": {"mode": "full"}, "projection": ["*"]},
    {"scope": [A], "evidence": {"mode": "spot", "sample_rate": 1}, "projection": ["payload.n"]},
    {"scope": [A, B], "evidence": {"mode": "full"},
     "aggregate": {"group_by": ["origin", "payload.status"], "metrics": ["count"]}},
    {"scope": [B], "evidence": {"mode": "none"},
     "aggregate": {"group_by": ["payload"], "metrics": ["count", "max(event_time)"]}},
)  # fmt: skip


def questioned(root: Path) -> QuestionedLog:
    """A log with sealed, recorded segments and live ones."""
    log = QuestionedLog(root, [A, B])
    rng = random.Random(5)
    log.fill(rng, A, 60)
    log.fill(rng, B, 30)
    log.ingest(A, segment_rows=20)
    log.ingest(B, segment_rows=100)
    log.record_seals(A)
    return log


def job_of(log: QuestionedLog, descriptor: Descriptor, folder: Path) -> QueryJob:
    folder.mkdir(parents=True)
    return QueryJob(
        descriptor=descriptor,
        lake=log.lake,
        folder=folder,
        limits=QueryLimits(),
        tasks=3,
        means=log.means(),
    )


def on_cluster(given: Any, session: dict[str, Any], jobs: Sequence[QueryJob], cwd: Path) -> Any:
    """What a driver of its own says, which knows the cluster by its address and secret alone."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((given, session, jobs)),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_cluster_gives_the_lake_and_the_answers_that_local_gives(
    spark: SparkSession, tmp_path: Path, java_home: Path, spark_scratch: Path
) -> None:
    stream = RecordedStream("record/app/web")
    log = RecordedLog(tmp_path / "hub")
    log.commit(stream.events(4_500), 500)
    plan = plan_for(log, stream)
    asked = questioned(tmp_path / "asked")
    questions = [asked.pinned(source, number) for number, source in enumerate(SOURCES)]
    spoiled = questioned(tmp_path / "spoiled")
    path = flip(spoiled, A)
    with running_cluster(spark_scratch / "cluster", java_home) as cluster:
        session = {
            "java_home": java_home,
            "scratch": spark_scratch,
            "master": cluster.master,
            "properties_file": cluster.properties_file,
        }
        there = tmp_path / "there"
        jobs = [job_of(asked, one, there / str(n)) for n, one in enumerate(questions)]
        jobs.append(job_of(spoiled, spoiled.pinned(SOURCES[0]), there / "spoiled"))
        found = on_cluster(plan, session, jobs, tmp_path)
    assert (found["master"], found["executors"], found["ingested"]) == (cluster.master, 2, 4500)
    check_lake(log, stream)
    local = ingest(spark, replace(plan, lake=tmp_path / "local")).manifest
    assert plan.folder.read() == local
    *answers, refusal = found["answers"]
    rows = asked.all_rows()
    for number, question in enumerate(questions):
        expected = evaluate(question, rows)
        digest = [expected.rows_hash, expected.evidence_hash, expected.unreadable_count]
        assert answers[number] == digest
        remote = ResultFolder(there / str(number))
        assert remote.rows.read_bytes() == rows_bytes(expected.rows)
        assert remote.evidence.read_bytes() == expected.evidence
        here = run_query(spark, job_of(asked, question, tmp_path / "here" / str(number)))
        assert [here.rows_hash, here.evidence_hash, here.unreadable_count] == digest
    assert refusal[0] == "evidence_failed", refusal
    assert refusal[1].startswith(f"{A} 1: "), (refusal, path)
    for one in (log, asked, spoiled):
        one.close()


def flip(log: QuestionedLog, name: str) -> Path:
    """One bit of a sealed, recorded file, the other way."""
    folder = LakeFolder.of(log.lake, log.streams[name].label)
    manifest = folder.read()
    assert manifest is not None
    path = folder.path(manifest.segments[0].rows)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    return path
