"""The same job on a standalone cluster gives the same lake, byte for byte."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.ingest import ingest
from tests.spark_jobs.test_ingest import check_lake, plan_for
from tests.support.recorded_log import RecordedLog, RecordedStream
from tests.support.spark_cluster import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import pickle, sys
from spark_jobs.ingest import ingest
from spark_jobs.session import start_session, stop_session
from spark_jobs.session import SessionPlan

plan, session = pickle.loads(bytes.fromhex(sys.argv[1]))
spark = start_session(SessionPlan(**session))
where = spark.sparkContext.parallelize(range(2), 2).map(lambda _: __import__("os").getppid())
print(ingest(spark, plan).events, spark.sparkContext.master, len(set(where.collect())))
stop_session(spark)
"""


@pytest.mark.slow
def test_a_cluster_gives_the_lake_that_local_gives(
    spark: SparkSession, tmp_path: Path, java_home: Path, spark_scratch: Path
) -> None:
    stream = RecordedStream("record/app/web")
    log = RecordedLog(tmp_path / "hub")
    log.commit(stream.events(4_500), 500)
    plan = plan_for(log, stream)
    with running_cluster(spark_scratch / "cluster", java_home) as cluster:
        session = {
            "java_home": java_home,
            "scratch": spark_scratch,
            "master": cluster.master,
            "properties_file": cluster.properties_file,
        }
        done = subprocess.run(
            [sys.executable, "-c", CHILD, pickle.dumps((plan, session)).hex()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4500", cluster.master, "2"]
    check_lake(log, stream)
    local = ingest(spark, replace(plan, lake=tmp_path / "local")).manifest
    assert plan.folder.read() == local
    log.close()
