"""`veen selftest core, props, fuzz`: the hub's own, exit code 5 when one fails [interfaces]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hub.cli.output import emit, examples, json_option, note

if TYPE_CHECKING:
    from hub.selftest.checks import Check, Checks

F = TypeVar("F", bound=Callable[..., Any])
EXIT_FAILED = 5
SEED = 20_251_118


def say_check(check: Check, *, as_json: bool) -> None:
    """One check as it is made; on stderr where stdout is one document."""
    if as_json:
        note(check.line())
    else:
        emit({}, as_json=False, lines=[check.line()])


def end_checks(checks: Checks, *, as_json: bool) -> int:
    """The last line or the document, and the exit code."""
    if as_json:
        emit(checks.to_json(), as_json=True)
        note(checks.summary())
    else:
        emit({}, as_json=False, lines=[checks.summary()])
    return 0 if checks.is_good() else EXIT_FAILED


def seconds_option(default: int) -> Callable[[F], F]:
    """`--seconds`."""
    return click.option(
        "--seconds", type=click.IntRange(1), default=default, show_default=True, help="Time to use."
    )


def seed_option() -> Callable[[F], F]:
    """`--seed`."""
    return click.option(
        "--seed", type=int, default=SEED, show_default=True, help="Repeats a run exactly."
    )


@click.command(
    epilog=examples(
        "veen selftest core           one line for each check",
        "veen selftest core --json    one document",
    )
)
@json_option
def core(as_json: bool) -> int:
    """Play the whole story on a temporary hub and check I1 to I13 by name."""
    from hub.selftest.core import run_core  # noqa: PLC0415 - start-up time

    return end_checks(run_core(lambda check: say_check(check, as_json=as_json)), as_json=as_json)


@click.command(
    epilog=examples(
        "veen selftest props                     ten seconds of the protocol's laws",
        "veen selftest props --seconds 600 --seed 7",
    )
)
@seconds_option(10)
@seed_option()
@json_option
def props(seconds: int, seed: int, as_json: bool) -> int:
    """Check the laws of the protocol: round trips, flipped bits, proofs, folds, roots."""
    from hub.selftest.props import run_props  # noqa: PLC0415

    checks = run_props(lambda check: say_check(check, as_json=as_json), seconds=seconds, seed=seed)
    return end_checks(checks, as_json=as_json)


@click.command(
    epilog=examples(
        "veen selftest fuzz                      thirty seconds over every decoder",
        "veen selftest fuzz --seconds 3600 --seed 7",
    )
)
@seconds_option(30)
@seed_option()
@json_option
def fuzz(seconds: int, seed: int, as_json: bool) -> int:
    """Feed mutated objects to every decoder; a failing input is printed as hex."""
    from hub.selftest.fuzz import run_fuzz  # noqa: PLC0415

    checks = run_fuzz(lambda check: say_check(check, as_json=as_json), seconds=seconds, seed=seed)
    return end_checks(checks, as_json=as_json)
