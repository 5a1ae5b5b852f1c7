"""`veen selftest`: the table of all self-tests; exit code 5 when one fails [interfaces]."""

from __future__ import annotations

from typing import Final

import click

from hub.cli.lazy import LazyTable, Row
from hub.cli.output import examples

ROWS: Final[dict[str, Row]] = {
    "core": Row("hub.cli.selftest:core", "The story of a hub, and the invariants I1 to I13."),
    "props": Row("hub.cli.selftest:props", "The laws of the protocol, on random objects."),
    "fuzz": Row("hub.cli.selftest:fuzz", "Mutated objects at every decoder."),
    "recorder": Row("config.selftest.cli:recorder", "Three producers, replay, proofs, tampering."),
    "query": Row("config.selftest.cli:query", "Questions to a whole bundle; equal digests."),
    "all": Row("config.selftest.cli:everything", "Every one of them; one failure fails all."),
}


@click.group(
    cls=LazyTable,
    rows=ROWS,
    epilog=examples(
        "veen selftest core           the story and the invariants I1 to I13",
        "veen selftest all --json     everything there is, one document",
    ),
)
def selftest() -> None:
    """Run acceptance tests that ship with the product; nothing of yours is touched."""
