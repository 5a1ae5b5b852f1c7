"""The one warm Spark driver of the worker, made again when its JVM dies [spark, How]."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from config.java import choose_java, launch_home
from config.settings_file import Settings
from config.up_state import make_private_dir
from hub.errors import ErrorCode, VeenError
from spark_jobs.session import (
    NotStartedError,
    SessionPlan,
    is_alive,
    start_session,
    stop_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSE_S: Final = 2.0

logger = logging.getLogger(__name__)


class StoppingError(VeenError):
    """The work was stopped because its process ends; nothing was wrong with it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BUSY, "the worker stops")


class SparkDriver:
    """Starts a session when one is needed; threads share it, each with its own jobs."""

    def __init__(self, settings: Settings, scratch: Path) -> None:
        self._settings = settings
        self._scratch = scratch
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        """Whether this process was asked to end, so that nothing new is begun."""
        return self._is_stopping

    def session(self) -> SparkSession:
        """The session; a dead one is replaced."""
        with self._lock:
            if self._spark is not None and is_alive(self._spark):
                return self._spark
            if self._spark is not None:
                logger.warning("spark.died")
                stop_session(self._spark)
                self._spark = None
            self._spark = start_session(self._plan())
            logger.info("spark.ready", extra={"master": self._settings.spark_master})
            return self._spark

    @contextlib.contextmanager
    def working(self) -> Iterator[SparkSession]:
        """The session for some work; E.BUSY when its JVM is gone, so that the work is retried."""
        try:
            spark = self.session()
        except NotStartedError as failure:
            raise VeenError(ErrorCode.BUSY, failure.detail) from failure
        try:
            yield spark
        except VeenError:
            raise
        except Exception as failure:
            if self._is_stopping:
                raise StoppingError from failure
            if is_alive(spark):
                raise
            raise VeenError(ErrorCode.BUSY, "the JVM of Spark ended") from failure

    def warm(self) -> None:
        """Start the session in the background, so that the first task does not wait for it."""
        threading.Thread(target=self._warm, name="spark-warm", daemon=True).start()

    def _warm(self) -> None:
        try:
            self.session()
        except VeenError as refusal:
            logger.error("spark.not_started", extra={"reason": str(refusal)})  # noqa: TRY400

    def cancel_jobs(self) -> None:
        """This process is asked to end, so every job ends; those who wait for one are told."""
        self._is_stopping = True
        spark = self._spark
        if spark is not None and is_alive(spark):
            spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """End the session and its JVM; one that is just starting ends with this process."""
        if not self._lock.acquire(timeout=CLOSE_S):
            return
        try:
            if self._spark is not None:
                stop_session(self._spark)
                self._spark = None
        finally:
            self._lock.release()

    def _plan(self) -> SessionPlan:
        make_private_dir(self._scratch)
        java = choose_java(self._settings.java_home, os.environ)
        return SessionPlan(
            java_home=launch_home(java, self._scratch),
            scratch=self._scratch,
            master=self._settings.spark_master,
            properties_file=self._settings.spark_properties_file,
            shuffle_partitions=max(2, min(4, os.cpu_count() or 2)),
        )


@cache
def driver() -> SparkDriver:
    """The driver of this process, by its settings."""
    from django.conf import settings  # noqa: PLC0415 - settings are read when first used

    return SparkDriver(settings.VEEN, settings.STATE.run / "spark")
