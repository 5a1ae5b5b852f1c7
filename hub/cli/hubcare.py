"""Care for a data directory that no hub has open: fsck, rebuild, rotation chain [SSOT 12]."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.cli.output import emit, examples, json_option, progress, progress_end
from hub.cli.place import data_dir_option, parse_key
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.storage.fsck import Finding
    from hub.types import PublicKey

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_EXIT_VERIFICATION: Final = 7


@click.command(
    epilog=examples(
        "veen hub fsck --data-dir ./data",
        "veen hub fsck --data-dir ./data --hub-pk HEX --json",
    )
)
@click.option("--hub-pk", metavar="HEX", help="Fail unless this key is one of the log's.")
@click.option("--heads-file", type=click.Path(path_type=Path), help="Guard of the signed heads.")
@click.option("--no-signatures", is_flag=True, help="Hashes and order only; much faster.")
@data_dir_option
@json_option
def fsck(
    *, hub_pk: str | None, heads_file: Path | None, no_signatures: bool, as_json: bool,
    data_dir: Path,
) -> int:  # fmt: skip
    """Re-derive everything from the stored bytes and name the first damage."""
    pinned = None if hub_pk is None else parse_key(hub_pk, "--hub-pk")
    return check_directory(
        data_dir, as_json=as_json, hub_pk=pinned, heads_file=heads_file, quick=no_signatures
    )


def check_directory(
    data_dir: Path,
    *,
    as_json: bool,
    hub_pk: PublicKey | None = None,
    heads_file: Path | None = None,
    quick: bool = False,
) -> int:
    """Also what `veen verify` does with a data directory; 7 when damage was found."""
    from hub.storage.fsck import run_fsck  # noqa: PLC0415

    _check_exists(data_dir)
    try:
        report = run_fsck(
            data_dir,
            progress=_progress,
            verify_signatures=not quick,
            hub_pk=hub_pk,
            heads_file=heads_file,
        )
    finally:
        progress_end()
    lines = [f"ok    {check['check']}: {check['count']}" for check in report.checks]
    lines += [f"FAIL  {_place(finding)}" for finding in report.findings]
    lines.append(
        f"{'CONSISTENT' if report.ok else 'DAMAGED'}: {report.entries} entries, "
        f"{report.labels} labels, {report.segments} segments, {report.bytes} bytes"
    )
    emit(report.as_json(), as_json=as_json, lines=lines)
    return 0 if report.ok else _EXIT_VERIFICATION


def _check_exists(data_dir: Path) -> None:
    if not data_dir.is_dir():
        raise click.UsageError(f"there is no directory {data_dir}; name it with --data-dir")


def _place(finding: Finding) -> str:
    return " ".join(f"{name} {value}" for name, value in asdict(finding).items() if value != "")


def _progress(figures: dict[str, Any]) -> None:
    progress(" ".join(f"{name} {value}" for name, value in figures.items()))


@click.command(epilog=examples("veen hub rebuild --data-dir ./data", "veen hub rebuild --json"))
@data_dir_option
@json_option
def rebuild(*, as_json: bool, data_dir: Path) -> None:
    """Recreate every index from the segments; the hub must be stopped."""
    from hub.storage.rebuild import run_rebuild  # noqa: PLC0415

    _check_exists(data_dir)
    try:
        report = run_rebuild(data_dir, progress=_progress)
    finally:
        progress_end()
    emit(report, as_json=as_json)


@click.command(
    "verify-rotation",
    epilog=examples(
        "veen hub verify-rotation handover.rotation --hub-pk HEX",
        "veen hub verify-rotation all.rotations --hub-pk HEX --new-pk HEX --json",
    ),
)
@click.argument("file", type=_FILE)
@click.option("--hub-pk", envvar="VEEN_HUB_PK", metavar="HEX", required=True, help="Pinned key.")
@click.option("--new-pk", metavar="HEX", help="Fail unless the chain ends at this key.")
@json_option
def verify_rotation(*, file: Path, hub_pk: str, new_pk: str | None, as_json: bool) -> int:
    """Check offline that rotation records lead from the pinned key to one current key."""
    from hub.verify import Pins, verify_rotations  # noqa: PLC0415
    from hub.verify_stream import cut_items  # noqa: PLC0415

    pinned = parse_key(hub_pk, "--hub-pk")
    records = cut_items(file.read_bytes())
    report = verify_rotations(pinned, records)
    document = report.to_json()
    if report.is_valid():
        pins = Pins.of_key(pinned, records)
        (current,) = pins.active
        document |= {"current_pk": current.hex(), "ended": [key.hex() for key in pins.ended]}
        if pinned not in pins.active and pinned not in pins.ended:
            raise VeenError(ErrorCode.TRUST, "no record speaks of the pinned key")
        if new_pk is not None and current != parse_key(new_pk, "--new-pk"):
            raise VeenError(ErrorCode.TRUST, f"the records lead to {current.hex()}")
    emit(document, as_json=as_json)
    return 0 if report.is_valid() else _EXIT_VERIFICATION
