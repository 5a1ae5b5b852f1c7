"""One Spark session for each test process, started when the first test asks for it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from config.java import choose_java, launch_home
from spark_jobs.session import SessionPlan, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_scratch() -> Iterator[Path]:
    """A short path, because sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="vs-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def java_home(spark_scratch: Path) -> Path:
    return launch_home(choose_java(None, os.environ), spark_scratch)


@pytest.fixture(scope="session")
def spark(java_home: Path, spark_scratch: Path) -> Iterator[SparkSession]:
    plan = SessionPlan(java_home=java_home, scratch=spark_scratch, master="local[2]")
    session = start_session(plan)
    yield session
    stop_session(session)
