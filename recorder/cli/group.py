"""`veen recorder`: the table of its subcommands [interfaces, Command]."""

from __future__ import annotations

from typing import Final

import click

from hub.cli.lazy import LazyTable, Row
from hub.cli.output import examples

ROWS: Final[dict[str, Row]] = {
    "adapter": Row("recorder.cli.adapter:adapter", "Listen for syslog or OTLP logs."),
    "record": Row("recorder.cli.record:record", "Record events, one or many from stdin."),
}


@click.group(
    cls=LazyTable,
    rows=ROWS,
    epilog=examples(
        "veen recorder record --connection shop.json --event-type login.ok --subject-id alice",
        "veen recorder record --connection shop.json --json - < events.ndjson",
    ),
)
def recorder() -> None:
    """The recorder: every event, in order, provable, replayable."""
