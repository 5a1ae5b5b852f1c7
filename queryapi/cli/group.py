"""`veen query`: the table of its subcommands [interfaces, Command]."""

from __future__ import annotations

from typing import Final

import click

from hub.cli.lazy import LazyTable, Row
from hub.cli.output import examples

ROWS: Final[dict[str, Row]] = {
    "submit": Row("queryapi.cli.submit:submit", "Ask a question; wait for its answer."),
    "status": Row("queryapi.cli.answers:status", "How far a query is."),
    "result": Row("queryapi.cli.answers:result", "Rows of a query; save all that verifies it."),
    "verify": Row("queryapi.cli.verify:verify", "Check a saved answer offline."),
    "replay": Row("queryapi.cli.replay:replay", "Ask a recorded query again and compare."),
    "list": Row("queryapi.cli.answers:list_queries", "Queries, newest first."),
    "cancel": Row("queryapi.cli.answers:cancel", "Stop a query."),
}


@click.group(
    cls=LazyTable,
    rows=ROWS,
    epilog=examples(
        "veen query submit --scope record/security/iam --event-type login.failed --evidence full",
        "veen query submit question.json --save answer && veen query verify answer",
    ),
)
def query() -> None:
    """Questions to the log, whose answers carry their proof."""
