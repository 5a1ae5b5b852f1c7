"""Copies of files, hashed while they are written and durable before they are listed [SSOT 12]."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hub.errors import ErrorCode, StoreError
from hub.storage.disk import Disk
from recorder.backup.listing import FileEntry

CHUNK_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class Writer:
    """Puts files into a backup that is being made, and remembers what it put there."""

    root: Path
    disk: Disk
    files: list[FileEntry] = field(default_factory=list)

    def put(self, path: str, data: bytes) -> None:
        """A small file."""
        self._begin(path)
        fd = self.disk.open(self.root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            self.disk.pwrite(fd, data, 0)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        digest = hashlib.sha256(data).hexdigest()
        self.files.append(FileEntry(path=path, bytes=len(data), sha256=digest))

    def copy(self, path: str, source: Path) -> None:
        """A whole file."""
        source_fd = self.disk.open(source, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            self.copy_open(path, source_fd, self.disk.size(source_fd))
        finally:
            self.disk.close(source_fd)

    def copy_open(self, path: str, source_fd: int, upto: int) -> None:
        """The first `upto` bytes of an open file: the one that was looked at, renamed or not."""
        self._begin(path)
        fd = self.disk.open(self.root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            entry = self._pump(path, source_fd, fd, upto)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        self.files.append(entry)

    def _begin(self, path: str) -> None:
        self.disk.mkdir((self.root / path).parent)

    def _pump(self, path: str, source_fd: int, fd: int, end: int) -> FileEntry:
        digest, at = hashlib.sha256(), 0
        while at < end:
            chunk = self.disk.pread(source_fd, min(CHUNK_BYTES, end - at), at)
            if not chunk:
                raise StoreError(f"{path} became shorter while it was copied", ErrorCode.DAMAGE)
            self.disk.pwrite(fd, chunk, at)
            digest.update(chunk)
            at += len(chunk)
        return FileEntry(path=path, bytes=at, sha256=digest.hexdigest())

    def finish(self) -> None:
        """Make every name durable."""
        folders = {parent for entry in self.files for parent in Path(entry.path).parents}
        for folder in sorted(folders):
            self.disk.sync_dir(self.root / folder)


def hash_file(path: Path) -> FileEntry:
    """Size and SHA-256 of a regular file, never through a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(fd, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileEntry(path="x", bytes=size, sha256=digest.hexdigest())
