"""`veen bench query` and `veen bench evidence` [interfaces, Benchmarks]."""

from __future__ import annotations

import json
from typing import Any

import click

from config import bench_evidence, bench_query
from hub.cli.output import examples, note


@click.command(epilog=examples("veen bench query --quick", "veen bench query --json > bench.json"))
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 events).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def query(*, quick: bool, as_json: bool) -> None:
    """Each class of questions warm, beside DuckDB on the same files with the same answer."""
    result = bench_query.run(quick=quick, say=lambda what: note(f"bench query: {what}"))
    if as_json:
        click.echo(json.dumps(result))
        return
    for size in (result, result.get("large")):
        if size is not None:
            _table(size["classes"])
    for name in ("slope", "driver_memory"):
        if name in result:
            click.echo(f"{name:>22}  {result[name]}")


def _table(classes: dict[str, Any]) -> None:
    click.echo(f"{'class':>22}  {'p50 ms':>9} {'rows/s':>12} {'vs DuckDB':>10}  target")
    for name, one in classes.items():
        click.echo(
            f"{name:>22}  {one['p50_ms']:>9} {one['rows_per_s']:>12} {one['vs_duckdb']:>10}"
            f"  {one['target']}"
        )


@click.command(
    epilog=examples("veen bench evidence --quick", "veen bench evidence --json > bench.json")
)
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 events).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def evidence(*, quick: bool, as_json: bool) -> None:
    """Rows verified in mode full, beside the same checks alone on all cores."""
    result = bench_evidence.run(quick=quick, say=lambda what: note(f"bench evidence: {what}"))
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
