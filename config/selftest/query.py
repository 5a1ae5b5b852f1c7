"""`veen selftest query`: a temporary bundle, and answers that are the same everywhere [Query].

Digests of random descriptors must be equal however the work is cut, on every Spark master and in
every run, and equal to the evaluator in plain Python, which shares no step with the engine.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from config.java import choose_java, launch_home
from config.selftest import query_checks
from config.selftest.bundle import TemporaryBundle
from config.selftest.cluster import running_cluster
from config.selftest.engines import EnginePlan, answers
from config.selftest.query_ground import STREAMS, Ground
from hub.selftest.checks import Check, Checks, require
from queryapi.contract.codes import QueryError
from queryapi.contract.descriptor import Descriptor

EVENTS: Final = (240, 130)
MASTER: Final = "local[2]"

Progress = Callable[[str], None]


def run_query_selftest(
    say: Callable[[Check], None], *, progress: Progress, descriptors: int, quick: bool, seed: int
) -> Checks:
    """Everything, in a directory that is gone afterwards."""
    checks = Checks("query", say)
    checks.facts |= {"seed": seed, "descriptors": descriptors}
    # A short path: sockets of broker and Spark lie below it.
    with tempfile.TemporaryDirectory(prefix="vq-") as folder, ExitStack() as closing:
        bundle = TemporaryBundle(Path(folder), VEEN_SPARK_MASTER=MASTER, VEEN_QUERY_SYNC_MS="0")
        ground = Ground(bundle=closing.enter_context(bundle), folder=Path(folder),
                        rng=random.Random(seed))  # noqa: S311  # fmt: skip
        if checks.section("bundle", lambda: _begin(checks, ground, progress)):
            checks.section("modes", lambda: query_checks.check_modes(checks, ground))
            checks.section("paging", lambda: query_checks.check_paging(checks, ground))
            checks.section("cancel", lambda: query_checks.check_cancel(checks, ground))
            checks.section("tamper", lambda: query_checks.check_tampered(checks, ground))
            checks.section(
                "restart", lambda: query_checks.check_restart(checks, ground, whole=not quick)
            )
            checks.section(
                "engines", lambda: _engines(checks, ground, progress, descriptors, quick=quick)
            )
    return checks


def _begin(checks: Checks, ground: Ground, progress: Progress) -> None:
    progress("starting hub, author, gateway, worker and web")
    checks.need("up: hub, author, gateway, worker, web", ground.bundle.start)
    checks.need("streams, readers", ground.create)

    def record() -> None:
        for name, count in zip(STREAMS, EVENTS, strict=False):
            ground.record(name, count)

    checks.need(f"{sum(EVENTS)} random events are recorded", record)
    progress("the lake is filled, every event verified")
    checks.need("all of them come back, each verified against the pinned key", ground.read)
    errors = {str(row.error) for row in ground.rows if row.error is not None}
    checks.hold("sealed, foreign and garbled ones among them", lambda: require(
        errors == {"sealed", "unknown_schema", "undecodable"}, f"only {sorted(errors)}"
    ))  # fmt: skip


def _engines(
    checks: Checks, ground: Ground, progress: Progress, count: int, *, quick: bool
) -> None:
    asked = [ground.question(number) for number in range(count)]
    expected = [_expected(ground, one) for one in asked]
    failing = sum("error_code" in one for one in expected)
    checks.facts |= {"answered": count - failing, "failing_alike": failing}
    progress(f"{count} descriptors in plain Python: done")
    root = ground.bundle.state.root
    plan = EnginePlan(state=root, master="local[1]", passes=[(1,), (2, 5, 3)])
    _compare(checks, plan, asked, expected, progress)
    if quick:
        return
    plan = EnginePlan(state=root, master="local[2]", passes=[(None,), (2, 5, 3)])
    _compare(checks, plan, asked, expected, progress)
    folder = ground.folder / "cluster"
    folder.mkdir()
    with running_cluster(folder, launch_home(choose_java(None, os.environ), folder)) as cluster:
        plan = EnginePlan(state=root, master=cluster.master, passes=[(None, 4)], cluster=cluster)
        _compare(checks, plan, asked, expected, progress)


def _expected(ground: Ground, descriptor: Descriptor) -> dict[str, Any]:
    found = ground.expect(descriptor)
    if isinstance(found, QueryError):
        return {"error_code": found.error_code.value, "message": found.message}
    return {
        "rows_hash": found.rows_hash,
        "evidence_hash": found.evidence_hash,
        "row_count": len(found.rows),
        "unreadable_count": found.unreadable_count,
    }


def _compare(
    checks: Checks,
    plan: EnginePlan,
    asked: Sequence[Descriptor],
    expected: Sequence[dict[str, Any]],
    progress: Progress,
) -> None:
    """One check for each pass; the first differing descriptor is told whole."""
    kind = "a cluster of two workers" if plan.cluster is not None else plan.master
    found = answers(plan, [one.canonical() for one in asked])
    for tasks in plan.passes:
        cut = "by size" if tasks == (None,) else f"in {', '.join(map(str, tasks))} parts"

        def same() -> None:
            for number, descriptor in enumerate(asked):
                ours = next(found, None)
                progress(f"{kind}: {number + 1} of {len(asked)}")
                if ours != expected[number]:
                    told = descriptor.canonical().decode()
                    require(False, f"{ours} is not {expected[number]}: {told}")  # noqa: FBT003

        checks.need(f"{len(asked)} digests on {kind}, cut {cut}: as in plain Python", same)
    checks.hold(f"{kind}: ends well", lambda: require(next(found, None) is None, "more came"))
