"""Segments: the append-only log itself, and the batch that becomes durable at once [SSOT 12]."""

from __future__ import annotations

import os
from typing import Final

from hub.storage import frames
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.layout import FORMAT_VERSION, Layout
from hub.types import HubId
from hub.wire import cbor

SEGMENT_BYTES: Final = 64 * 1024 * 1024


def header(number: int, hub_id: HubId, entries: int) -> bytes:
    """The first bytes of a segment: format version, its number, the log it belongs to."""
    body = cbor.encode([FORMAT_VERSION, number, hub_id, entries])
    return frames.MAGIC + frames.frame(frames.HEADER, body)


def read_header(data: bytes, number: int, where: str) -> tuple[int, int]:
    """(entries before this segment, offset of its first batch), or Damage."""
    start = len(frames.MAGIC)
    if data[:start] != frames.MAGIC:
        raise Damage(where, 0, "not a segment of this format")
    found = frames.read_frame(data, start, where)
    body = cbor.decode(found.payload)
    expected = [FORMAT_VERSION, number]
    if found.kind != frames.HEADER or not isinstance(body, list) or body[:2] != expected:
        raise Damage(where, start, "segment header names another version or number")
    entries = body[3]
    assert isinstance(entries, int)
    return entries, found.end


def read_hub_id(data: bytes, where: str) -> HubId:
    """The log that a segment with a sound header belongs to."""
    body = cbor.decode(frames.read_frame(data, len(frames.MAGIC), where).payload)
    assert isinstance(body, list)
    hub_id = body[2]
    assert isinstance(hub_id, bytes)
    return HubId(hub_id)


class SegmentWriter:
    """Writes batches at the end of the newest segment.

    A failed write leaves the log as it was; a failed sync leaves it unknown, and only a restart
    that re-reads the disk may go on.
    """

    __slots__ = ("_dirty_tail", "_disk", "_fd", "_layout", "end", "failed", "number")

    def __init__(self, layout: Layout, disk: Disk, number: int, end: int) -> None:
        self._layout = layout
        self._disk = disk
        self.number = number
        self.end = end
        self.failed: str | None = None
        self._dirty_tail = True  # an earlier stop may have left half a batch behind `end`
        self._fd = -1 if number == 0 else disk.open(layout.segment(number), os.O_RDWR)

    def open_next(self, hub_id: HubId, entries: int) -> None:
        """Start the next segment; its name is durable before any receipt points into it."""
        number = self.number + 1
        path = self._layout.segment(number)
        data = header(number, hub_id, entries)
        disk = self._disk
        fd = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            disk.pwrite(fd, data, 0)
            disk.fdatasync(fd)
            disk.sync_dir(self._layout.log)
        except OSError:
            disk.close(fd)
            disk.unlink(path)
            raise
        old, self._fd = self._fd, fd
        self.number, self.end, self._dirty_tail = number, len(data), False
        if old >= 0:
            disk.close(old)

    def write(self, block: bytes, behind: int) -> bytes:
        """Write MSG frames `behind` so many of their batch; return what the disk says they are."""
        if self._dirty_tail and not behind:
            self._disk.ftruncate(self._fd, self.end)
        self._dirty_tail = True  # until the batch is whole
        self._disk.pwrite(self._fd, block, self.end + behind)
        return self._disk.pread(self._fd, len(block), self.end + behind)

    def finish(self, written: int, block: bytes) -> None:
        """Write the RECEIPT and COMMIT frames behind `written` bytes; `sync` makes them durable."""
        self._disk.pwrite(self._fd, block, self.end + written)
        self.end += written + len(block)
        self._dirty_tail = False

    def sync(self) -> None:
        """Make every whole batch durable."""
        try:
            self._disk.fdatasync(self._fd)
        except OSError as failure:
            # The kernel may have dropped the dirty pages: asking again could lie.
            self.failed = f"fsync of segment {self.number} failed: {failure.strerror}"
            raise

    def close(self) -> None:
        """Close the segment."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close(fd)
