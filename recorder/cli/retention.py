"""`veen recorder retention`: how long payloads stay; nothing goes before its time [SDR0 3.2.2]."""

from __future__ import annotations

import click

from hub.cli.output import emit, examples
from recorder.cli.desk import Desk, desk_options


@click.command(
    epilog=examples(
        "veen recorder retention record/app/orders",
        "veen recorder retention record/app/orders --prune-before 1000 --reason 'ten years over'",
    )
)
@click.argument("stream", required=False)
@click.option("--set", "hint", metavar="SECONDS|long_term", help="Keep payloads for longer.")
@click.option("--prune-before", type=click.IntRange(2), metavar="SEQ",
              help="Drop payloads before this sequence; receipts and proofs stay.")  # fmt: skip
@desk_options
def retention(
    *, stream: str | None, hint: str | None, prune_before: int | None, as_json: bool, desk: Desk
) -> None:
    """Show retention, lengthen it, or prune; nothing goes before its time."""
    if stream is None and (hint is not None or prune_before is not None):
        raise click.UsageError("which stream?")
    if hint is not None and prune_before is not None:
        raise click.UsageError("one act at a time: --set or --prune-before")
    if hint is not None:
        args = {"stream": stream, "retention_hint": _seconds(hint)}
        emit(desk.ask("retention.set", args), as_json=as_json)
        return
    if prune_before is not None:
        if not desk.reason:
            raise click.UsageError("pruning needs --reason")
        args = {"stream": stream, "before_seq": prune_before}
        emit(desk.ask("retention.prune", args), as_json=as_json)
        return
    rows = [
        {"name": one["name"], "retention_hint": one["retention_hint"]}
        for one in desk.rows("streams")
        if stream in (None, one["name"])
    ]
    lines = [f"{one['name']}  {one['retention_hint']}" for one in rows]
    emit({"streams": rows}, as_json=as_json, lines=lines or ["no such stream"])


def _seconds(text: str) -> int:
    from recorder.streams import LONG_TERM  # noqa: PLC0415

    if text == "long_term":
        return LONG_TERM
    if not (text.isascii() and text.isdigit()):
        raise click.UsageError("--set is seconds or long_term")
    return int(text)
