"""A small append-only file of framed records: rotations and findings [spec-1 OP0.5]."""

from __future__ import annotations

import os
from pathlib import Path

from hub.storage import frames
from hub.storage.disk import Disk


def read_all(path: Path) -> list[bytes]:
    """Every whole record of the file, oldest first; a torn last record was never announced."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    records, _ = parse(data, str(path))
    return records


def parse(data: bytes, where: str) -> tuple[list[bytes], int]:
    """(whole records, the offset behind the last of them), or Damage."""
    records: list[bytes] = []
    end = len(frames.MAGIC)
    if data[:end] != frames.MAGIC:
        if len(data) < end or frames.was_never_synced(data, 0, len(data)):
            return [], 0
        raise frames.Damage(where, 0, "not a file of this format")
    while end < len(data):
        try:
            found = frames.read_frame(data, end, where)
        except frames.Damage:
            if _is_torn(data, end):
                break
            raise
        records.append(found.payload)
        end = found.end
    return records, end


def _is_torn(data: bytes, offset: int) -> bool:
    """Whether the last record was cut off or never synced; a whole one that is wrong is damage."""
    if offset + frames.HEAD_BYTES > len(data):
        return True
    if frames.was_never_synced(data, offset, len(data)):
        return True
    length, crc, kind = frames.HEAD.unpack_from(data, offset)
    if offset + frames.HEAD_BYTES + length <= len(data):
        return False
    return not any(_fits(data, offset, length ^ 1 << bit, crc, kind) for bit in range(32))


def _fits(data: bytes, offset: int, length: int, crc: int, kind: int) -> bool:
    """Whether the frame would be whole with this length: then its length was changed, not cut."""
    end = offset + frames.HEAD_BYTES + length
    if end > len(data):
        return False
    whole = frames.HEAD.pack(length, crc, kind) + data[offset + frames.HEAD_BYTES : end]
    try:
        frames.read_frame(whole, 0, "")
    except frames.Damage:
        return False
    return True


class FramedFile:
    """Appends records durably, one at a time."""

    __slots__ = ("_disk", "_end", "path", "records")

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        data = path.read_bytes() if path.exists() else b""
        self.records, self._end = parse(data, str(path))

    def append(self, payload: bytes) -> None:
        """Write and sync; the record counts only when this returns."""
        fresh = self._end == 0
        block = (frames.MAGIC if fresh else b"") + frames.frame(frames.RECORD, payload)
        fd = self._disk.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            self._disk.ftruncate(fd, self._end)  # drop a torn record of an earlier stop
            try:
                self._disk.pwrite(fd, block, self._end)
                self._disk.fdatasync(fd)
                if fresh:
                    self._disk.sync_dir(self.path.parent)
            except OSError:
                # It may have reached the disk all the same, and a start would believe it.
                self._disk.ftruncate(fd, self._end)
                self._disk.fdatasync(fd)
                raise
        finally:
            self._disk.close(fd)
        self._end += len(block)
        self.records.append(payload)
