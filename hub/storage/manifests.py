"""Signed checkpoint manifests on disk: one file each, and a pointer to the newest [SDR0 3.2.4]."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hub.errors import ErrorCode, StoreError
from hub.storage import frames
from hub.storage.disk import Disk
from hub.storage.labels import LabelFiles
from hub.storage.layout import Layout
from hub.storage.state import LogState
from hub.types import Label, ManifestId
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest

LATEST: Final = "latest"


def path_of(layout: Layout, manifest_id: ManifestId) -> Path:
    """Where a manifest lies; two hex digits of fan-out keep directories small."""
    name = manifest_id.hex()
    return layout.manifests / name[:2] / name


def read(layout: Layout, manifest_id: ManifestId) -> bytes | None:
    """The manifest's bytes, checked against its name; None when there is none."""
    try:
        path = path_of(layout, manifest_id)
        data = frames.read_frame(path.read_bytes(), 0, str(path)).payload
    except FileNotFoundError:
        return None
    if Manifest.decode(data).id != manifest_id:
        raise StoreError(f"{path}: not the manifest of that name", ErrorCode.DAMAGE)
    return data


def latest_id(layout: Layout) -> ManifestId | None:
    """The newest manifest's id."""
    try:
        text = (layout.manifests / LATEST).read_text("ascii")
        found = ManifestId(bytes.fromhex(text))
    except FileNotFoundError:
        return None
    except ValueError as flaw:
        raise frames.Damage(str(layout.manifests / LATEST), 0, "not a manifest_id") from flaw
    is_id = len(found) == 32 and text == f"{found.hex()}\n"
    if not is_id or not path_of(layout, found).exists():
        raise frames.Damage(str(layout.manifests / LATEST), 0, "names no manifest")
    return found


def write(layout: Layout, disk: Disk, data: bytes) -> ManifestId:
    """Store a manifest durably, then point at it."""
    manifest_id = Manifest.decode(data).id
    path = path_of(layout, manifest_id)
    disk.mkdir(path.parent)
    disk.write_atomic(path, frames.frame(frames.RECORD, data))
    disk.sync_dir(layout.manifests)  # its name is safe before anything points at it
    disk.write_atomic(layout.manifests / LATEST, manifest_id.hex().encode() + b"\n")
    return manifest_id


def chain(layout: Layout) -> Iterator[Manifest]:
    """Every manifest from the newest back to the first, following `previous`."""
    wanted = latest_id(layout)
    while wanted is not None and any(wanted):
        manifest = load(layout, wanted)
        yield manifest
        wanted = manifest.previous


def load(layout: Layout, manifest_id: ManifestId) -> Manifest:
    """A manifest that must be there; S.DAMAGE when it is not."""
    data = read(layout, manifest_id)
    if data is None:
        raise frames.Damage(str(path_of(layout, manifest_id)), 0, "manifest is missing")
    return Manifest.decode(data)


def point_at_newest(layout: Layout, disk: Disk) -> None:
    """Mend a pointer that is damaged or lost: the newest manifest that no other one follows."""
    try:
        if latest_id(layout) is not None:
            return
    except frames.Damage:
        pass
    kept = [load(layout, manifest_id) for manifest_id in _names(layout)]
    followed = {manifest.previous for manifest in kept}
    tips = [manifest for manifest in kept if manifest.id not in followed]
    if tips:
        newest = max(tips, key=lambda tip: (sum(i.upto_seq for i in tip.checkpoints), tip.id))
        disk.write_atomic(layout.manifests / LATEST, newest.id.hex().encode() + b"\n")


def _names(layout: Layout) -> list[ManifestId]:
    names = (path.name for path in layout.manifests.glob("??/*"))
    return sorted(ManifestId(bytes.fromhex(name)) for name in names if len(name) == 64)


def rewind(layout: Layout, disk: Disk, state: LogState) -> None:
    """Point at the newest manifest that this log bears out, for a log that was cut back."""
    for manifest in chain(layout):
        if all(_size(state, item.label_curr) >= item.upto_seq for item in manifest.checkpoints):
            disk.write_atomic(layout.manifests / LATEST, manifest.id.hex().encode() + b"\n")
            return
    disk.unlink(layout.manifests / LATEST)
    disk.sync_dir(layout.manifests)


def restore_checkpoints(layout: Layout, files: LabelFiles, state: LogState) -> None:
    """Bring each label's CHECKPOINT file up to the manifests, which are written first.

    What is missing is always the newest part of a file, so looking back ends at the first
    manifest of which nothing is.
    """
    behind: list[ManifestId] = []
    with contextlib.suppress(StoreError):  # a broken chain is for fsck to name
        for manifest in chain(layout):
            if not _missing(files, state, manifest):
                break
            behind.append(manifest.id)
    for manifest_id in reversed(behind):
        for item in _missing(files, state, load(layout, manifest_id)):
            files.append_checkpoint(item.label_curr, item.upto_seq, item.encode())


def _missing(files: LabelFiles, state: LogState, manifest: Manifest) -> list[Checkpoint]:
    return [
        item
        for item in manifest.checkpoints
        if item.upto_seq <= _size(state, item.label_curr)
        and not files.has_checkpoint(item.label_curr, item.upto_seq, item.encode())
    ]


def _size(state: LogState, label: Label) -> int:
    known = state.labels.get(label)
    return known.size if known else 0
