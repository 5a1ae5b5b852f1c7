"""Kill -9 of the whole process group at any moment: the next run finds all events once."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.ingest import ingest
from tests.spark_jobs.test_ingest import STEPS, check_lake, plan_for
from tests.support.recorded_log import RecordedLog, RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
# Ingests one stream again and again, each run a few events further, and says where it is.
CHILD = """
import os, sys, pickle
from dataclasses import replace
from pathlib import Path
from spark_jobs import ingest as module
from spark_jobs.session import SessionPlan, start_session

plan, java_home, scratch = pickle.loads(bytes.fromhex(sys.argv[1]))
module.CHUNK_EVENTS_MIN = 5
spark = start_session(SessionPlan(java_home=java_home, scratch=scratch, master="local[2]"))

def step(name):
    print(name, flush=True)

print("ready", flush=True)
for upto in range(10, 10_000, 10):
    module.ingest(spark, replace(plan, upto=upto), step=step)
"""


def start_child(tmp_path: Path, about: tuple[object, Path, Path]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, pickle.dumps(about).hex()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def kill_tree(child: subprocess.Popen[str]) -> None:
    """The driver, its JVM and its workers, all in one session, at once."""
    os.killpg(child.pid, signal.SIGKILL)
    child.wait(30)
    assert child.stdout is not None
    child.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "at", ["between", *[pytest.param(step, marks=pytest.mark.full) for step in STEPS]]
)
def test_kill_9_of_driver_and_workers_loses_and_doubles_nothing(  # noqa: PLR0917
    spark: SparkSession,
    tmp_path: Path,
    java_home: Path,
    spark_scratch: Path,
    rng: random.Random,
    scaled: Callable[[int, int], int],
    at: str,
) -> None:
    stream = RecordedStream("record/app/web")
    log = RecordedLog(tmp_path / "hub")
    log.commit(stream.events(400))
    plan = plan_for(log, stream)
    for _ in range(scaled(1, 6)):
        child = start_child(tmp_path, (plan, java_home, spark_scratch))
        assert child.stdout is not None
        wanted = rng.randint(3, 9)
        for line in child.stdout:
            wanted -= at in (line.strip(), "between")
            if wanted == 0:
                if at == "between":
                    time.sleep(rng.random() * 0.4)  # anywhere between two steps
                break
        kill_tree(child)
        found = plan.folder.read()
        assert found is not None
        found.check()
    ingest(spark, plan)
    check_lake(log, stream)
    log.close()
