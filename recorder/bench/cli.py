"""`veen bench record` and `veen bench verify` [interfaces, Benchmarks]."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from hub.cli.output import examples, note


@click.command(
    epilog=examples("veen bench record --quick", "veen bench record --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def record(*, quick: bool, as_json: bool) -> None:
    """Recording through SDK and gateway, against what the parts cost on two cores."""
    from recorder.bench import record as record_bench  # noqa: PLC0415 - only where it runs

    result = record_bench.run(quick=quick, say=lambda what: note(f"bench record: {what}"))
    _show(result, as_json=as_json)


@click.command(
    epilog=examples("veen bench verify --quick", "veen bench verify --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 messages).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def verify(*, quick: bool, as_json: bool) -> None:
    """A log range offline and a replay, each against the same checks in memory on all cores."""
    from hub.bench import verify as verify_bench  # noqa: PLC0415 - only where it runs
    from recorder.bench import replay as replay_bench  # noqa: PLC0415

    def say(what: str) -> None:
        note(f"bench verify: {what}")

    result = verify_bench.run(quick=quick, say=say)
    events, rounds = (30_000, 1) if quick else (200_000, 3)
    with tempfile.TemporaryDirectory(prefix="veen-bench-") as scratch:
        result |= replay_bench.figures(Path(scratch), events, rounds=rounds, say=say)
    _show(result, as_json=as_json)


def _show(result: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
