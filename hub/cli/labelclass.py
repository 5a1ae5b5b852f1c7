"""`veen label-class`: what kind of stream a label is, as the hub's log records it [LCLASS0]."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hub.cli.output import emit, examples, json_option
from hub.cli.place import Place, label_options
from hub.errors import ErrorCode, VeenError

LONG_TERM: Final = 315_360_000  # ten years; shown as long_term
_DATA_DIR = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="The hub's data directory."
)


@click.group(
    "label-class",
    epilog=examples(
        "veen label-class set --stream record/demo/notes --class log --retention long_term",
        "veen label-class list",
    ),
)
def label_class() -> None:
    """Classes of labels: class, sensitivity and retention hint."""


def _retention(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "long_term":
        return LONG_TERM
    if not text.isdigit():
        raise click.UsageError("--retention is seconds or long_term")
    return int(text)


@label_class.command(
    "set",
    epilog=examples(
        "veen label-class set --stream record/demo/notes --class log --retention long_term",
        "veen label-class set --label HEX --class wallet --sensitivity high --json",
    ),
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@click.option("--class", "klass", required=True, help="user, wallet, log, admin, bulk ...")
@click.option("--sensitivity", help="low, medium or high.")
@click.option("--retention", help="Seconds to keep payloads, or long_term.")
@_DATA_DIR
@label_options
@json_option
def set_class(
    *, name: str | None, label: str | None, klass: str, sensitivity: str | None,
    retention: str | None, as_json: bool, data_dir: Path | None, place: Place,
) -> None:  # fmt: skip
    """Record the class of a label on hub/admission."""
    from hub import control  # noqa: PLC0415

    target = place.label(name, label).hex()
    arguments: dict[str, Any] = {"label": target, "class": klass}
    if sensitivity is not None:
        arguments["sensitivity"] = sensitivity
    hint = _retention(retention)
    if hint is not None:
        arguments["retention_hint"] = hint
    folder = data_dir or place.root / "hub"
    emit(control.call(folder, "label_class", **arguments), as_json=as_json)


def _classes(data_dir: Path) -> list[dict[str, Any]]:
    from hub import control  # noqa: PLC0415

    found: list[dict[str, Any]] = control.call(data_dir, "label_classes")["classes"]
    return found


@label_class.command(
    "list", epilog=examples("veen label-class list", "veen label-class list --json")
)
@_DATA_DIR
@label_options
@json_option
def list_classes(*, as_json: bool, data_dir: Path | None, place: Place) -> None:
    """List the labels that have a class."""
    rows = _classes(data_dir or place.root / "hub")
    lines = [
        f"{row['label'][:16]}..  {row['class']}  sensitivity {row['sensitivity'] or '-'}  "
        f"retention {_hint(row['retention_hint'])}"
        for row in rows
    ]
    emit({"classes": rows}, as_json=as_json, lines=lines or ["no label has a class"])


def _hint(seconds: int | None) -> str:
    if seconds is None:
        return "-"
    return "long_term" if seconds == LONG_TERM else f"{seconds} s"


@label_class.command(
    "show",
    epilog=examples(
        "veen label-class show --stream record/demo/notes",
        "veen label-class show --label HEX --json",
    ),
)
@click.option("--stream", "name", help="Stream name.")
@click.option("--label", metavar="HEX", help="Label instead of a name.")
@_DATA_DIR
@label_options
@json_option
def show_class(
    *, name: str | None, label: str | None, as_json: bool, data_dir: Path | None, place: Place
) -> None:
    """Show the class of one label."""
    target = place.label(name, label).hex()
    for row in _classes(data_dir or place.root / "hub"):
        if row["label"] == target:
            shown = {**row, "retention_hint": _hint(row["retention_hint"])}
            emit(row if as_json else shown, as_json=as_json)
            return
    raise VeenError(ErrorCode.NOTFOUND, f"label {target[:16]}.. has no class")
