"""`veen bench query`: the worker's engine beside DuckDB on the same files [interfaces, Benchmarks].

Every class of questions is asked warm, alternating with DuckDB; the digest of every answer must be
the one that DuckDB's rows have under the contract's own encoder, or there is no figure at all.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.bench_duckdb import Rival
from config.bench_lake import BenchLake, make_lake
from config.bench_questions import Question, ordered, questions
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from hub.bench.cores import core_count
from hub.storage.disk import Disk
from queryapi.contract.descriptor import Descriptor
from spark_jobs.query import run_query
from spark_jobs.query_job import QueryJob, QueryOutcome
from spark_jobs.session import QUERY_POOL
from spark_jobs.tasks import JobControl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_EVENTS: Final = 100_000
FULL_EVENTS: Final = 1_000_000
LARGE_EVENTS: Final = 10_000_000
WARM_ROUNDS: Final = 2

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How often each question is asked, and how many seconds a single one may fill with that."""

    events: int
    rounds: int
    budget_s: float


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    sizes = [Size(events=QUICK_EVENTS, rounds=7, budget_s=1.5)]
    if not quick:
        sizes = [
            Size(events=FULL_EVENTS, rounds=9, budget_s=6.0),
            Size(events=LARGE_EVENTS, rounds=5, budget_s=9.0),
        ]
    with tempfile.TemporaryDirectory(prefix="vb-") as scratch:
        folder = Path(scratch)
        driver = SparkDriver(Settings(data_dir=folder), folder / "spark")
        try:
            with driver.working() as spark:
                bench = _Bench(spark, folder, say)
                found = [bench.measure(size) for size in sizes]
                memory = bench.memory()
        finally:
            driver.close()
    figures: dict[str, Any] = {"events": sizes[0].events, "cores": core_count(), **found[0]}
    if len(found) > 1:
        figures |= {"events_large": sizes[1].events, "large": found[1]}
        figures["slope"] = _slopes(found[0]["classes"], found[1]["classes"], sizes)
    return {"name": "query", "quick": quick, **figures, "driver_memory": memory}


def _slopes(small: dict[str, Any], large: dict[str, Any], sizes: list[Size]) -> dict[str, float]:
    """Cost at ten times the events over ten times the cost; 1.0 is linear, less is better."""
    times = sizes[1].events / sizes[0].events
    return {
        name: round(large[name]["p50_ms"] / (times * small[name]["p50_ms"]), 3)
        for name in small
        if name != "f"  # which has as many rows in every lake
    }


class _Bench:
    """Lakes and answers below one folder, one warm session."""

    def __init__(self, spark: SparkSession, folder: Path, say: Say) -> None:
        self._spark = spark
        self._folder = folder
        self._say = say
        self._lakes: list[BenchLake] = []

    def measure(self, size: Size) -> dict[str, Any]:
        """Every class over a lake of one size."""
        self._say(f"a lake of {size.events} events")
        lake = make_lake(self._folder / f"lake-{size.events}", size.events)
        self._lakes.append(lake)
        rival = Rival(lake.rows_files, core_count())
        try:
            classes = {}
            for question in questions(size.events):
                self._say(f"{question.name}: {question.what}")
                classes[question.name] = self._class(lake, rival, question, size)
        finally:
            rival.close()
        return {"lake_bytes_per_event": round(lake.bytes / lake.events, 1), "classes": classes}

    def _class(
        self, lake: BenchLake, rival: Rival, question: Question, size: Size
    ) -> dict[str, Any]:
        descriptor = question.descriptor(lake)
        ours = [self._timed(lake, descriptor) for _ in range(WARM_ROUNDS)]
        outcome = ours[-1][1]
        expected = rival.reference(question, descriptor)
        if expected != outcome.rows_hash:
            raise AssertionError(f"{question.name}: DuckDB's rows have another digest")
        rival.fetch(question)
        own: list[float] = []
        fetched: list[float] = []
        answered: list[float] = []
        end = time.perf_counter() + size.budget_s
        while len(own) < 3 or (len(own) < size.rounds and time.perf_counter() < end):
            took_s, again = self._timed(lake, descriptor)
            assert again == outcome, "the same question has one answer"
            own.append(took_s)
            fetched.append(_seconds(lambda: rival.fetch(question)))
            answered.append(_seconds(lambda: rival.answer(question, descriptor)))
        ours_s, fetch_s, answer_s = map(statistics.median, (own, fetched, answered))
        beside_s = fetch_s if question.against == "fetch" else answer_s
        return {
            "what": question.what,
            "rows": outcome.row_count,
            "p50_ms": round(ours_s * 1000, 1),
            "rows_per_s": round(lake.events / ours_s),
            "duckdb_fetch_ms": round(fetch_s * 1000, 1),
            "duckdb_answer_ms": round(answer_s * 1000, 1),
            "against": question.against,
            "vs_duckdb": round(ours_s / beside_s, 3),
            "target": question.target,
        }

    def _timed(self, lake: BenchLake, descriptor: Descriptor) -> tuple[float, QueryOutcome]:
        """One execution as the worker does it, its files included."""
        with self._result() as folder:
            job = QueryJob(descriptor=descriptor, lake=lake.root, folder=folder)
            control = JobControl(
                pool=QUERY_POOL, on_progress=lambda _done, _total: None, is_cancelled=lambda: False
            )
            started = time.perf_counter()
            outcome = run_query(self._spark, job, control)
            return time.perf_counter() - started, outcome

    @contextmanager
    def _result(self) -> Iterator[Path]:
        folder = self._folder / "result"
        Disk().mkdir(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def memory(self) -> dict[str, Any]:
        """The driver's peak while a tenth of the ordered rows is hashed, and while all are."""
        lake = self._lakes[-1] if len(self._lakes) == 1 else self._lakes[0]
        peaks = []
        for rows in (lake.events // 10, lake.events):
            descriptor = ordered("f", rows).descriptor(lake)
            Path("/proc/self/clear_refs").write_text("5", "ascii")
            _, outcome = self._timed(lake, descriptor)
            peaks.append({"rows": outcome.row_count, "bytes": outcome.rows_bytes,
                          "rss_peak_mb": _peak_mb()})  # fmt: skip
        growth = peaks[1]["rss_peak_mb"] / peaks[0]["rss_peak_mb"]
        return {"tenth": peaks[0], "whole": peaks[1], "growth": round(growth, 3)}


def _peak_mb() -> float:
    """The greatest resident size since the mark was reset."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise AssertionError("a process has a peak")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
