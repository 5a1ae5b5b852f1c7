"""Tasks of a query: what a refusal is inside a task, it is outside too [spark, How].

Spark deals out, runs, retries, cancels and reports; inside a task Arrow reads and computes. What a
task is given and gives back is small: rows go to files that driver and executors share.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from hub.errors import StoreError
from queryapi.contract.codes import QueryCode, QueryError
from spark_jobs.session import QUERY_POOL
from spark_jobs.tasks import CancelledError, JobControl, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")
UNWATCHED: Final = JobControl(pool=QUERY_POOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[_Found]):
    """What a task gave, or why it refused."""

    found: _Found | None = None
    error_code: QueryCode | None = None
    message: str = ""


class Engine:
    """A session and how its jobs are shown and stopped."""

    def __init__(
        self,
        spark: SparkSession,
        control: JobControl = UNWATCHED,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._context = spark.sparkContext
        self._control = control
        self._on_step = on_step

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return self._context.defaultParallelism

    def run(
        self, name: str, work: Callable[[int, _Given], _Found], items: Sequence[_Given]
    ) -> list[_Found]:
        """One task for each item, results in their order; the refusal of the first item counts."""
        if self._control.is_cancelled is not None and self._control.is_cancelled():
            raise _cancelled()
        if not items:
            return []
        self._on_step(name)
        try:
            with watched(self._context, name, len(items), self._control):
                dealt = self._context.parallelize(list(enumerate(items)), len(items))
                done: list[Done[_Found]] = dealt.map(partial(_attempt, work)).collect()
        except CancelledError as stop:
            raise _cancelled() from stop
        for one in done:
            if one.error_code is not None:
                raise QueryError(one.error_code, one.message)
        return [one.found for one in done if one.found is not None]


def _cancelled() -> QueryError:
    return QueryError(QueryCode.CANCELLED, "the query was cancelled")


def _attempt(work: Callable[[int, _Given], _Found], given: tuple[int, _Given]) -> Done[_Found]:
    number, item = given
    if not gc.get_freeze_count():
        # Spark's workers collect garbage after every task, and most of what they would walk over is
        # modules: left out, a job of two tasks takes 25 ms instead of 43.
        gc.freeze()
    gc.disable()  # Millions of small objects that form no cycles.
    try:
        return Done(found=work(number, item))
    except QueryError as refusal:
        return Done(error_code=refusal.error_code, message=refusal.message)
    except StoreError as damage:
        message = f"the lake is damaged: {damage.detail}"
        return Done(error_code=QueryCode.EXECUTION_FAILED, message=message)
    except OSError as refusal:  # What a task reads is judged where it is read; this is a write.
        message = f"a task could not write: {refusal.strerror or refusal}"
        return Done(error_code=QueryCode.EXECUTION_FAILED, message=message)
    finally:
        gc.enable()
