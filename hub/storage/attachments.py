"""Sealed attachments by coid: content-addressed files, written once [SSOT 4.6].

Which message names one stands inside its sealed header, so the hub cannot know what is in use: it
removes none by itself.
"""

from __future__ import annotations

from pathlib import Path

from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage.disk import Disk
from hub.storage.layout import Layout
from hub.types import Hash


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
