"""Making a backup: everything into a directory beside its name, the signed listing last [wire].

What a backup holds: the hub's truth at a checkpoint, the SQL database, settings and trust file, the
default anchor file; secrets only when asked for, sealed with a passphrase of their own. What it
leaves out is derived (indexes, lake, results) or belongs to this one machine (sockets, outboxes).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hub import keystore
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage.disk import Disk
from hub.storage.layout import Layout
from hub.types import UnixSeconds
from recorder.backup import child
from recorder.backup.copying import Writer
from recorder.backup.database import POSTGRESQL, SQLITE
from recorder.backup.listing import NAME, SIGNATURE, Listing
from recorder.backup.snapshot import take_snapshot

SECRETS: Final = "secrets.enc"
SETTINGS_FILES: Final = ("veen.toml", "trust.json", "trust.json.sig", "trust.pk")
ANCHORS: Final = "anchors/manifests.anchor"
_SECRETS_BYTES_MAX: Final = 768 * 1024  # what a keystore file may hold


def create_backup(
    state: Path,
    out: Path,
    *,
    trust_key: SigningKey,
    now: UnixSeconds,
    secrets_passphrase: bytes | None = None,
    disk: Disk | None = None,
) -> Listing:
    """Make a backup of a state directory at `out`, which must not exist yet."""
    if out.exists():
        raise VeenError(ErrorCode.CONFIG, f"{out} exists already")
    disk = disk or Disk()
    work = out.with_name(out.name + ".partial")
    if work.exists():
        shutil.rmtree(work)  # of an earlier try that was stopped
    disk.mkdir(work)
    try:
        listing = _fill(Writer(work, disk), state, now, secrets_passphrase)
        disk.write_atomic(work / SIGNATURE, listing.sign(trust_key))
        disk.write_atomic(work / NAME, listing.encode())
        disk.rename(work, out)
        disk.sync_dir(out.parent)
    except OSError as failure:
        raise StoreError(f"{failure.filename or out}: {failure.strerror}") from failure
    return listing


def _fill(
    writer: Writer, state: Path, now: UnixSeconds, secrets_passphrase: bytes | None
) -> Listing:
    # Rows speak of messages, so the database comes first: the log that follows has them all.
    kind = _copy_database(writer, state)
    snapshot = take_snapshot(Layout(state / "hub"), writer)
    for name in SETTINGS_FILES:
        if (state / name).exists():
            writer.copy(f"config/{name}", state / name)
    if (state / ANCHORS).exists():
        writer.copy(ANCHORS, state / ANCHORS)
    if secrets_passphrase is not None:
        writer.put(SECRETS, _sealed_secrets(state, secrets_passphrase))
    writer.finish()
    return Listing(
        created_at=now,
        hub_id=snapshot.history.hub_id,
        hub_pk=snapshot.history.keys[-1],
        manifest_id=snapshot.manifest_id,
        entries=snapshot.entries,
        heads=snapshot.heads,
        database=kind,
        has_secrets=secrets_passphrase is not None,
        files=tuple(sorted(writer.files, key=lambda entry: entry.path)),
    )


def _copy_database(writer: Writer, state: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="veen-dump-", dir=writer.root) as folder:
        answer = child.call(state, "dump", folder=folder)
        kind = str(answer["kind"])
        if answer["file"] is not None:
            path = SQLITE if kind == "sqlite" else POSTGRESQL
            writer.copy(path, Path(answer["file"]))
    return kind


def _sealed_secrets(state: Path, passphrase: bytes) -> bytes:
    found = read_secrets(state)
    if sum(map(len, found.values())) > _SECRETS_BYTES_MAX:
        raise VeenError(ErrorCode.SIZE, "the secrets are larger than a keystore can be")
    return keystore.seal(found, passphrase)


def read_secrets(state: Path) -> Mapping[str, bytes]:
    """Every secret of a bundle by its path: the hub's keys, and what `secrets/` holds."""
    found = {}
    for folder in ("hub/keys", "secrets"):
        for path in sorted((state / folder).glob("*")):
            if path.is_file() and not path.name.endswith(".tmp"):
                found[f"{folder}/{path.name}"] = keystore.read_private(path)
    return found
