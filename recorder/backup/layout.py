"""Lays the hub's part of a backup out as a data directory, indexes still to be made [SSOT 12]."""

from __future__ import annotations

import shutil
from pathlib import Path

from hub.errors import ErrorCode, StoreError
from hub.storage import framedfile, frames, manifests
from hub.storage.disk import DIR_MODE, FILE_MODE, Disk
from hub.storage.layout import Layout
from hub.wire.manifest import Manifest
from recorder.backup.listing import Listing
from recorder.backup.snapshot import MANIFESTS


def lay_out_hub(backup: Path, data_dir: Path, listing: Listing) -> None:
    """Copy log, records and attachments, and write each manifest into its own file again."""
    layout = Layout(data_dir)
    for folder in (data_dir, layout.log, layout.labels, layout.manifests, layout.attachments):
        folder.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    for entry in listing.of("hub"):
        if entry.path != MANIFESTS:
            put_private(backup / entry.path, data_dir / entry.path.removeprefix("hub/"))
    newest = None
    for data in framedfile.read_all(backup / MANIFESTS):
        newest = Manifest.decode(data)
        path = manifests.path_of(layout, newest.id)
        path.parent.mkdir(mode=DIR_MODE, exist_ok=True)
        path.write_bytes(frames.frame(frames.RECORD, data))
        path.chmod(FILE_MODE)
    if (None if newest is None else newest.id) != listing.manifest_id:
        raise StoreError("the backup's manifests end at another one", ErrorCode.DAMAGE)
    if newest is not None:
        latest = newest.id.hex().encode() + b"\n"
        Disk().write_atomic(layout.manifests / manifests.LATEST, latest)


def put_private(source: Path, target: Path) -> None:
    """A copy that only its owner can read."""
    target.parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(FILE_MODE)
