"""Python work as tasks of one Spark job: one answer per task, progress, cancellation [spark, How].

Tasks read and write files themselves and send back a few hundred bytes. A refusal of ours is an
answer like any other, so that one bad stream does not fail the job of the others.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa

from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_SCHEMA: Final = "task long, answer binary, code string, detail string"
_POLL_S: Final = 0.2


class CancelledError(VeenError):
    """Someone asked the job to stop, and it did."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BUSY, "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControl:
    """How a job is shown and stopped: its pool, who hears of progress, who may cancel it."""

    pool: str
    on_progress: Callable[[int, int], None] | None = None  # tasks done, tasks in all
    is_cancelled: Callable[[], bool] | None = None


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    work: Callable[[Task], Answer],
    answer_type: type[Answer],
    control: JobControl,
) -> list[Answer | VeenError]:
    """The answers of all tasks, in their order; `work` and `tasks` travel to the executors."""
    if not tasks:
        return []
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with watched(spark.sparkContext, work.__name__, len(tasks), control):
        rows = numbers.mapInArrow(_mapper(list(tasks), work), _SCHEMA).collect()
    answers: list[Answer | VeenError] = [VeenError(ErrorCode.INTERNAL)] * len(tasks)
    assert len(rows) == len(tasks), "each task gives one answer"
    for number, data, code, detail in rows:
        answers[number] = (
            msgspec.json.decode(bytes(data), type=answer_type)
            if code is None
            else VeenError(ErrorCode(code), detail)
        )
    return answers


@contextlib.contextmanager
def watched(context: SparkContext, name: str, total: int, control: JobControl) -> Iterator[None]:
    """The jobs started inside form one group: shown, stopped and accounted for together."""
    group = f"veen-{uuid.uuid4()}"
    context.setJobGroup(group, name, interruptOnCancel=True)
    context.setLocalProperty("spark.scheduler.pool", control.pool)
    watch = _Watch(context, group, total, control)
    try:
        yield
    except Exception:
        if watch.was_cancelled:
            raise CancelledError from None
        raise
    finally:
        watch.end()


def _mapper(
    tasks: list[Task], work: Callable[[Task], Answer]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer, code, detail = None, None, None
                try:
                    answer = msgspec.json.encode(work(tasks[number]))
                except VeenError as refusal:
                    code, detail = refusal.code.value, refusal.detail
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int64()),
                        pa.array([answer], pa.binary()),
                        pa.array([code], pa.string()),
                        pa.array([detail], pa.string()),
                    ],
                    ["task", "answer", "code", "detail"],
                )

    return run


class _Watch:
    """Looks at a running job from beside: Spark's own status is the progress."""

    def __init__(self, context: SparkContext, group: str, total: int, control: JobControl) -> None:
        self._context = context
        self._group = group
        self._total = total
        self._control = control
        self._ended = threading.Event()
        self.was_cancelled = False
        self._thread: threading.Thread | None = None
        if control.on_progress is not None or control.is_cancelled is not None:
            self._thread = threading.Thread(target=self._run, name=group, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        is_cancelled = self._control.is_cancelled
        while not self._ended.wait(_POLL_S):
            if is_cancelled is not None and not self.was_cancelled and is_cancelled():
                self.was_cancelled = True
                self._context.cancelJobGroup(self._group)
            if self._control.on_progress is not None:
                self._control.on_progress(self._done(), self._total)

    def _done(self) -> int:
        tracker = self._context.statusTracker()
        done = 0
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in [] if info is None else info.stageIds:
                found = tracker.getStageInfo(stage)
                done = max(done, 0 if found is None else found.numCompletedTasks)
        return done
