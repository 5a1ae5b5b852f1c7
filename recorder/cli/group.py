"""`veen recorder`: the table of its subcommands [interfaces, Command]."""

from __future__ import annotations

from typing import Final

import click

from hub.cli.lazy import LazyTable, Row
from hub.cli.output import examples

ROWS: Final[dict[str, Row]] = {
    "producer": Row("recorder.cli.producer:producer", "Producers: add, list, rotate, revoke."),
    "stream": Row("recorder.cli.stream:recorder_stream", "Streams: map event types, migrate, set."),
    "reader": Row("recorder.cli.reader:reader", "Readers: add, list, revoke."),
    "retention": Row("recorder.cli.retention:retention", "How long payloads stay."),
    "record": Row("recorder.cli.record:record", "Record events, one or many from stdin."),
    "adapter": Row("recorder.cli.adapter:adapter", "Listen for syslog or OTLP logs."),
    "replay": Row(
        "recorder.cli.replay:replay", "Read streams by range or window, each event verified."
    ),
    "finding": Row("recorder.cli.finding:finding", "Findings: list, acknowledge."),
    "seal": Row("recorder.cli.seal:seal", "Seal the live segments of the lake now."),
    "audit": Row(
        "recorder.cli.audit:audit", "Compare the lake with the log again, field by field."
    ),
    "evidence": Row(
        "recorder.cli.evidence:evidence", "Pack one event with all that proves it into one file."
    ),
    "verifier": Row(
        "recorder.cli.evidence:verifier", "Write the page that checks evidence packs in a browser."
    ),
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
