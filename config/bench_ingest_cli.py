"""`veen bench ingest` [interfaces, Benchmarks]."""

from __future__ import annotations

import json

import click

from config import bench_ingest
from hub.cli.output import examples, note


@click.command(
    epilog=examples("veen bench ingest --quick", "veen bench ingest --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 events).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def ingest(*, quick: bool, as_json: bool) -> None:
    """Committed log to queryable lake, with and without opening, and the lag under load."""
    result = bench_ingest.run(quick=quick, say=lambda what: note(f"bench ingest: {what}"))
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
