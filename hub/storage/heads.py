"""The last signed heads, kept outside the directory they guard [wire.md, Durability].

A restored backup or a copied directory would sign a second history with the same key. So the hub
appends (label, seq, root) here after each batch, before its answers, and refuses to write when
the directory is behind what it once signed.

    file   = "VEENHED1" || hub_id[32] || record*
    record = label[32] || u64be seq || root[32] || u32be crc
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from zlib import crc32

from hub.storage.disk import Disk
from hub.storage.frames import Damage, was_never_synced
from hub.types import HubId, Label

MAGIC: Final = b"VEENHED1"
_RECORD: Final = struct.Struct(">32sQ32s")
_CRC: Final = struct.Struct(">I")
RECORD_BYTES: Final = _RECORD.size + _CRC.size
START: Final = len(MAGIC) + 32
COMPACT_AT: Final = 4 * 1024 * 1024

Heads = dict[Label, tuple[int, bytes]]


def encode(label: Label, seq: int, root: bytes) -> bytes:
    """One record."""
    body = _RECORD.pack(label, seq, root)
    return body + _CRC.pack(crc32(body))


def read(path: Path) -> tuple[HubId, Heads, int] | None:
    """(hub_id, heads, bytes that are whole), or None when there is no such file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < START or data[: len(MAGIC)] != MAGIC:
        raise Damage(str(path), 0, "not a heads file")
    heads: Heads = {}
    offset = START
    while offset + RECORD_BYTES <= len(data):
        body = data[offset : offset + _RECORD.size]
        if _CRC.pack(crc32(body)) == data[offset + _RECORD.size : offset + RECORD_BYTES]:
            label, seq, root = _RECORD.unpack(body)
            heads[Label(label)] = (seq, root)
        elif not was_never_synced(data, offset, offset + RECORD_BYTES):
            raise Damage(str(path), offset, "head does not match its checksum")
        offset += RECORD_BYTES  # a power cut takes heads of the last second; the log has them
    return HubId(data[len(MAGIC) : START]), heads, offset


class HeadsFile:
    """Appends heads; `sync` is called at least once a second by whoever owns the loop."""

    __slots__ = ("_disk", "_end", "_fd", "_heads", "_hub_id", "_path", "_unsynced")

    def __init__(self, path: Path, disk: Disk, hub_id: HubId, heads: Heads) -> None:
        self._path = path
        self._disk = disk
        self._hub_id = hub_id
        self._heads = dict(heads)
        self._fd = -1
        self._end = 0
        self._unsynced = False
        self._rewrite()

    def _rewrite(self) -> None:
        records = [encode(label, *head) for label, head in self._heads.items()]
        data = MAGIC + self._hub_id + b"".join(records)
        self._drop_fd()  # whatever fails now, nothing more is written to the file it replaces
        self._disk.write_atomic(self._path, data)
        self._fd = self._disk.open(self._path, os.O_RDWR)
        self._end = len(data)
        self._unsynced = False

    def append(self, changed: Iterable[tuple[Label, int, bytes]]) -> None:
        """Write the new heads of one batch."""
        records = []
        for label, seq, root in changed:
            self._heads[label] = (seq, root)
            records.append(encode(label, seq, root))
        if self._fd < 0:  # an earlier rewrite failed half-way
            self._rewrite()
            return
        block = b"".join(records)
        self._disk.pwrite(self._fd, block, self._end)
        self._end += len(block)
        self._unsynced = True
        if self._end > COMPACT_AT and self._end > 4 * RECORD_BYTES * len(self._heads):
            self._rewrite()

    def sync(self) -> None:
        """Make what was appended durable."""
        if self._fd < 0:
            self._rewrite()
        elif self._unsynced:
            try:
                self._disk.fdatasync(self._fd)
            except OSError:
                self._drop_fd()  # the kernel may have dropped the pages: write them all anew
                raise
            self._unsynced = False

    def close(self) -> None:
        """Sync and close."""
        if self._fd >= 0:
            try:
                self.sync()
            finally:
                self._drop_fd()

    def _drop_fd(self) -> None:
        fd, self._fd = self._fd, -1  # a close that fails has closed all the same
        if fd >= 0:
            self._disk.close(fd)
