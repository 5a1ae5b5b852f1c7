"""Every system call of the commit path, in one place that a test can make fail [SSOT 12].

The hub writes only through a `Disk`, so a test can fail each call in both flavours (failed; failed
but persisted) or drop what was never synced, and the code under test is the code that ships.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from hub.errors import ErrorCode, StoreError

FILE_MODE = 0o600
DIR_MODE = 0o700


class Disk:
    """Thin names for the calls; short writes are finished, everything else is the kernel's."""

    __slots__ = ("syncs",)

    def __init__(self) -> None:
        self.syncs = 0  # counted, so that a benchmark cannot win by skipping them

    def open(self, path: Path, flags: int) -> int:
        """A descriptor, never inherited by children."""
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        """Write all of data at offset."""
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, offset)
            offset += written
            view = view[written:]

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Up to size bytes from offset; fewer only at the end of the file."""
        data = os.pread(fd, size, offset)
        while len(data) < size:
            more = os.pread(fd, size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def fdatasync(self, fd: int) -> None:
        """Make the file's bytes durable."""
        self.syncs += 1
        os.fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        os.ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        """Replace target by source, atomically."""
        source.rename(target)

    def unlink(self, path: Path) -> None:
        """Remove a file; one that is already gone is fine."""
        path.unlink(missing_ok=True)

    def mkdir(self, path: Path) -> None:
        """Make a directory and its parents, private to this user."""
        for folder in (*reversed(path.parents), path):  # parents=True would make them for everyone
            if not folder.exists():
                folder.mkdir(mode=DIR_MODE, exist_ok=True)

    def sync_dir(self, path: Path) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.syncs += 1
            os.fsync(fd)
        finally:
            os.close(fd)

    def size(self, fd: int) -> int:
        """Bytes in an open file."""
        return os.fstat(fd).st_size

    def write_atomic(self, path: Path, data: bytes) -> None:
        """Replace a small file whole or not at all, and durably."""
        scratch = path.with_name(path.name + ".tmp")
        fd = self.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.pwrite(fd, data, 0)
            self.fdatasync(fd)
        finally:
            self.close(fd)
        self.rename(scratch, path)
        self.sync_dir(path.parent)


class DirectoryLock:
    """The exclusive right to write one data directory, given up when the process ends."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            owner = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise StoreError(
                f"{path.parent} is owned by process {owner or 'unknown'}", ErrorCode.LOCKED
            ) from held
        with contextlib.suppress(OSError):  # A full disk: the lock holds, only its name is missing.
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the directory up."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
