"""`veen bench record` [interfaces, Benchmarks]."""

from __future__ import annotations

import json

import click

from hub.cli.output import examples, note
from recorder.bench import record as record_bench


@click.command(
    epilog=examples("veen bench record --quick", "veen bench record --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def record(*, quick: bool, as_json: bool) -> None:
    """Recording through SDK and gateway, against what the parts cost on two cores."""
    result = record_bench.run(quick=quick, say=lambda what: note(f"bench record: {what}"))
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
