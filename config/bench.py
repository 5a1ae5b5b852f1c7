"""`veen bench NAME`: one JSON object with the ratios of one run [interfaces, Benchmarks]."""

from __future__ import annotations

from typing import Final

import click

from hub.cli.lazy import LazyTable, Row
from hub.cli.output import examples

ROWS: Final[dict[str, Row]] = {
    "hub": Row("hub.cli.bench:hub", "Submits, batches, proofs and restart of a hub."),
    "record": Row("recorder.bench.cli:record", "SDK and gateway against their parts."),
    "verify": Row("recorder.bench.cli:verify", "A log range and a replay, on all cores."),
    "ingest": Row("config.bench_ingest_cli:ingest", "Committed log to lake, and its lag."),
    "query": Row("config.bench_query_cli:query", "Classes of questions beside DuckDB."),
    "evidence": Row("config.bench_query_cli:evidence", "Mode full against its checks alone."),
}


@click.group(
    cls=LazyTable,
    rows=ROWS,
    epilog=examples("veen bench hub --quick", "veen bench hub --json > bench.json"),
)
def bench() -> None:
    """Measure this machine: ratios of one run, never bare times."""
