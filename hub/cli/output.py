"""What commands print: one JSON document or lines, nothing steers a terminal [interfaces]."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Document = Mapping[str, object]


def json_option(command: F) -> F:
    """`--json`: exactly one document on stdout, or one per line for a stream."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
    return option(command)


def examples(*lines: str) -> str:
    """The epilog of a command: how it is typed."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def escape(text: str) -> str:
    r"""Control characters as \xNN, so that no stored byte moves the cursor or sets a title."""
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char == "\n" or char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def emit(document: Document, *, as_json: bool, lines: list[str] | None = None) -> None:
    """One result; without --json the lines given, or each field on a line."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if lines is None:
        width = max(map(len, document), default=0)
        lines = [f"{name.ljust(width)}  {_plain(value)}" for name, value in document.items()]
    for line in lines:
        click.echo(escape(line))


def emit_line(document: Document) -> None:
    """One line of a stream, written at once."""
    click.echo(json.dumps(document, ensure_ascii=False))
    sys.stdout.flush()


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def note(text: str) -> None:
    """A remark for people; never on stdout."""
    click.echo(escape(text), err=True)


def progress(text: str) -> None:
    """A line that is overwritten by the next, only on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{escape(text)}", err=True, nl=False)


def progress_end() -> None:
    """Clear the progress line."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def b64(data: bytes) -> str:
    """Byte strings in JSON are standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def short(data: bytes) -> str:
    """A hash as people compare it: the first eight digits."""
    return f"{data.hex()[:8]}.."
