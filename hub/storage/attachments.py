"""Sealed attachments by coid: content-addressed files, written once [SSOT 4.6]."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage.disk import Disk
from hub.storage.layout import Layout
from hub.types import Hash

KEEP_S: Final = 24 * 3600  # what no policy keeps may go after this


def path_of(layout: Layout, coid: Hash) -> Path:
    """Two hex digits of fan-out."""
    name = coid.hex()
    return layout.attachments / name[:2] / name


def write(layout: Layout, disk: Disk, coid: Hash, data: bytes) -> bool:
    """Store durably; False when it was there already. E.FORMAT when coid is not its hash."""
    if h(data) != coid:
        raise VeenError(ErrorCode.FORMAT, "coid is not the hash of the body")
    path = path_of(layout, coid)
    try:
        is_there = path.exists() and path.read_bytes() == data  # damaged ones are written anew
        if not is_there:
            disk.mkdir(path.parent)
            disk.write_atomic(path, data)
        else:
            disk.sync_dir(path.parent)  # whoever wrote it may have stopped before its name was safe
        disk.sync_dir(layout.attachments)
    except OSError as failure:
        raise StoreError(f"disk refuses: {failure.strerror or failure}") from failure
    return not is_there


def read(layout: Layout, coid: Hash) -> bytes:
    """The sealed bytes, checked against their name."""
    try:
        data = path_of(layout, coid).read_bytes()
    except FileNotFoundError as missing:
        raise VeenError(ErrorCode.NOTFOUND, "no such attachment") from missing
    if h(data) != coid:
        raise StoreError(f"attachment {coid.hex()}: bytes do not match", ErrorCode.DAMAGE)
    return data


def sweep(layout: Layout, disk: Disk, kept: frozenset[Hash], now: float | None = None) -> int:
    """Remove what no policy keeps and is older than a day; returns the bytes freed."""
    freed = 0
    limit = (time.time() if now is None else now) - KEEP_S
    for path in layout.attachments.glob("??/*"):
        if len(path.name) != 64:
            continue
        stat = path.stat()
        if Hash(bytes.fromhex(path.name)) not in kept and stat.st_mtime < limit:
            disk.unlink(path)
            freed += stat.st_size
    return freed
