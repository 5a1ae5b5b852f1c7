"""`veen backup`: create, verify and restore backups of a bundle [experience 3; wire, Guard]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.cli.output import emit, examples, json_option, note, progress, progress_end
from hub.cli.place import Place, parse_key, place_options
from hub.errors import ErrorCode, VeenError

if TYPE_CHECKING:
    from hub.types import PublicKey
    from recorder.backup.listing import Listing

_PATH: Final = click.Path(path_type=Path)
_FOLDER: Final = click.Path(path_type=Path, exists=True, file_okay=False)
_EXIT_VERIFICATION: Final = 7
_TRUST_KEY: Final = "trust.key"

_secrets_option = click.option(
    "--secrets-passphrase-file", "passphrase_file_of_secrets", type=_PATH,
    help="Passphrase that seals the secrets inside the backup.",
)  # fmt: skip
_trust_option = click.option(
    "--trust-pk", metavar="HEX", help="The realm's trust key; that of the bundle by default."
)


@click.group(
    epilog=examples(
        "veen backup create --out /media/backup/2026-03-01",
        "veen backup verify /media/backup/2026-03-01 --deep",
    )
)
def backup() -> None:
    """Keep the log, the database and the settings elsewhere, and bring them back."""


def _show(figures: dict[str, Any]) -> None:
    progress(" ".join(f"{name} {value}" for name, value in figures.items()))


@backup.command(
    epilog=examples(
        "veen backup create --out /media/backup/today",
        "veen backup create --out today --secrets-passphrase-file pass --json",
    )
)
@click.option("--out", type=_PATH, required=True, help="A directory that does not exist yet.")
@click.option("--trust-key-file", type=_PATH, help="The realm's trust key, which signs it.")
@_secrets_option
@place_options
@json_option
def create(
    *, out: Path, trust_key_file: Path | None, passphrase_file_of_secrets: Path | None,
    place: Place, as_json: bool,
) -> None:  # fmt: skip
    """Make a signed backup at a checkpoint; the hub may run meanwhile."""
    import time  # noqa: PLC0415

    from hub import keystore  # noqa: PLC0415
    from hub.crypto.signing import SigningKey  # noqa: PLC0415
    from hub.types import UnixSeconds  # noqa: PLC0415
    from recorder.backup.create import create_backup  # noqa: PLC0415

    key = SigningKey(keystore.read_key_file(trust_key_file or place.secret(_TRUST_KEY)))
    listing = create_backup(
        place.root,
        out,
        trust_key=key,
        now=UnixSeconds(int(time.time())),
        secrets_passphrase=_passphrase(passphrase_file_of_secrets),
    )
    emit({"backup": str(out), **_told(listing)}, as_json=as_json)
    if not listing.has_secrets:
        note("no secret is in it: keep hub/keys and secrets/ safe elsewhere, or it stays read-only")


def _told(listing: Listing) -> dict[str, object]:
    return {
        "entries": listing.entries,
        "labels": len(listing.heads),
        "manifest_id": listing.manifest_id and listing.manifest_id.hex(),
        "hub_id": listing.hub_id.hex(),
        "created_at": listing.created_at,
        "database": listing.database,
        "has_secrets": listing.has_secrets,
        "files": len(listing.files),
        "bytes": sum(one.bytes for one in listing.files),
    }


@backup.command(
    epilog=examples(
        "veen backup verify /media/backup/today --trust-pk HEX",
        "veen backup verify /media/backup/today --deep --json   a drill, with fsck",
    )
)
@click.argument("folder", type=_FOLDER)
@click.option("--deep", is_flag=True, help="Restore the log aside and run fsck on it.")
@_trust_option
@place_options
@json_option
def verify(
    *, folder: Path, deep: bool, trust_pk: str | None, place: Place, as_json: bool
) -> int:  # fmt: skip
    """Check signature and every byte of a backup; exit 7 when something is wrong."""
    from recorder.backup.check import check_backup, check_deeply  # noqa: PLC0415

    pinned = _trust_pk(place, trust_pk)
    try:
        if not deep:
            told: dict[str, object] = _told(check_backup(folder, pinned, progress=_show))
        else:
            listing, report = check_deeply(folder, pinned, progress=_show)
            told = {**_told(listing), "fsck": report.as_json()}
            if not report.ok:
                emit({"valid": False, **told}, as_json=as_json)
                return _EXIT_VERIFICATION
    finally:
        progress_end()
    lines = [f"{name}  {value}" for name, value in told.items() if name != "fsck"]
    lines.append("VALID: backup" + (", restored aside and re-derived" if deep else ""))
    emit({"valid": True, **told}, as_json=as_json, lines=lines)
    return 0


@backup.command(
    epilog=examples(
        "veen backup restore today --to ./state --trust-pk HEX --secrets-passphrase-file pass",
        "veen backup restore today --to ./state --trust-pk HEX --secrets-from /media/keys --json",
    )
)
@click.argument("folder", type=_FOLDER)
@click.option("--to", "target", type=_PATH, required=True, help="The new state directory.")
@click.option("--secrets-from", type=_FOLDER, help="A directory with hub/keys and secrets.")
@click.option("--routing-key-file", type=_PATH, help="Where it does not lie among the secrets.")
@_secrets_option
@_trust_option
@place_options
@json_option
def restore(
    *, folder: Path, target: Path, secrets_from: Path | None, routing_key_file: Path | None,
    passphrase_file_of_secrets: Path | None, trust_pk: str | None, place: Place, as_json: bool,
) -> None:  # fmt: skip
    """Bring a backup back; it becomes a fork unless the last signed heads are those restored."""
    from hub import keystore  # noqa: PLC0415
    from recorder.backup.create import read_secrets  # noqa: PLC0415
    from recorder.backup.restore import open_secrets, restore_backup  # noqa: PLC0415

    if secrets_from is not None and passphrase_file_of_secrets is not None:
        raise click.UsageError("--secrets-from and --secrets-passphrase-file exclude each other")
    passphrase = _passphrase(passphrase_file_of_secrets)
    pinned = _trust_pk(place, trust_pk)
    secrets = {}
    if passphrase is not None:
        secrets = dict(open_secrets(folder, passphrase))
    elif secrets_from is not None:
        secrets = dict(read_secrets(secrets_from))
    try:
        done = restore_backup(
            folder,
            target.absolute(),
            trust_pk=pinned,
            secrets=secrets,
            routing_key=None
            if routing_key_file is None
            else keystore.read_key_file(routing_key_file),
            progress=_show,
        )
    finally:
        progress_end()
    told = done.to_json()
    lines = [f"{name}  {value}" for name, value in told.items() if name not in {"fsck", "lost"}]
    lines += [f"lost  {one}" for one in told["lost"]]
    emit({"state": str(target), **told}, as_json=as_json, lines=lines)
    if not told["writable"]:
        note("no keys were given: the directory can be verified and read, not continued")
    elif done.is_fork:
        note(f"a fork: `veen up --data-dir {target} --trust-hub {told['hub_pk']}` starts it")


def _passphrase(path: Path | None) -> bytes | None:
    from hub import keystore  # noqa: PLC0415

    return None if path is None else keystore.read_private(path).strip()


def _trust_pk(place: Place, text: str | None) -> PublicKey:
    held = place.root / "trust.pk"
    if text is None and not held.exists():
        raise VeenError(ErrorCode.TRUST, "no pinned trust key: give --trust-pk")
    return parse_key(text or held.read_text("ascii").strip(), "--trust-pk")
