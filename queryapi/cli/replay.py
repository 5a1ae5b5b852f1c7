"""`veen query replay`: a recorded query asked again here, compared field by field [Query 9.1]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hub.cli.output import escape, examples
from queryapi.cli.desk import desk_options, show

if TYPE_CHECKING:
    from queryapi.client import Client

EXIT_DIFFERENT = 7


@click.command(
    epilog=examples(
        "veen query replay answer",
        "veen query replay answer --web-url https://offline.example --token-file t --json",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@desk_options
def replay(client: Client, timeout_s: float, folder: Path, *, as_json: bool) -> int:
    """Replay the descriptor of a saved answer; exit 7 when the digests differ."""
    from hub import canonical_json  # noqa: PLC0415
    from queryapi.client import NotFinishedError  # noqa: PLC0415

    descriptor = canonical_json.parse((folder / "descriptor.json").read_bytes())
    digest = canonical_json.parse((folder / "digest.json").read_bytes())
    try:
        found = client.replay(descriptor, digest).wait(timeout_s)
    except NotFinishedError as late:
        raise TimeoutError(late.detail) from late
    if as_json:
        show(found)
    else:
        for one in found["comparison"]:
            mark = "same     " if one["equal"] else "DIFFERENT"
            shown = one["ours"] if one["equal"] else f"{one['theirs']} there, {one['ours']} here"
            click.echo(escape(f"{mark}  {one['field']:17} {shown}"))
        click.echo("equal" if found["equal"] else "NOT EQUAL")
    return 0 if found["equal"] else EXIT_DIFFERENT
