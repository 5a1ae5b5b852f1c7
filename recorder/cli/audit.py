"""`veen recorder audit`: every field of the lake against the log again [architecture, The lake].

Loaded by `veen recorder`; imports no framework, so it starts at once.
"""

from __future__ import annotations

from typing import Any, Final

import click

from hub.cli.output import emit, examples
from recorder.cli import lake_job
from recorder.cli.desk import Desk, desk_options

EXIT_DIFFERENT: Final = 7


@click.command(
    epilog=examples(
        "veen recorder audit",
        "veen recorder audit record/app/shop --from 100 --to 200 --from-hub",
    )
)
@click.argument("streams", nargs=-1, metavar="[STREAM]...")
@click.option("--from", "from_seq", type=click.IntRange(1), help="First sequence, of one stream.")
@click.option("--to", "to_seq", type=click.IntRange(1), help="Last sequence, inclusive.")
@click.option("--from-hub", is_flag=True, help="Read messages from the hub, not from proofs files.")
@desk_options
def audit(
    *,
    streams: tuple[str, ...],
    from_seq: int | None,
    to_seq: int | None,
    from_hub: bool,
    as_json: bool,
    desk: Desk,
) -> int:
    """Re-open messages, check signatures and roots, compare every field, record the verdict."""
    if (from_seq or to_seq) and len(streams) != 1:
        raise click.UsageError("a range is of one stream")
    args = {
        "streams": list(streams),
        "from_seq": from_seq,
        "to_seq": to_seq,
        "from_hub": from_hub,
    }
    job = lake_job.run(desk, "lake.audit", args)
    verdicts: list[dict[str, Any]] = job["result"]["verdicts"]
    lines = [line for verdict in verdicts for line in _lines(verdict)]
    document = {"job_id": job["job_id"], "verdicts": verdicts}
    emit(document, as_json=as_json, lines=lines or ["the lake is empty"])
    is_equal = all(one["verdict"] != "different" for one in verdicts)
    return 0 if is_equal else EXIT_DIFFERENT


def _lines(verdict: dict[str, Any]) -> list[str]:
    if verdict["verdict"] == "empty":
        return [f"{verdict['stream']}  empty"]
    where = f"{verdict['from_seq']} to {verdict['to_seq']}"
    found = [f"{verdict['stream']}  {where}  {verdict['events']} events  {verdict['verdict']}"]
    for one in verdict["first_differences"]:
        place = "" if one["seq"] is None else f" at {one['seq']}"
        found.append(f"  different{place}: {one['what']}")
    return found
