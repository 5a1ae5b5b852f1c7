"""`veen selftest`: acceptance tests on temporary hubs, exit code 5 when one fails [interfaces]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hub.cli.output import emit, examples, json_option, note

if TYPE_CHECKING:
    from hub.selftest.checks import Check, Checks

F = TypeVar("F", bound=Callable[..., Any])
EXIT_FAILED = 5
_SEED = 20_251_118


@click.group(
    epilog=examples(
        "veen selftest core           the story and the invariants I1 to I13",
        "veen selftest all --json     everything there is, one document",
    )
)
def selftest() -> None:
    """Run acceptance tests that ship with the product; nothing of yours is touched."""


def _say(check: Check, *, as_json: bool) -> None:
    if as_json:
        note(check.line())
    else:
        emit({}, as_json=False, lines=[check.line()])


def _end(checks: Checks, *, as_json: bool) -> int:
    if as_json:
        emit(checks.to_json(), as_json=True)
        note(checks.summary())
    else:
        emit({}, as_json=False, lines=[checks.summary()])
    return 0 if checks.is_good() else EXIT_FAILED


def _seconds(default: int) -> Callable[[F], F]:
    return click.option(
        "--seconds", type=click.IntRange(1), default=default, show_default=True, help="Time to use."
    )


def _seed() -> Callable[[F], F]:
    return click.option(
        "--seed", type=int, default=_SEED, show_default=True, help="Repeats a run exactly."
    )


@selftest.command(
    epilog=examples(
        "veen selftest core           one line for each check",
        "veen selftest core --json    one document",
    )
)
@json_option
def core(as_json: bool) -> int:
    """Play the whole story on a temporary hub and check I1 to I13 by name."""
    from hub.selftest.core import run_core  # noqa: PLC0415 - start-up time

    return _end(run_core(lambda check: _say(check, as_json=as_json)), as_json=as_json)


@selftest.command(
    epilog=examples(
        "veen selftest props                     ten seconds of the protocol's laws",
        "veen selftest props --seconds 600 --seed 7",
    )
)
@_seconds(10)
@_seed()
@json_option
def props(seconds: int, seed: int, as_json: bool) -> int:
    """Check the laws of the protocol: round trips, flipped bits, proofs, folds, roots."""
    from hub.selftest.props import run_props  # noqa: PLC0415

    checks = run_props(lambda check: _say(check, as_json=as_json), seconds=seconds, seed=seed)
    return _end(checks, as_json=as_json)


@selftest.command(
    epilog=examples(
        "veen selftest fuzz                      thirty seconds over every decoder",
        "veen selftest fuzz --seconds 3600 --seed 7",
    )
)
@_seconds(30)
@_seed()
@json_option
def fuzz(seconds: int, seed: int, as_json: bool) -> int:
    """Feed mutated objects to every decoder; a failing input is printed as hex."""
    from hub.selftest.fuzz import run_fuzz  # noqa: PLC0415

    checks = run_fuzz(lambda check: _say(check, as_json=as_json), seconds=seconds, seed=seed)
    return _end(checks, as_json=as_json)


@selftest.command(
    "all",
    epilog=examples(
        "veen selftest all                  core, props and fuzz one after the other",
        "veen selftest all --json > selftest.json",
    ),
)
@_seed()
@json_option
def everything(seed: int, as_json: bool) -> int:
    """Run every self-test; one failure fails the whole."""
    from hub.selftest.core import run_core  # noqa: PLC0415
    from hub.selftest.fuzz import run_fuzz  # noqa: PLC0415
    from hub.selftest.props import run_props  # noqa: PLC0415

    def say(check: Check) -> None:
        _say(check, as_json=as_json)

    parts = [
        run_core(say),
        run_props(say, seconds=10, seed=seed),
        run_fuzz(say, seconds=30, seed=seed),
    ]
    good = all(part.is_good() for part in parts)
    if as_json:
        emit({"ok": good, "selftests": [part.to_json() for part in parts]}, as_json=True)
    for part in parts:
        note(part.summary())
    return 0 if good else EXIT_FAILED
