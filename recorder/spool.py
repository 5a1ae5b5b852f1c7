"""The writing end of a spool: an event is on its way when `append` returns [SDR0 3.2.3].

`append` hands the bytes to the kernel, so a killed process loses nothing; `sync` makes them outlive
a power cut, for all events since the last one together.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from hub.errors import StoreError
from hub.storage import frames
from hub.storage.disk import Disk
from recorder import spool_files
from recorder.spool_files import NoRoomError, SpoolEntry, SpoolFullError

BYTES_MAX: Final = 1 << 30
FILE_BYTES_MAX: Final = 4 << 20
_LOOK_EVERY_BYTES: Final = 1 << 20  # how much is written before the directory is looked at again


class SpoolWriter:
    """The files of one process in a spool directory; threads may share it."""

    def __init__(
        self, folder: Path, *, bytes_max: int = BYTES_MAX, disk: Disk | None = None
    ) -> None:
        self.folder = folder
        self._disk = disk or Disk()
        self._bytes_max = bytes_max
        self._file_bytes_max = min(FILE_BYTES_MAX, max(bytes_max // 8, 4096))
        self._guard = threading.Lock()
        self._syncing = threading.Lock()
        self._fd: int | None = None
        self._writer = spool_files.new_writer()
        self._files = 0
        self._name = ""
        self.ends: dict[str, int] = {}  # how far each file was written here
        self._end = 0
        self._unsynced = False
        self._is_closed = False
        self._full_fds: list[int] = []  # of files that are left, to be synced and closed
        self._new_names = False
        self._allowance = 0  # bytes that fit for sure
        spool_files.make_folder(folder, self._disk)

    def append(self, entry: SpoolEntry) -> tuple[str, int]:
        """Write one entry; returns its file and the offset behind it."""
        block = frames.frame(frames.RECORD, entry.encode())
        with self._guard:
            if len(block) > self._allowance:
                self._look(len(block))
            fd = self._open_file()
            self._write(fd, block)
            self._allowance -= len(block)
            place = self._name, self._end
            if self._end >= self._file_bytes_max:
                self._leave()
        return place

    def _look(self, needed: int) -> None:
        free = self._bytes_max - spool_files.total_bytes(self.folder)
        if needed > free:
            raise SpoolFullError(self._bytes_max)
        room = spool_files.room_on_disk(self.folder)
        if needed > room:
            raise NoRoomError
        self._allowance = max(needed, min(free, room, _LOOK_EVERY_BYTES))

    def _open_file(self) -> int:
        if self._fd is not None:
            return self._fd
        if self._is_closed:
            raise StoreError("the spool is closed; the event was not recorded")
        name = spool_files.file_name(self._writer, self._files)
        try:
            fd = spool_files.create(self.folder / name, self._disk)
        except OSError as refusal:
            raise _refused(refusal) from refusal
        self._fd, self._name, self._end = fd, name, spool_files.FIRST
        self.ends[name] = self._end
        self._files += 1
        self._new_names = True
        return fd

    def _write(self, fd: int, block: bytes) -> None:
        try:
            self._disk.pwrite(fd, block, self._end)
        except OSError as refusal:
            # Half an entry may stand there, and the next one must not come behind it.
            with contextlib.suppress(OSError):
                self._disk.ftruncate(fd, self._end)
            self._leave()
            raise _refused(refusal) from refusal
        self._end += len(block)
        self.ends[self._name] = self._end
        self._unsynced = True

    def _leave(self) -> None:
        """Go on in another file; this one is closed once it is synced."""
        if self._fd is not None:
            self._full_fds.append(self._fd)
            self._fd = None
            self._unsynced = True

    def sync(self) -> None:
        """Make durable what was appended so far."""
        with self._syncing:
            with self._guard:
                if not self._unsynced:
                    return
                full, self._full_fds = self._full_fds, []
                current = [] if self._fd is None else [os.dup(self._fd)]
                new_names, self._new_names = self._new_names, False
                self._unsynced = False
            try:
                for fd in (*full, *current):
                    self._disk.fdatasync(fd)
                if new_names:
                    self._disk.sync_dir(self.folder)
            except OSError as refusal:
                # What the disk did not take it may have dropped: nothing is appended behind that.
                with self._guard:
                    if self._fd is not None:
                        self._disk.close(self._fd)
                        self._fd = None
                raise _refused(refusal) from refusal
            finally:
                for fd in (*full, *current):
                    self._disk.close(fd)

    def close(self) -> None:
        """Let go of the files; the drainer removes them when they are taken over."""
        try:
            with self._guard:
                self._is_closed = True
                self._leave()
            self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go without a sync: in a forked child, whose parent goes on writing."""
        fds = [*self._full_fds, *([] if self._fd is None else [self._fd])]
        self._fd, self._full_fds = None, []
        for fd in fds:
            os.close(fd)


def _refused(refusal: OSError) -> StoreError:
    reason = refusal.strerror or str(refusal)
    return StoreError(f"the spool cannot be written ({reason}); the event was not recorded")
