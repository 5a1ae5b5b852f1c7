"""A result on disk: the exact bytes its digest covers, and where each row starts [Query 7.4].

    <result_id>/rows.json       what rows_hash covers
    <result_id>/rows.index      u64 little-endian: the start of each row, then the file's size
    <result_id>/evidence.json   what evidence_hash covers
    <result_id>/digest.json     canonical ResultDigest; written last, so a folder with one is whole

Rows and evidence entries are both lists joined by commas. Whoever encodes them in parallel writes
parts in which each item is followed by its comma; joining drops the last one.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hub import canonical_json
from hub.errors import ErrorCode, StoreError
from hub.storage.disk import Disk
from queryapi.contract.digest import ResultDigest

ROWS: Final = "rows.json"
INDEX: Final = "rows.index"
EVIDENCE: Final = "evidence.json"
DIGEST: Final = "digest.json"
_START: Final = struct.Struct("<Q")
_BLOCK: Final = 4 * 1024 * 1024
_SYNCED_EARLY: Final = 64 * 1024 * 1024
_NOT_BY_KERNEL: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a joined file came to."""

    items: int
    bytes: int
    sha256: str


class JoinedFile:
    """Writes head, items with commas between them, and tail; hashes on the way."""

    def __init__(self, path: Path, head: bytes, tail: bytes) -> None:
        self._file = path.open("xb", buffering=0)
        self._hash = sha256()
        self._tail = tail
        self._owed = b""  # the comma behind the last item, written when another follows
        self.bytes = 0
        self.items = 0
        self._write(head)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _write(self, data: bytes | memoryview) -> None:
        self._hash.update(data)
        self.bytes += len(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def add(self, items: bytes | memoryview, count: int) -> None:
        """Items in memory, each followed by a comma."""
        if count:
            self._write(self._owed)
            self._write(memoryview(items)[:-1])
            self._owed = b","
            self.items += count

    def add_part(self, path: Path, count: int) -> None:
        """The same from a file, in constant memory: the kernel copies it while it is hashed."""
        if not count:
            return
        self._write(self._owed)
        size = path.stat().st_size - 1
        buffer = memoryview(bytearray(min(size, _BLOCK)))
        with path.open("rb", buffering=0) as part, ThreadPoolExecutor(1) as copier:
            copied = copier.submit(_copy, part.fileno(), self._file.fileno(), size)
            at = 0
            while at < size:
                block = buffer[: min(size - at, _BLOCK)]
                read = os.preadv(part.fileno(), [block], at)
                if not read:
                    raise StoreError(f"{path} ends early", ErrorCode.DAMAGE)
                self._hash.update(block[:read])
                at += read
            copied.result()
        self.bytes += size
        self._owed = b","
        self.items += count

    def finish(self) -> Joined:
        """Close the list and make it durable."""
        self._write(self._tail)
        os.fdatasync(self._file.fileno())
        return Joined(items=self.items, bytes=self.bytes, sha256=self._hash.hexdigest())


def _copy(source: int, target: int, size: int) -> None:
    """Append the first bytes of one file to another, within the kernel where it can."""
    at = 0
    while at < size:
        try:
            copied = os.copy_file_range(source, target, size - at, offset_src=at)
        except OSError as refusal:
            if refusal.errno not in _NOT_BY_KERNEL:
                raise
            copied = os.write(target, os.pread(source, min(size - at, _BLOCK), at))
        if not copied:
            raise StoreError("a part of the result ends early", ErrorCode.DAMAGE)
        at += copied
    if size >= _SYNCED_EARLY:  # while the rest is still being hashed
        os.fdatasync(target)


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """One finished result."""

    root: Path

    @property
    def rows(self) -> Path:
        """The rows file."""
        return self.root / ROWS

    @property
    def evidence(self) -> Path:
        """The evidence summary."""
        return self.root / EVIDENCE

    def digest(self) -> ResultDigest | None:
        """The digest, None while there is no whole result."""
        try:
            data = (self.root / DIGEST).read_bytes()
        except FileNotFoundError:
            return None
        return ResultDigest.decode(canonical_json.parse(data))

    def row_count(self) -> int:
        """How many rows the index names."""
        return (self.root / INDEX).stat().st_size // _START.size - 1

    def page(self, offset: int, limit: int) -> bytes:
        """The canonical array of some rows, cut out of the rows file."""
        end = min(offset + limit, self.row_count())
        if offset >= end:
            return b"[]"
        first, last = self._starts(offset, end)
        with self.rows.open("rb") as file:
            return b"[" + os.pread(file.fileno(), last - 1 - first, first) + b"]"

    def each_row(self, offset: int = 0) -> Iterator[bytes]:
        """Every row from one on, one at a time."""
        count = self.row_count()
        with (self.root / INDEX).open("rb") as index, self.rows.open("rb") as rows:
            index.seek(offset * _START.size)
            (start,) = _START.unpack(index.read(_START.size))
            rows.seek(start)
            for _ in range(offset, count):
                (following,) = _START.unpack(index.read(_START.size))
                yield rows.read(following - start)[:-1]
                start = following

    def _starts(self, *numbers: int) -> list[int]:
        with (self.root / INDEX).open("rb") as file:
            return [
                _START.unpack(os.pread(file.fileno(), _START.size, number * _START.size))[0]
                for number in numbers
            ]


def publish(scratch: Path, target: Path, digest: ResultDigest, *, disk: Disk | None = None) -> None:
    """Make a finished scratch folder the result; afterwards it is whole, or not there at all."""
    disk = disk or Disk()
    disk.write_atomic(scratch / DIGEST, digest.canonical())
    disk.rename(scratch, target)
    disk.sync_dir(target.parent)
