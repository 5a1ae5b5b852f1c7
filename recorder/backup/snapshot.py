"""The truth of a data directory at one checkpoint, while its hub runs or not [SSOT 12; SDR0 3.2.4].

Segments only grow, and a closed one is replaced whole, so their bytes up to a COMMIT frame can be
copied at any time. A running hub is asked for a manifest first; the log is cut at the COMMIT whose
count is the number of messages that the manifest covers, so every message of a backup is proven by
that manifest. Of a stopped hub everything committed is taken, under the directory's lock. Indexes
are left out: they are derived, and a restore makes them anew from what it can check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from hub import control
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import framedfile, frames, manifests, segments
from hub.storage.disk import DirectoryLock
from hub.storage.frames import Damage
from hub.storage.history import History, read_history
from hub.storage.layout import Layout
from hub.storage.rebuild import check_log
from hub.types import Label, ManifestId
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from recorder.backup.copying import Writer
from recorder.backup.listing import Head

MANIFESTS: Final = "hub/manifests.seq"
_TRIES: Final = 5
_HEADER_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was copied."""

    history: History
    manifest_id: ManifestId | None
    entries: int
    heads: tuple[Head, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """One consistent point: rotation records, manifest, and the number of messages it covers."""

    rotations: bytes
    manifest: Manifest | None
    entries: int


def take_snapshot(layout: Layout, writer: Writer) -> Snapshot:
    """Copy the truth of a data directory into the backup's `hub/`."""
    if not layout.format.exists():
        raise StoreError(f"{layout.root} is no data directory of a hub", ErrorCode.DAMAGE)
    with contextlib.ExitStack() as closing:
        moment = _find_moment(layout, closing)
        writer.copy("hub/FORMAT", layout.format)
        writer.put("hub/rotations.log", moment.rotations)
        walk = _copy_log(layout, writer, moment.entries)
        _check_cover(moment.manifest, walk)
        _copy_manifests(layout, writer, moment.manifest)
        _copy_beside(layout, writer)
        return Snapshot(
            history=read_history(layout),
            manifest_id=None if moment.manifest is None else moment.manifest.id,
            entries=walk.entries,
            heads=tuple([walk.heads[label] for label in sorted(walk.heads)]),
        )


def _find_moment(layout: Layout, closing: contextlib.ExitStack) -> _Moment:
    for _ in range(_TRIES):
        before = _read(layout.rotations)
        manifest, entries = _manifest(layout, closing)
        if _read(layout.rotations) == before:  # else the key changed meanwhile
            return _Moment(rotations=before, manifest=manifest, entries=entries)
    raise StoreError("the hub's key keeps changing; try again", ErrorCode.BUSY)


def _manifest(layout: Layout, closing: contextlib.ExitStack) -> tuple[Manifest | None, int]:
    try:
        answer = control.call(layout.root, "checkpoint")
    except VeenError as refusal:
        if refusal.code is ErrorCode.UNREACHABLE:
            lock = DirectoryLock(layout.lock)  # nobody may start it while we copy
            closing.callback(lock.release)
        # Only the whole walk tells a cut tail, which was never answered, from damage before it.
        entries = check_log(layout, read_history(layout), None)
        newest = manifests.latest_id(layout)
        return None if newest is None else manifests.load(layout, newest), entries
    manifest = Manifest.decode(bytes.fromhex(answer["manifest"]))
    return manifest, sum(one.upto_seq for one in manifest.checkpoints)


def _read(path: Path) -> bytes:
    """Whole records only; one that is being appended is not there yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    return data[: framedfile.parse(data, str(path))[1]]


def _copy_log(layout: Layout, writer: Writer, wanted: int) -> _Walk:
    """Segments up to the COMMIT of `wanted` entries."""
    walk = _Walk(wanted=wanted)
    numbers = layout.segment_numbers()
    for expected, number in enumerate(numbers, 1):
        path = layout.segment(number)
        if number != expected:
            raise Damage(str(layout.segment(expected)), 0, "segment is missing")
        if walk.entries == wanted and number > 1:
            break
        # One descriptor for both looks: retention may put another file under this name.
        with path.open("rb") as file:
            end = walk.segment(file, path, number)
            writer.copy_open(f"hub/log/{path.name}", file.fileno(), end)
    if walk.entries != wanted:
        detail = f"the log holds {walk.entries} messages, the manifest covers {wanted}"
        raise StoreError(detail, ErrorCode.DAMAGE)
    return walk


@dataclass(slots=True)
class _Walk:
    """Reads frames in order, checks each checksum, and knows every label's head at a COMMIT."""

    wanted: int
    entries: int = 0
    heads: dict[Label, Head] = field(default_factory=dict)

    def segment(self, file: BinaryIO, path: Path, number: int) -> int:
        """Where the part that belongs to the backup ends."""
        where = str(path)
        entries, end = segments.read_header(file.read(_HEADER_BYTES), number, where)
        if entries != self.entries:
            raise Damage(where, 0, "entries are missing before this segment")
        file.seek(end)
        batch: dict[Label, Head] = {}
        frame_source = _frames(file, end, where)
        while self.entries != self.wanted and (found := next(frame_source, None)) is not None:
            if found.kind == frames.RECEIPT:
                head = _head(Receipt.decode(found.payload))
                batch[head.label] = head
            elif found.kind == frames.COMMIT:
                _, _, self.entries = frames.COMMIT_BODY.unpack(found.payload)
                self.heads |= batch
                batch, end = {}, found.end
        return end


def _head(receipt: Receipt) -> Head:
    return Head(label=receipt.label, seq=receipt.stream_seq, root=receipt.mmr_root)


def _check_cover(manifest: Manifest | None, walk: _Walk) -> None:
    """A manifest of as many messages says of each label what its receipts say."""
    covered = {
        Head(label=one.label_curr, seq=one.upto_seq, root=one.mmr_root)
        for one in (() if manifest is None else manifest.checkpoints)
    }
    if sum(one.seq for one in covered) != walk.entries:
        return  # A stopped hub may have committed more since.
    if covered != set(walk.heads.values()):
        raise StoreError("the log is not the one that the manifest covers", ErrorCode.DAMAGE)


def _frames(file: BinaryIO, offset: int, where: str) -> Iterator[frames.Frame]:
    while head := file.read(frames.HEAD_BYTES):
        if len(head) < frames.HEAD_BYTES:
            raise Damage(where, offset, "truncated frame head")
        length = frames.HEAD.unpack(head)[0]
        if length > frames.PAYLOAD_BYTES_MAX:
            raise Damage(where, offset, "frame runs past the end")
        found = frames.read_frame(head + file.read(length), 0, where, offset)
        yield found
        offset = found.end


def _copy_manifests(layout: Layout, writer: Writer, newest: Manifest | None) -> None:
    """The chain from the newest back to the first, in one file: there are very many of them."""
    if newest is None:
        return
    blocks = []
    manifest = newest
    while True:
        blocks.append(frames.frame(frames.RECORD, manifest.encode()))
        if not any(manifest.previous):
            break
        manifest = manifests.load(layout, manifest.previous)
    writer.put(MANIFESTS, frames.MAGIC + b"".join(reversed(blocks)))


def _copy_beside(layout: Layout, writer: Writer) -> None:
    """What is not derived from the log: kept contradictions, read tokens (hashes), attachments."""
    findings = _read(layout.findings)
    if findings:
        writer.put("hub/findings.log", findings)
    if layout.tokens.exists():
        writer.copy("hub/tokens.json", layout.tokens)
    for path in sorted(layout.attachments.glob("??/*")):
        if len(path.name) == 64:
            writer.copy(f"hub/attachments/{path.parent.name}/{path.name}", path)
