"""`veen selftest recorder`, `query` and `all` [interfaces, Command]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from hub.cli.output import emit, examples, json_option, note, progress, progress_end
from hub.cli.selftest import EXIT_FAILED, F, end_checks, say_check, seed_option

if TYPE_CHECKING:
    from hub.selftest.checks import Check, Checks

DESCRIPTORS = 200
QUICK_DESCRIPTORS = 16
EVENTS = 10_000
QUICK_EVENTS = 900


def _quick(help_text: str) -> Callable[[F], F]:
    return click.option("--quick", is_flag=True, help=help_text)


@click.command(
    epilog=examples(
        "veen selftest recorder                  about two minutes",
        "veen selftest recorder --quick --json   one minute, one document",
    )
)
@_quick("Fewer events.")
@click.option("--events", type=click.IntRange(300), help="How many; 10,000 by default.")
@seed_option()
@json_option
def recorder(*, quick: bool, events: int | None, seed: int, as_json: bool) -> int:
    """Record on a temporary bundle by three ways, replay, prove, ask who did what.

    Then I1 to I3 are broken on purpose, a row of the lake and bytes of the log are changed, and
    each must be seen and named.
    """
    return end_checks(_recorder(seed, events, quick=quick, as_json=as_json), as_json=as_json)


def _recorder(seed: int, events: int | None, *, quick: bool, as_json: bool) -> Checks:
    from config.selftest.recorder import run_recorder_selftest  # noqa: PLC0415 - start-up time

    try:
        return run_recorder_selftest(
            lambda check: _say(check, as_json=as_json),
            progress=progress,
            events=events or (QUICK_EVENTS if quick else EVENTS),
            seed=seed,
        )
    finally:
        progress_end()


def _say(check: Check, *, as_json: bool) -> None:
    progress_end()
    say_check(check, as_json=as_json)


@click.command(
    epilog=examples(
        "veen selftest query                     five to ten minutes",
        "veen selftest query --quick --json      one or two minutes, one document",
    )
)
@_quick("Fewer descriptors, no Spark cluster, one restart.")
@click.option("--descriptors", type=click.IntRange(1), help="How many random ones; 200 by default.")
@seed_option()
@json_option
def query(*, quick: bool, descriptors: int | None, seed: int, as_json: bool) -> int:
    """Run a temporary bundle and ask it: modes, pages, cancelling, a forged row, a restart.

    Then the digests of random descriptors, on Spark with one core, with two and on a cluster, cut
    in several ways and run again, are compared with an evaluation in plain Python.
    """
    checks = _query(seed, descriptors, quick=quick, as_json=as_json)
    return end_checks(checks, as_json=as_json)


def _query(seed: int, descriptors: int | None, *, quick: bool, as_json: bool) -> Checks:
    from config.selftest.query import run_query_selftest  # noqa: PLC0415 - start-up time

    try:
        return run_query_selftest(
            lambda check: _say(check, as_json=as_json),
            progress=progress,
            descriptors=descriptors or (QUICK_DESCRIPTORS if quick else DESCRIPTORS),
            quick=quick,
            seed=seed,
        )
    finally:
        progress_end()


@click.command(
    "all",
    epilog=examples(
        "veen selftest all                  core, props, fuzz, recorder, query in turn",
        "veen selftest all --json > selftest.json",
    ),
)
@_quick("Less of everything.")
@seed_option()
@json_option
def everything(*, quick: bool, seed: int, as_json: bool) -> int:
    """Run every self-test; one failure fails the whole."""
    from hub.selftest.core import run_core  # noqa: PLC0415 - start-up time
    from hub.selftest.fuzz import run_fuzz  # noqa: PLC0415
    from hub.selftest.props import run_props  # noqa: PLC0415

    def say(check: Check) -> None:
        say_check(check, as_json=as_json)

    parts = [
        run_core(say),
        run_props(say, seconds=10, seed=seed),
        run_fuzz(say, seconds=5 if quick else 30, seed=seed),
        _recorder(seed, None, quick=quick, as_json=as_json),
        _query(seed, None, quick=quick, as_json=as_json),
    ]
    good = all(part.is_good() for part in parts)
    if as_json:
        emit({"ok": good, "selftests": [part.to_json() for part in parts]}, as_json=True)
    for part in parts:
        note(part.summary())
    return 0 if good else EXIT_FAILED
