"""`veen recorder`: finds a subcommand and loads only that one [interfaces, Command]."""

from __future__ import annotations

import importlib
from typing import Final

import click

from hub.cli.output import examples

# Help stands here, so that `veen recorder --help` imports nothing.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "producer": (
        "recorder.cli.producer:producer",
        "Producers: add, list, rotate, revoke.",
    ),
    "stream": (
        "recorder.cli.stream:recorder_stream",
        "Streams: map event types, migrate, set.",
    ),
    "reader": ("recorder.cli.reader:reader", "Readers: add, list, revoke."),
    "retention": ("recorder.cli.retention:retention", "How long payloads stay."),
    "replay": (
        "recorder.cli.replay:replay",
        "Read streams by range or window, each event verified.",
    ),
    "evidence": (
        "recorder.cli.evidence:evidence",
        "Pack one event with all that proves it into one file.",
    ),
    "verifier": (
        "recorder.cli.evidence:verifier",
        "Write the page that checks evidence packs in a browser.",
    ),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_Lazy,
    epilog=examples(
        "veen recorder evidence --stream record/security/iam --seq 42 --out 42.evidence",
        "veen recorder verifier --out veen-verify.html",
    ),
)
def recorder() -> None:
    """Record events, replay them, prove them."""
