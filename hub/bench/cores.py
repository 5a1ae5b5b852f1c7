"""The same work on every core at once, timed from a common start [interfaces, Benchmarks]."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

_START_S: Final = 120

# Prepares, and returns what is then done while the clock runs.
Prepare = Callable[..., Callable[[], None]]


def timed_on_all_cores(prepare: Prepare, *args: object) -> float:
    """Seconds from the moment all processes are prepared until the last of them is done."""
    context = multiprocessing.get_context("spawn")
    cores = core_count()
    barrier = context.Barrier(cores + 1)
    workers = [context.Process(target=_work, args=(barrier, prepare, args)) for _ in range(cores)]
    for worker in workers:
        worker.start()
    barrier.wait(_START_S)
    started = perf_counter()
    barrier.wait(_START_S)
    took_s = perf_counter() - started
    for worker in workers:
        worker.join()
    return took_s


def core_count() -> int:
    """Cores of this machine."""
    return os.cpu_count() or 1


def _work(barrier: Any, prepare: Prepare, args: tuple[object, ...]) -> None:  # noqa: ANN401
    work = prepare(*args)
    barrier.wait(_START_S)
    work()
    barrier.wait(_START_S)
