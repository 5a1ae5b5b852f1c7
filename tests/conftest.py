"""Options and fixtures of the whole suite: one printed seed, small or large numbers."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable

import hypothesis
import pytest

from tests.support.spark_session import java_home, spark, spark_scratch

__all__ = ["java_home", "spark", "spark_scratch"]  # fixtures of every folder

DEFAULT_SEED = 20_251_118

# derandomize: the ordinary suite gives the same verdict twice; `veen fuzz` searches elsewhere.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile(
    "full", derandomize=True, deadline=None, database=None, max_examples=2_000
)
hypothesis.settings.register_profile("fuzz", deadline=None, database=None, max_examples=5_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="large numbers in fault tests")
    parser.addoption("--fast", action="store_true", help="leave out slow, browser and Spark tests")
    parser.addoption("--only-database", action="store_true", help="only what uses the database")
    seed = int(os.environ.get("VEEN_SEED", DEFAULT_SEED))
    parser.addoption("--seed", type=int, default=seed, help="seed of all randomness")


def pytest_configure(config: pytest.Config) -> None:
    # What an ordinary machine gives a process: a leak of descriptors must not hide behind more.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    if config.getoption("--hypothesis-profile", default=None) is None:
        hypothesis.settings.load_profile("full" if config.getoption("--full") else "fixed")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('--seed')} (repeat with --seed)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only-database"):
        items[:] = [item for item in items if _uses_database(item)]
    skip_full = pytest.mark.skip(reason="needs --full")
    skip_fast = pytest.mark.skip(reason="left out by --fast")
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("full") and not config.getoption("--full"):
            item.add_marker(skip_full)
        if config.getoption("--fast") and {"slow", "browser", "spark"} & set(item.keywords):
            item.add_marker(skip_fast)


def _uses_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    asked = {"db", "transactional_db"} & set(fixtures)
    return bool(asked) or item.get_closest_marker("django_db") is not None


@pytest.fixture(scope="session")
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the large numbers are wanted."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def scaled(is_full: bool) -> Callable[[int, int], int]:  # noqa: FBT001 - a fixture's value
    """A choice of two numbers: the first in the ordinary suite, the second with --full."""
    return lambda ordinary, full: full if is_full else ordinary


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed"))


@pytest.fixture
def rng(request: pytest.FixtureRequest, seed: int) -> random.Random:
    """Randomness of this one test; the same whatever else runs, and in whatever order."""
    return random.Random(f"{seed} {request.node.nodeid}")
