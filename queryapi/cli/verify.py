"""`veen query verify`: a saved answer, checked without asking anybody [Query 5]."""

from __future__ import annotations

from pathlib import Path

import click

from hub.cli.output import emit, examples, json_option
from hub.errors import ErrorCode

EXIT_INVALID = 7


@click.command(
    epilog=examples(
        "veen query verify answer",
        "veen query verify answer --events events.ndjson --hub-pk 2114...",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--events",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Events of the coverage, as `veen recorder replay --json` gives them.",
)
@click.option("--hub-pk", envvar="VEEN_HUB_PK", metavar="HEX", help="The pinned key of the hub.")
@json_option
def verify(folder: Path, events: Path | None, hub_pk: str | None, *, as_json: bool) -> int:
    """Recompute digest and evidence of an answer saved by --save; every check is listed."""
    from hub.cli.place import parse_key  # noqa: PLC0415
    from queryapi.contract.descriptor_reader import read_recorded  # noqa: PLC0415
    from queryapi.replayed import read_events  # noqa: PLC0415
    from queryapi.verify import verify_saved  # noqa: PLC0415

    found = None
    if events is not None:
        descriptor = read_recorded((folder / "descriptor.json").read_bytes())
        assert descriptor.coverage is not None
        found = read_events(events, {part.stream: part.hub_id for part in descriptor.coverage})
    pinned = None if hub_pk is None else parse_key(hub_pk, "--hub-pk")
    report = verify_saved(folder, events=found, hub_pk=pinned)
    lines = [
        f"{'ok    ' if check.ok else 'FAILED'}  {check.verdict:13} {check.name}"
        + (f": {check.detail}" if check.detail else "")
        for check in report.checks
    ]
    lines.append("valid" if report.is_valid() else "NOT VALID")
    emit(report.to_json(), as_json=as_json, lines=lines)
    if report.is_valid():
        return 0
    return 1 if report.code is ErrorCode.NOTFOUND else EXIT_INVALID
