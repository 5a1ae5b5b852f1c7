"""`veen config`: what the settings are, where they come from, whether they hold [interfaces]."""

from __future__ import annotations

import json
from pathlib import Path

import click

from config.settings_file import FIELDS, Loaded, load, read
from config.settings_kinds import as_text

CONFIG_OPTION = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML file to read instead of veen.toml in the data directory.",
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def config() -> None:
    """Show and check the settings.

    \b
    Examples:
      veen config show --origin
      veen config check --config /etc/veen/veen.toml
    """  # noqa: D301 - click's mark against rewrapping


@config.command()
@CONFIG_OPTION
@JSON_OPTION
@click.option("--origin", is_flag=True, help="Also say where each value comes from.")
def show(*, config_file: Path | None, as_json: bool, origin: bool) -> None:
    """Print every setting with its value.

    \b
    Examples:
      veen config show
      VEEN_ZONE=offline veen config show --origin --json
    """  # noqa: D301 - click's mark against rewrapping
    loaded = read(config_file=config_file)
    if as_json:
        click.echo(json.dumps(_document(loaded, origin=origin), indent=2))
    else:
        for name in FIELDS:
            click.echo(_line(loaded, name, origin=origin))
    for problem in loaded.problems:
        click.echo(f"veen: {problem}", err=True)


@config.command()
@CONFIG_OPTION
@JSON_OPTION
def check(*, config_file: Path | None, as_json: bool) -> None:
    """Refuse with every problem, or say that the settings hold.

    \b
    Examples:
      veen config check
      veen config check --config ./veen.toml --json
    """  # noqa: D301 - click's mark against rewrapping
    load(config_file=config_file)
    click.echo(json.dumps({"ok": True, "problems": []}) if as_json else "The settings hold.")


@config.command()
@JSON_OPTION
def schema(*, as_json: bool) -> None:
    """Print the table of settings as JSON: kind, default, meaning, variable.

    \b
    Examples:
      veen config schema
      veen config schema | python3 -m json.tool
    """  # noqa: D301 - click's mark against rewrapping
    del as_json  # it is one JSON document either way
    defaults = read(environ={}).settings
    table = {
        name: {
            "kind": field.metadata["kind"].name,
            "default": _plain(getattr(defaults, name)),
            "meaning": field.metadata["meaning"],
            "variable": f"VEEN_{name.upper()}",
        }
        for name, field in FIELDS.items()
    }
    click.echo(json.dumps(table, indent=2))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _document(loaded: Loaded, *, origin: bool) -> dict[str, object]:
    values = {name: _plain(getattr(loaded.settings, name)) for name in FIELDS}
    if not origin:
        return values
    return {
        name: {"value": value, "origin": loaded.origins[name]} for name, value in values.items()
    }


def _line(loaded: Loaded, name: str, *, origin: bool) -> str:
    value = getattr(loaded.settings, name)
    shown = "-" if value is None or value == () else as_text(value)
    line = f"{name:<24} {shown}"
    return f"{line:<64} {loaded.origins[name]}" if origin else line
