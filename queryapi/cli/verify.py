"""`veen query verify`, and `veen verify` for answers too: nobody is asked [Query 5; interfaces]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.cli.output import emit, examples, json_option
from hub.cli.place import Place, parse_key, pin_options
from recorder.cli.evidence import verify as evidence_verify

if TYPE_CHECKING:
    from hub.types import PublicKey

EXIT_INVALID: Final = 7
_EVENTS: Final = click.Path(path_type=Path, exists=True, dir_okay=False)
_EVENTS_HELP: Final = "Events of the coverage, as `veen recorder replay --json` gives them."


@click.command(
    epilog=examples(
        "veen query verify answer",
        "veen query verify answer --events events.ndjson --hub-pk 2114...",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--events", type=_EVENTS, help=_EVENTS_HELP)
@click.option("--hub-pk", envvar="VEEN_HUB_PK", metavar="HEX", help="The pinned key of the hub.")
@json_option
def verify(folder: Path, events: Path | None, hub_pk: str | None, *, as_json: bool) -> int:
    """Recompute digest and evidence of an answer saved by --save; every check is listed."""
    pinned = None if hub_pk is None else parse_key(hub_pk, "--hub-pk")
    return _judged(folder, events, pinned, as_json=as_json)


def _judged(folder: Path, events: Path | None, hub_pk: PublicKey | None, *, as_json: bool) -> int:
    from queryapi.verify import verify_saved  # noqa: PLC0415

    report = verify_saved(folder, events_file=events, hub_pk=hub_pk)
    lines = [
        f"{'ok    ' if check.ok else 'FAILED'}  {check.verdict:13} {check.name}"
        + (f": {check.detail}" if check.detail else "")
        for check in report.checks
    ]
    lines.append("valid" if report.is_valid() else "NOT VALID")
    emit(report.to_json(), as_json=as_json, lines=lines)
    return 0 if report.is_valid() else EXIT_INVALID


def _is_answer(path: Path) -> bool:
    return (path / "digest.json").is_file() and (path / "descriptor.json").is_file()


def _verify_any(**options: Any) -> int:  # noqa: ANN401 - click's own options, passed on
    """Check a saved answer here, anything else as the recorder's command does."""
    paths: tuple[Path, ...] = options["paths"]
    events = options.pop("events")
    if len(paths) == 1 and _is_answer(paths[0]):
        return _verify_answer(folder=paths[0], events=events, **options)
    if events is not None:
        raise click.UsageError("--events goes with the folder of a saved answer")
    assert evidence_verify.callback is not None
    outcome: int = evidence_verify.callback(**options)
    return outcome


@pin_options
def _verify_answer(
    *, folder: Path, events: Path | None, place: Place, as_json: bool, **_: object
) -> int:
    found = place.hub_pk or place.running().get("hub_pk")
    pinned = parse_key(str(found), "--hub-pk") if found else None
    return _judged(folder, events, pinned, as_json=as_json)


anything: Final = click.Command(
    "verify",
    params=[*evidence_verify.params, click.Option(["--events"], type=_EVENTS, help=_EVENTS_HELP)],
    callback=_verify_any,
    help="Check packs, receipts, messages, proofs, saved streams, saved answers or a data "
    "directory offline.",
    epilog=examples(
        "veen verify 42.evidence --hub-pk HEX",
        "veen verify answer --events events.ndjson --hub-pk HEX",
    ),
)
