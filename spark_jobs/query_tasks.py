"""Tasks on Spark whose refusals come back as what they are, not as a Java stack [spark, How].

Spark deals out, runs, retries, cancels and reports; inside a task Arrow reads and computes. What a
task is given and gives back is small: rows go to files that driver and executors share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from hub.errors import StoreError
from queryapi.contract.codes import QueryCode, QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[_Found]):
    """What a task gave, or why it refused."""

    number: int
    found: _Found | None = None
    error_code: QueryCode | None = None
    message: str = ""


def run_tasks(
    spark: SparkSession, work: Callable[[int, _Given], _Found], items: Sequence[_Given]
) -> list[_Found]:
    """One task for each item, results in their order; the refusal of the first item counts."""
    if not items:
        return []
    context = spark.sparkContext
    dealt = context.parallelize(list(enumerate(items)), len(items))
    done: list[Done[_Found]] = dealt.map(partial(_attempt, work)).collect()
    for one in done:
        if one.error_code is not None:
            raise QueryError(one.error_code, one.message)
    return [one.found for one in done if one.found is not None]


def _attempt(work: Callable[[int, _Given], _Found], given: tuple[int, _Given]) -> Done[_Found]:
    number, item = given
    try:
        return Done(number=number, found=work(number, item))
    except QueryError as refusal:
        return Done(number=number, error_code=refusal.query_code, message=refusal.message)
    except StoreError as damage:
        message = f"the lake is damaged: {damage.detail}"
        return Done(number=number, error_code=QueryCode.EXECUTION_FAILED, message=message)


def cores(spark: SparkSession) -> int:
    """How many tasks run at once."""
    return spark.sparkContext.defaultParallelism
