"""`veen selftest recorder`: a temporary bundle that records, proves and notices [SDR0 3]."""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from config.selftest import recorder_breaks, recorder_checks
from config.selftest.bundle import TemporaryBundle
from config.selftest.recorder_ground import Ground, Progress
from hub.selftest.checks import Check, Checks

MASTER: Final = "local[2]"
MANIFESTS: Final = 5  # by volume, about so many in a run


def run_recorder_selftest(
    say: Callable[[Check], None], *, progress: Progress, events: int, seed: int
) -> Checks:
    """Everything, in a directory that is gone afterwards."""
    checks = Checks("recorder", say)
    checks.facts |= {"seed": seed, "events": events}
    volume = events // MANIFESTS
    # A short path: sockets of broker and Spark lie below it.
    with tempfile.TemporaryDirectory(prefix="vr-") as folder, ExitStack() as closing, _quiet():
        bundle = TemporaryBundle(
            Path(folder),
            VEEN_SPARK_MASTER=MASTER,
            VEEN_CHECKPOINT_MESSAGES=str(volume),
            VEEN_CHECKPOINT_INTERVAL_S="3600",
        )
        ground = Ground(bundle=closing.enter_context(bundle), folder=Path(folder),
                        rng=random.Random(seed), events=events)  # noqa: S311  # fmt: skip
        if _tell(checks, ground, progress, volume):
            progress("the bundle stops; what follows is offline")
            bundle.stop()
            checks.section("offline", lambda: recorder_breaks.check_packs(checks, ground))
            checks.section("log", lambda: recorder_breaks.check_tampered_log(checks, ground))
    return checks


@contextmanager
def _quiet() -> Iterator[None]:
    """What SDK and client log of the outage is expected, and no line of the report."""
    handler = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in ("hub", "recorder")]
    for one in loggers:
        one.addHandler(handler)
    try:
        yield
    finally:
        for one in loggers:
            one.removeHandler(handler)


def _tell(checks: Checks, ground: Ground, progress: Progress, volume: int) -> bool:
    """The part with a running bundle; whether there is something to look at offline."""
    if not checks.section("bundle", lambda: _begin(checks, ground, progress)):
        return False
    stands = checks.section(
        "ways in", lambda: recorder_checks.check_ways_in(checks, ground, progress)
    )
    stands = stands and checks.section(
        "manifest", lambda: recorder_checks.check_checkpoints(checks, ground, volume)
    )
    stands = stands and checks.section(
        "replay", lambda: recorder_checks.check_replay(checks, ground, progress)
    )
    if not stands:
        return False
    checks.section("actors", lambda: recorder_checks.check_actors(checks, ground))
    checks.section("I1", lambda: recorder_breaks.check_invariants(checks, ground))
    checks.section("lake", lambda: recorder_breaks.check_tampered_lake(checks, ground))
    return checks.section("evidence", lambda: recorder_breaks.make_packs(checks, ground))


def _begin(checks: Checks, ground: Ground, progress: Progress) -> None:
    progress("starting hub, author, gateway, worker and web")
    checks.need("up: hub, author, gateway, worker, web", ground.bundle.start)
    checks.need("two streams, three producers, a reader", ground.create)
