"""Groups of commands that import a subcommand only when it is called [interfaces, Command]."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Row(NamedTuple):
    """Where a subcommand lives; its help stands here, so that listing them imports nothing."""

    target: str  # module:attribute
    help: str


class LazyTable(click.Group):
    """A group whose commands are the rows of a table."""

    def __init__(self, *args: Any, rows: Mapping[str, Row], **more: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **more)
        self._rows = rows

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        row = self._rows.get(cmd_name)
        if row is None:
            return None
        module, _, attribute = row.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), row.target
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in self._rows.items()])
