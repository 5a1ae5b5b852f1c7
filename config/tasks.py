"""Celery tasks of the lake: each calls one piece of work and may be repeated [style 4]."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from celery import shared_task
from django.db import close_old_connections

from config.lake_jobs import JobRunner
from config.lake_work import LakeWork
from config.query_work import QueryWork
from config.spark_driver import driver
from hub.errors import VeenError

logger = logging.getLogger(__name__)


@cache
def lake_work() -> LakeWork:
    """The work on the lake of this process."""
    from django.conf import settings  # noqa: PLC0415 - settings are read when first used

    return LakeWork(settings.STATE, settings.VEEN, driver())


@cache
def job_runner() -> JobRunner:
    """The runner of jobs of this process."""
    return JobRunner(lake_work(), driver())


@cache
def query_work() -> QueryWork:
    """The queries of this process."""
    from django.conf import settings  # noqa: PLC0415 - settings are read when first used

    return QueryWork(settings.VEEN, driver(), lake_work())


def _guarded(name: str, work: Any) -> Any:  # noqa: ANN401 - whatever the work gives
    """A refusal is logged and tried again by the next tick; threads give their connection back."""
    close_old_connections()
    try:
        return work()
    except VeenError as refusal:
        logger.warning("task.refused", extra={"task": name, "reason": str(refusal)})
        return None
    finally:
        close_old_connections()


@shared_task(name="config.tasks.lake_tick")
def lake_tick() -> None:
    """Ingest what is new, seal what is due."""
    _guarded("lake_tick", lake_work().tick)


@shared_task(name="config.tasks.bring_up_to")
def bring_up_to(streams: dict[str, int], timeout_s: float) -> None:
    """Bring streams up to a sequence, for whoever waits at their manifests."""
    _guarded("bring_up_to", lambda: lake_work().bring_up_to(streams, timeout_s))


@shared_task(name="config.tasks.run_lake_jobs")
def run_lake_jobs() -> None:
    """Run the jobs that wait."""
    _guarded("run_lake_jobs", job_runner().run_pending)


@shared_task(name="config.tasks.run_queries")
def run_queries() -> None:
    """Look for queries and replays that wait; they run in threads of their own."""
    _guarded("run_queries", query_work().look)
