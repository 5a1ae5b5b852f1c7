"""`veen bench hub`: one JSON object with the ratios of one run [interfaces, Benchmarks]."""

from __future__ import annotations

import json

import click

from hub.bench import hub as hub_bench
from hub.cli.output import examples


@click.command(epilog=examples("veen bench hub --quick", "veen bench hub --json > bench.json"))
@click.option("--quick", is_flag=True, help="Finish within 50 seconds (10^5 messages).")
@click.option("--json", "as_json", is_flag=True, help="Print exactly one JSON document.")
def hub(*, quick: bool, as_json: bool) -> None:
    """Durable submits over HTTP, batches, proofs and restart, against the crypto's ceiling."""

    def say(what: str) -> None:
        click.echo(f"bench hub: {what}", err=True)

    result = hub_bench.run(quick=quick, say=say)
    if as_json:
        click.echo(json.dumps(result))
        return
    for name, figure in result.items():
        click.echo(f"{name:>22}  {figure}")
