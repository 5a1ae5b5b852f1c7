"""`veen query submit`: a descriptor from a file, from stdin or from flags [Query 7.2]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hub.cli.output import emit, escape, examples, note
from queryapi.cli.desk import PATH, desk_options, note_evidence, saved, show, waited

if TYPE_CHECKING:
    from queryapi.client import Client, Query

_SHOWN_MAX = 20


@click.command(
    epilog=examples(
        "veen query submit --scope record/security/iam --subject alice --evidence full",
        "veen query submit --scope record/app/shop --group-by origin --metric count",
        "veen query submit question.json --save answer",
        "echo '{...}' | veen query submit - --no-wait",
    )
)
@click.argument("source", required=False, metavar="[FILE|-]")
@click.option("--scope", multiple=True, metavar="STREAM", help="May be repeated.")
@click.option("--event-type", multiple=True, metavar="TYPE", help="May be repeated.")
@click.option("--subject", metavar="ID", help="Events of one subject_id.")
@click.option("--from", "start", metavar="TIME", help="First commit time, inclusive.")
@click.option("--to", "end", metavar="TIME", help="Last commit time, inclusive.")
@click.option("--where", multiple=True, nargs=3, metavar="PATH OP VALUE",
              help="A predicate, VALUE as JSON: --where payload.status ge 400.")  # fmt: skip
@click.option("--field", multiple=True, metavar="FIELD", help="What to show; all by default.")
@click.option("--group-by", multiple=True, metavar="FIELD", help="May be repeated.")
@click.option("--metric", multiple=True, metavar="METRIC", help="count, min(F), max(F), sum(F)...")
@click.option("--evidence", type=click.Choice(["none", "spot", "full"]), default="none")
@click.option("--sample-rate", metavar="NUMBER", help="With --evidence spot.")
@click.option("--id", "query_id", metavar="QUERY_ID", help="Made by the server if not given.")
@click.option("--reason", help="Why it is asked; recorded.")
@click.option("--wait/--no-wait", default=True, help="Wait for the answer (the default), or not.")
@click.option("--save", type=PATH, metavar="DIR", help="Save rows, evidence, digest, descriptor.")
@desk_options
def submit(
    client: Client,
    timeout_s: float,
    source: str | None,
    *,
    wait: bool,
    save: Path | None,
    as_json: bool,
    **parts: Any,  # noqa: ANN401 - click's values
) -> int:
    """Ask a question. Rows are shown, and hashed on the way, once it is answered."""
    query = client.submit(_read(source, parts))
    if not wait:
        emit({"query_id": query.query_id, "result_id": query.result_id}, as_json=as_json)
        return 0
    waited(query, timeout_s)
    if save is not None:
        saved(query, save, as_json=as_json)
        return 0
    _show(query, as_json=as_json)
    return 0


def _read(source: str | None, parts: dict[str, Any]) -> bytes:
    if source is not None:
        given = [name for name, value in parts.items() if value and name != "evidence"]
        if given:
            raise click.UsageError("a file is the whole question: give no parts beside it")
        return sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    if not parts["scope"]:
        raise click.UsageError("what to ask about? give --scope, a file, or - for stdin")
    from hub import canonical_json  # noqa: PLC0415

    return canonical_json.encode(_descriptor(parts))


def _descriptor(parts: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if parts["event_type"]:
        asked["event_type"] = list(parts["event_type"])
    if parts["subject"] is not None:
        asked["subject_id"] = parts["subject"]
    if parts["start"] or parts["end"]:
        asked["time"] = {"from": parts["start"], "to": parts["end"]}
    if parts["where"]:
        asked["payload"] = [
            {"path": path, "op": op, "value": _json(value)} for path, op, value in parts["where"]
        ]
    found: dict[str, Any] = {
        "scope": list(parts["scope"]),
        "filter": asked,
        "evidence": {"mode": parts["evidence"]},
    }
    if parts["sample_rate"] is not None:
        found["evidence"]["sample_rate"] = _json(parts["sample_rate"])
    if parts["metric"] or parts["group_by"]:
        metrics = list(parts["metric"]) or ["count"]
        found["aggregate"] = {"group_by": list(parts["group_by"]), "metrics": metrics}
        if parts["field"]:
            raise click.UsageError("--field goes without --group-by and --metric")
    else:
        found["projection"] = list(parts["field"]) or ["*"]
    if parts["query_id"] is not None:
        found["query_id"] = parts["query_id"]
    if parts["reason"] is not None:
        found["meta"] = {"reason": parts["reason"]}
    return found


def _json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    from hub import canonical_json  # noqa: PLC0415
    from hub.canonical_json import JsonError  # noqa: PLC0415

    try:
        return canonical_json.parse(text)
    except JsonError:
        return text  # A word that is no JSON is the text it looks like.


def _show(query: Query, *, as_json: bool) -> None:
    digest = query.digest()
    if as_json:
        show({"result_digest": digest.to_json(), "rows": list(query.rows())})
        return
    from hub import canonical_json  # noqa: PLC0415

    for number, row in enumerate(query.rows()):
        if number < _SHOWN_MAX:
            text = canonical_json.encode_text(row, depth_max=72, is_bounded=False)
            click.echo(escape(text))
    if digest.row_count > _SHOWN_MAX:
        note(f"... {digest.row_count - _SHOWN_MAX} more; `veen query result {query.result_id}`")
    note(f"{digest.row_count} rows, rows_hash {digest.rows_hash[:16]}, as recorded")
    note_evidence(digest)
    note(f"result {query.result_id}")
