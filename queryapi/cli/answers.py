"""`veen query status, result, list, cancel` [Query 7.3, 7.4]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hub.cli.output import emit, escape, examples, note
from queryapi.cli.desk import PATH, desk_options, note_evidence, saved, show, waited

if TYPE_CHECKING:
    from queryapi.client import Client


@click.command(
    epilog=examples("veen query status r-3f2a...", "veen query status r-3f2a... --watch --json")
)
@click.argument("result_id")
@click.option("--watch", is_flag=True, help="Wait until it is over.")
@desk_options
def status(client: Client, timeout_s: float, result_id: str, *, watch: bool, as_json: bool) -> int:
    """Show how far a query is."""
    query = client.result(result_id)
    if watch:
        waited(query, timeout_s)
    emit(query.status(), as_json=as_json)
    return 0


@click.command(
    epilog=examples(
        "veen query result r-3f2a... --save answer",
        "veen query result r-3f2a... --format csv --out rows.csv",
    )
)
@click.argument("result_id")
@click.option("--offset", type=click.IntRange(0), default=0, help="First row.")
@click.option("--limit", type=click.IntRange(1), help="How many; all by default.")
@click.option(
    "--format", "kind", type=click.Choice(["json", "ndjson", "csv", "parquet"]), help="As a file."
)
@click.option("--out", type=PATH, metavar="FILE", help="Where the file goes; stdout if not given.")
@click.option("--save", type=PATH, metavar="DIR", help="Save rows, evidence, digest, descriptor.")
@desk_options
def result(  # noqa: PLR0917 - what can be asked of an answer
    client: Client,
    timeout_s: float,
    result_id: str,
    offset: int,
    limit: int | None,
    kind: str | None,
    out: Path | None,
    save: Path | None,
    *,
    as_json: bool,
) -> int:
    """Show the rows of a query, or keep them; what is kept whole is checked by its hash."""
    query = client.result(result_id)
    waited(query, timeout_s)
    if save is not None:
        saved(query, save, as_json=as_json)
    elif kind is not None:
        path = f"/api/query/result/{result_id}/download"
        if out is None and as_json:
            raise click.UsageError("a file is not one document: give --out beside --json")
        if out is None:
            client.web.save(path, {"format": kind}, sys.stdout.buffer)
        else:
            with out.open("wb") as sink:
                size = client.web.save(path, {"format": kind}, sink)
            digest = query.digest()
            beside = out.with_name(f"{out.name}.digest.json")
            beside.write_bytes(digest.canonical())
            if as_json:
                show({"file": str(out), "bytes": size, "result_digest": digest.to_json()})
            note(f"{size} bytes in {out}, the digest in {beside}")
            note_evidence(digest)
    elif limit is not None or offset:
        show(query.page(offset, limit or 1000))
    elif as_json:
        show({"result_digest": query.digest().to_json(), "rows": list(query.rows())})
    else:
        from hub import canonical_json  # noqa: PLC0415

        for row in query.rows():
            click.echo(escape(canonical_json.encode_text(row, depth_max=72, is_bounded=False)))
    return 0


@click.command("list", epilog=examples("veen query list", "veen query list --limit 500 --json"))
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="How many.")
@click.option("--after", metavar="RESULT_ID", help="Go on behind this one.")
@desk_options
def list_queries(
    client: Client, timeout_s: float, limit: int, after: str | None, *, as_json: bool
) -> int:
    """List queries, newest first; `next` of --json is what --after takes for more."""
    del timeout_s
    found = client.listed(limit=limit, after=after)
    if as_json:
        emit(found, as_json=True)
        return 0
    for one in found["queries"]:
        why = f"  {one['error_code']}: {one['message']}" if one["error_code"] else ""
        click.echo(
            escape(f"{one['submitted_at']}  {one['status']:9}  {one['query_id']}{why}\n"
                   f"  {one['result_id']}")
        )  # fmt: skip
    return 0


@click.command(epilog=examples("veen query cancel r-3f2a...", "veen query cancel r-3f2a... --json"))
@click.argument("result_id")
@desk_options
def cancel(client: Client, timeout_s: float, result_id: str, *, as_json: bool) -> int:
    """Stop a query; what had ended stays as it is."""
    del timeout_s
    emit(client.result(result_id).cancel(), as_json=as_json)
    return 0
