"""A short query does not wait for a long one that came first [spark, How]."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from config.query_run import pool_of_runner
from config.selftest.bundle import until
from spark_jobs.query_tasks import Engine
from spark_jobs.tasks import JobControl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 240


def test_runners_share_the_cores_and_do_not_queue(spark: SparkSession, tmp_path: Path) -> None:
    long, short = tmp_path / "long", tmp_path / "short"
    long.mkdir()
    short.mkdir()
    pools = []

    def leave_mark(folder: str, number: int, work_s: float) -> int:
        """A task, which travels by value: some work, and a file that says it is done."""
        time.sleep(work_s)
        with open(f"{folder}/{number}", "xb"):  # noqa: PTH123 - nothing of this module is there
            return number

    def run(folder: Path, items: list[float]) -> int:
        pools.append(pool_of_runner())
        engine = Engine(spark, JobControl(pool=pools[-1]))
        return len(engine.run("marks", partial(leave_mark, str(folder)), items))

    with ThreadPoolExecutor(2, thread_name_prefix="query") as runners:
        slow = runners.submit(run, long, [0.02] * TASKS)
        until(lambda: any(long.iterdir()), "the long one runs", 60)
        assert runners.submit(run, short, [0.0] * 2).result(60) == 2
        behind = TASKS - len(list(long.iterdir()))
        assert slow.result(60) == TASKS
    assert behind > TASKS // 4, "the short one waited for the long one"
    assert len(set(pools)) == 2
