"""`veen bench verify` [interfaces, Benchmarks]."""

from __future__ import annotations

import json

import click

from hub.bench import verify as verify_bench
from hub.cli.output import examples, note


@click.command(
    epilog=examples("veen bench verify --quick", "veen bench verify --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 messages).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def verify(*, quick: bool, as_json: bool) -> None:
    """A log range verified offline on all cores, against the same checks in memory."""
    result = verify_bench.run(quick=quick, say=lambda what: note(f"bench verify: {what}"))
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
