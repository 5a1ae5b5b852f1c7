"""`veen hub anchor`: publish, verify and list anchors of manifests [ANCHOR0; interfaces, Command].

Without a backend named on the command line the bundle's own are used, and what happens is stored
beside the checkpoint. With --file or --tsa-url nothing of a bundle is needed: the anchor_ref is
written to a file, and anybody can verify it from there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.cli.hub import hub
from hub.cli.output import b64, emit, examples, json_option
from hub.cli.place import Place, hub_options, parse_hex, place_options

if TYPE_CHECKING:
    from hub.types import ManifestId
    from recorder.anchors.anchor import Backend

__all__ = ["anchor", "hub"]

_PATH: Final = click.Path(path_type=Path)
_EXIT_VERIFICATION: Final = 7
_LIST_MAX: Final = 200


@click.group(
    epilog=examples(
        "veen hub anchor publish                 the newest manifest, in the bundle's backends",
        "veen hub anchor verify --manifest HEX   whether its anchors still stand",
    )
)
def anchor() -> None:
    """Keep manifests where the hub's own operator cannot rewrite them."""


hub.add_command(anchor)


def _backend_options(command: Any) -> Any:  # noqa: ANN401 - a decorator of any command
    for option in (
        click.option("--file", "file", type=_PATH, help="Anchor file, best on another disk."),
        click.option("--tsa-url", help="RFC 3161 time-stamping authority."),
        click.option("--tsa-cert", type=_PATH, help="PEM certificates that it must chain to."),
        click.option("--allow", multiple=True, metavar="HOST:PORT", help="Private address of it."),
        click.option("--manifest", metavar="HEX", help="manifest_id; the newest by default."),
    ):
        command = option(command)
    return command


@anchor.command(
    epilog=examples(
        "veen hub anchor publish --manifest HEX",
        "veen hub anchor publish --file /media/worm/veen.anchor --out newest.anchor",
    )
)
@click.option("--out", type=_PATH, help="Write the anchor_ref to this file.")
@_backend_options
@hub_options
@json_option
def publish(
    *, manifest: str | None, file: Path | None, tsa_url: str | None, tsa_cert: Path | None,
    allow: tuple[str, ...], out: Path | None, place: Place, as_json: bool,
) -> int:  # fmt: skip
    """Anchor a manifest that the hub signed."""
    manifest_id = _manifest_id(place, manifest)
    chosen = _backends(file, tsa_url, tsa_cert, allow)
    if not chosen:
        return _publish_in_bundle(place, manifest_id, as_json=as_json)
    if len(chosen) > 1:
        raise click.UsageError("one backend at a time; give --file or --tsa-url")
    ref, anchored = _publish(chosen[0], manifest_id)
    if out is not None:
        from hub.storage.disk import Disk  # noqa: PLC0415

        Disk().write_atomic(out, ref)
    document = {
        "manifest_id": manifest_id.hex(),
        "backend": chosen[0].name,
        "anchored_at": anchored.at,
        "witness": anchored.witness,
        "anchor_ref": b64(ref),
    }
    emit(document, as_json=as_json)
    return 0


def _publish(backend: Backend, manifest_id: ManifestId) -> tuple[bytes, Any]:
    import time  # noqa: PLC0415

    from hub.types import UnixSeconds  # noqa: PLC0415

    ref = backend.publish(manifest_id, UnixSeconds(int(time.time())))
    return ref.encode(), backend.verify(ref, manifest_id)


def _publish_in_bundle(place: Place, manifest_id: ManifestId, *, as_json: bool) -> int:
    _start_django(place)
    from recorder.anchors.service import anchor_manifest  # noqa: PLC0415

    rows = [_row(one) for one in anchor_manifest(manifest_id)]
    document = {"manifest_id": manifest_id.hex(), "anchors": rows}
    emit(document, as_json=as_json, lines=[_line(row) for row in rows])
    return 0 if all(row["anchored_at"] for row in rows) else 2


@anchor.command(
    epilog=examples(
        "veen hub anchor verify",
        "veen hub anchor verify --manifest HEX --ref newest.anchor --file /media/worm/veen.anchor",
    )
)
@click.option("--ref", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A file with the anchor_ref.")  # fmt: skip
@_backend_options
@place_options
@json_option
def verify(
    *, ref: Path | None, manifest: str | None, file: Path | None, tsa_url: str | None,
    tsa_cert: Path | None, allow: tuple[str, ...], place: Place, as_json: bool,
) -> int:  # fmt: skip
    """Check offline that anchors of a manifest still stand; exit 7 when one does not."""
    if ref is None:
        return _verify_in_bundle(place, manifest, as_json=as_json)
    from recorder.anchors.anchor import BODY_BYTES_MAX, AnchorRef  # noqa: PLC0415

    if manifest is None:
        raise click.UsageError("--ref needs --manifest, the manifest_id it is of")
    manifest_id = _parse(manifest)
    with ref.open("rb") as found:
        parsed = AnchorRef.decode(found.read(2 * BODY_BYTES_MAX))
    chosen = [
        one for one in _backends(file, tsa_url, tsa_cert, allow) if one.name == parsed.backend
    ]
    if not chosen:
        raise click.UsageError(f"an anchor of {parsed.backend} needs --file or --tsa-cert")
    anchored = chosen[0].verify(parsed, manifest_id)
    document = {
        "manifest_id": manifest_id.hex(),
        "backend": parsed.backend,
        "anchored_at": anchored.at,
        "witness": anchored.witness,
        "valid": True,
    }
    emit(document, as_json=as_json)
    return 0


def _verify_in_bundle(place: Place, manifest: str | None, *, as_json: bool) -> int:
    _start_django(place)
    from recorder.anchors.service import verify_anchors  # noqa: PLC0415
    from recorder.models import Anchor  # noqa: PLC0415

    if manifest is None:
        newest = Anchor.objects.filter(anchored_at__isnull=False).first()
        if newest is None:
            raise click.UsageError("nothing is anchored yet; `veen hub anchor publish` does it")
        manifest = newest.manifest_id
    rows: list[dict[str, object]] = [
        {
            **_row(one.row),
            "valid": one.refusal is None,
            "witness": None if one.anchored is None else one.anchored.witness,
            "error": None if one.refusal is None else str(one.refusal),
        }
        for one in verify_anchors(_parse(manifest))
    ]
    lines = [f"{'ok  ' if row['valid'] else 'FAIL'}  {_line(row)}" for row in rows]
    is_valid = bool(rows) and all(row["valid"] for row in rows)
    emit(
        {"manifest_id": manifest, "valid": is_valid, "anchors": rows},
        as_json=as_json,
        lines=lines or ["this manifest has no anchor"],
    )
    return 0 if is_valid else _EXIT_VERIFICATION


@anchor.command("list", epilog=examples("veen hub anchor list", "veen hub anchor list --json"))
@place_options
@json_option
def list_anchors(*, place: Place, as_json: bool) -> None:
    """List the newest anchors of the bundle, and what could not be anchored."""
    _start_django(place)
    from recorder.models import Anchor  # noqa: PLC0415

    rows = [_row(one) for one in Anchor.objects.all()[:_LIST_MAX]]
    emit({"anchors": rows}, as_json=as_json, lines=[_line(row) for row in rows] or ["no anchors"])


def _row(row: Any) -> dict[str, object]:  # noqa: ANN401 - a model, known only once Django runs
    return {
        "manifest_id": row.manifest_id,
        "backend": row.backend,
        "anchored_at": row.anchored_at and row.anchored_at.isoformat(),
        "tries": row.tries,
        "error": row.error or None,
        "anchor_ref": None if row.anchor_ref is None else b64(bytes(row.anchor_ref)),
    }


def _line(row: dict[str, object]) -> str:
    said = f"at {row['anchored_at']}" if row["anchored_at"] else f"not yet: {row['error']}"
    return f"{str(row['manifest_id'])[:16]}..  {row['backend']:<8}  {said}"


def _start_django(place: Place) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ["VEEN_DATA_DIR"] = str(place.root)
    import django  # noqa: PLC0415
    from django.db import DatabaseError  # noqa: PLC0415

    django.setup()
    from recorder.models import Anchor  # noqa: PLC0415

    try:
        Anchor.objects.exists()
    except DatabaseError as missing:
        reason = f"{place.root} has no database yet, or it is out of reach: `veen up` makes it"
        raise TimeoutError(reason) from missing


def _backends(
    file: Path | None, tsa_url: str | None, tsa_cert: Path | None, allow: tuple[str, ...]
) -> list[Backend]:
    found: list[Backend] = []
    if file is not None:
        from recorder.anchors.file import AnchorFile  # noqa: PLC0415

        found.append(AnchorFile(file))
    if tsa_url is not None:
        from recorder.anchors.connect import timestamps  # noqa: PLC0415

        if tsa_cert is None:
            raise click.UsageError("--tsa-url needs --tsa-cert, the certificates to trust")
        found.append(timestamps(tsa_url, tsa_cert, allow))
    elif tsa_cert is not None:
        from recorder.anchors.timestamp import PinnedCertificates, Timestamps  # noqa: PLC0415

        found.append(Timestamps(PinnedCertificates.read(tsa_cert)))
    return found


def _manifest_id(place: Place, text: str | None) -> ManifestId:
    """The one named, which the hub must have, or the newest; verified under the pinned key."""
    with place.connect() as client:
        return client.manifest(None if text is None else _parse(text)).id


def _parse(text: str) -> ManifestId:
    from hub.types import ManifestId  # noqa: PLC0415

    return ManifestId(parse_hex(text, "--manifest"))
