"""Disks that fail: one call of many refused or followed by a stop, or power cut at any moment."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from hub.storage.disk import DIR_MODE, Disk

SECTOR = 512


class Stopped(BaseException):
    """The process ends here. Not an Exception, so that nothing in the way can catch it."""


class Fault(Enum):
    """What happens at the chosen call."""

    EIO = ("fails", errno.EIO)
    ENOSPC = ("fails", errno.ENOSPC)
    EIO_DONE = ("done, but reported as failed", errno.EIO)
    ENOSPC_DONE = ("done, but reported as failed", errno.ENOSPC)
    STOP = ("done, then the process ends", 0)

    @property
    def is_done(self) -> bool:
        return self.name.endswith("_DONE") or self is Fault.STOP

    @property
    def is_stop(self) -> bool:
        return self is Fault.STOP


class CountingDisk(Disk):
    """Sends every call through `_call`.

    Syncs are not passed on: the page cache outlives a kill, and these tests make thousands.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.names: list[str] = []
        self._held: set[int] = set()
        self._is_over = False

    def _call(self, name: str, act: Callable[[], Any]) -> Any:
        if self._is_over:
            raise Stopped(name)
        self.calls += 1
        self.names.append(name)
        return act()

    def end(self) -> None:
        """The process ends: the kernel closes its files, and it makes no call any more."""
        self._is_over = True
        while self._held:
            os.close(self._held.pop())

    def open(self, path: Path, flags: int) -> int:
        return int(self._call("open", lambda: self._hold(Disk.open(self, path, flags))))

    def _hold(self, fd: int) -> int:
        self._held.add(fd)
        return fd

    def close(self, fd: int) -> None:
        if not self._is_over:
            self._call("close", lambda: self._let_go(fd))

    def _let_go(self, fd: int) -> None:
        self._held.discard(fd)
        Disk.close(self, fd)

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self._call("pwrite", lambda: Disk.pwrite(self, fd, data, offset))

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._call("pread", lambda: Disk.pread(self, fd, size, offset)))

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync", lambda: os.fstat(fd))

    def ftruncate(self, fd: int, size: int) -> None:
        self._call("ftruncate", lambda: Disk.ftruncate(self, fd, size))

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", lambda: Disk.rename(self, source, target))

    def unlink(self, path: Path) -> None:
        self._call("unlink", lambda: Disk.unlink(self, path))

    def mkdir(self, path: Path) -> None:
        self._call("mkdir", lambda: Disk.mkdir(self, path))

    def sync_dir(self, path: Path) -> None:
        self._call("sync_dir", path.stat)


class FaultyDisk(CountingDisk):
    """Call number `at` (from 1) goes wrong; all others are as usual."""

    def __init__(self, at: int, fault: Fault) -> None:
        super().__init__()
        self._at = at
        self._fault = fault

    def _call(self, name: str, act: Callable[[], Any]) -> Any:
        if self.calls + 1 != self._at:
            return super()._call(name, act)
        fault = self._fault
        # A close that fails has closed all the same [close(2)].
        is_done = fault.is_done or name == "close"
        result = super()._call(name, act if is_done else lambda: None)
        if fault.is_stop:
            self.end()
            raise Stopped(f"{name}: {fault.value[0]}")
        if name == "open" and fault.is_done:
            self._let_go(result)
        number = fault.value[1]
        raise OSError(number, os.strerror(number), name)


class RefusingDisk(CountingDisk):
    """Refuses everything that writes while `error` is set: a full disk, a read-only mount."""

    WRITES = frozenset(
        {"pwrite", "ftruncate", "rename", "unlink", "mkdir", "fdatasync", "sync_dir"}
    )

    def __init__(self, names: frozenset[str] = WRITES) -> None:
        super().__init__()
        self.error: int | None = None
        self.full_after: str | None = None  # the call after which the disk is full
        self._refused = names

    def _call(self, name: str, act: Callable[[], Any]) -> Any:
        if self.error is not None and name in self._refused:
            raise OSError(self.error, os.strerror(self.error), name)
        result = super()._call(name, act)
        if name == self.full_after:
            self.full_after, self.error = None, errno.ENOSPC
        return result

    def open(self, path: Path, flags: int) -> int:
        if self.error is not None and flags & os.O_CREAT and not path.exists():
            raise OSError(self.error, os.strerror(self.error), str(path))
        return super().open(path, flags)


@dataclass
class Inode:
    """One file: what a power cut surely leaves, and what it may take."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # None cuts at offset

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def after_cut(self, rng: random.Random) -> bytes:
        """The file as a power cut may leave it.

        Each sector is as it was after some of its writes, independently of the others; so writes
        are lost, torn, or out of order. The file's length goes its own way too.
        """
        data = bytearray(self.durable)
        length = len(data)
        upto: dict[int, int] = {}  # writes that reached each sector
        upto_length = rng.randint(0, len(self.pending))
        for number, (offset, written) in enumerate(self.pending):
            if written is None:
                if number < upto_length:
                    _apply(data, (offset, None))
                length = offset
                continue
            length = max(length, offset + len(written))
            for start, part in _sectors(offset, written):
                if number < upto.setdefault(start // SECTOR, rng.randint(0, len(self.pending))):
                    _apply(data, (start, part))
        if len(data) < length and rng.random() < 0.5:
            data.extend(bytes(length - len(data)))  # the new length arrived, the bytes did not
        return bytes(data)


def _apply(data: bytearray, change: tuple[int, bytes | None]) -> None:
    offset, written = change
    if written is None:
        del data[offset:]
        data.extend(bytes(offset - len(data)))
        return
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(written)] = written


def _sectors(offset: int, written: bytes) -> list[tuple[int, bytes]]:
    parts = []
    start = offset
    while start < offset + len(written):
        end = min(start - start % SECTOR + SECTOR, offset + len(written))
        parts.append((start, written[start - offset : end - offset]))
        start = end
    return parts


@dataclass
class Directory:
    """Names that are durable, and changes of names in order, each whole or lost."""

    durable: dict[str, Inode | None] = field(default_factory=dict)  # None is a directory
    pending: list[dict[str, Inode | str | None]] = field(default_factory=list)  # "" removes

    def sync(self) -> None:
        for change in self.pending:
            _rename(self.durable, change)
        self.pending.clear()

    def after_cut(self, rng: random.Random) -> dict[str, Inode | None]:
        names = dict(self.durable)
        for change in self.pending[: rng.randint(0, len(self.pending))]:
            _rename(names, change)
        return names


def _rename(names: dict[str, Inode | None], change: dict[str, Inode | str | None]) -> None:
    for name, inode in change.items():
        if isinstance(inode, str):
            names.pop(name, None)
        else:
            names[name] = inode


class PowerCutDisk(CountingDisk):
    """Knows what is durable below `base`; `cut` writes down what a power cut may leave of it."""

    def __init__(self, base: Path, stop_at: int | None = None) -> None:
        super().__init__()
        self.base = base
        self.stop_at = stop_at
        self.stop_before: str | None = None  # the call after that which is not made any more
        self._directories: dict[Path, Directory] = {base: Directory()}
        self._live: dict[Path, Inode] = {}
        self._fds: dict[int, Inode] = {}

    def _call(self, name: str, act: Callable[[], Any]) -> Any:
        is_time = self.stop_at is not None and self.calls >= self.stop_at
        if is_time and self.stop_before in (None, name):
            self.end()
            raise Stopped(name)
        return super()._call(name, act)

    def knows(self, path: Path) -> bool:
        return path in self._live

    def _find(self, path: Path) -> Inode | None:
        """The file of this name; one that was made elsewhere was synced by its maker."""
        if path not in self._live and path.exists():
            inode = self._live[path] = Inode(bytearray(path.read_bytes()))
            self._directories[path.parent].durable[path.name] = inode
        return self._live.get(path)

    def open(self, path: Path, flags: int) -> int:
        inode = self._find(path)
        fd = super().open(path, flags)
        if inode is None:
            inode = self._live[path] = Inode()
            self._directories[path.parent].pending.append({path.name: inode})
        if flags & os.O_TRUNC:
            inode.pending.append((0, None))
        self._fds[fd] = inode
        return fd

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        super().pwrite(fd, data, offset)
        self._fds[fd].pending.append((offset, bytes(data)))

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._fds[fd].pending.append((size, None))

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self._fds[fd].sync()

    def rename(self, source: Path, target: Path) -> None:
        inode = self._find(source)
        self._find(target)
        super().rename(source, target)
        assert inode is not None
        del self._live[source]
        self._live[target] = inode
        self._directories[target.parent].pending.append({source.name: "", target.name: inode})

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if self._live.pop(path, None) is not None:
            self._directories[path.parent].pending.append({path.name: ""})

    def mkdir(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        super().mkdir(path)
        for folder in reversed(missing):
            self._directories[folder] = Directory()
            self._directories[folder.parent].pending.append({folder.name: None})

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self._directories[path].sync()

    def cut(self, target: Path, rng: random.Random) -> None:
        """What is left below `target` when the power goes now."""
        self._leave(self.base, target, rng)

    def _leave(self, source: Path, target: Path, rng: random.Random) -> None:
        target.mkdir(mode=DIR_MODE, exist_ok=True)
        for name, inode in self._directories[source].after_cut(rng).items():
            if inode is None:
                self._leave(source / name, target / name, rng)
            else:
                (target / name).write_bytes(inode.after_cut(rng))
                (target / name).chmod(0o600)


def copy_outside(disk: PowerCutDisk, source: Path, target: Path, rng: random.Random) -> None:
    """Files that are not written through the Disk.

    Keys have their own syncs; SQLite may lose what its journal holds, but nothing before.
    """
    if not target.is_dir():
        return
    (target / "keys").mkdir(mode=DIR_MODE, exist_ok=True)
    for path in (source / "keys").glob("*"):
        if not disk.knows(path):
            shutil.copy(path, target / "keys")
    names = ["leaves.sqlite"] + (["leaves.sqlite-wal"] if rng.random() < 0.5 else [])
    for name in names if rng.random() < 0.9 else []:
        if (source / name).exists():
            shutil.copy(source / name, target / name)
