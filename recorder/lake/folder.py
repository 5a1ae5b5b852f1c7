"""The folder of one stream's lake: files by content, one lock, one atomic step [architecture].

Order of a change: every file is written whole and synced under its final name, then the names are
made durable, then the manifest is replaced. A stop before the last step changes nothing, a stop
after it has changed everything; what lies around without being named is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hub.errors import ErrorCode, StoreError
from hub.storage.disk import Disk
from hub.types import Label
from recorder.lake.manifest import LakeFile, LakeManifest, Retired

MANIFEST: Final = "manifest.json"
LOCK: Final = "lock"
SCRATCH: Final = ".tmp-"
RETIRED_S: Final = 2 * 3600  # twice as long as any query may run (query_time_s)
_LOCK_POLL_S: Final = 0.02


class LakeBusyError(StoreError):
    """Another process writes this stream's lake."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is being written", ErrorCode.LOCKED)


@dataclass(frozen=True, slots=True)
class LakeFolder:
    """Paths and steps of one label below the lake's root."""

    root: Path

    @classmethod
    def of(cls, lake: Path, label: Label) -> LakeFolder:
        """The folder of a label; nothing is created."""
        return cls(lake / label.hex())

    def path(self, one: LakeFile | str) -> Path:
        """Where a file of a manifest lies."""
        return self.root / (one if isinstance(one, str) else one.file)

    @property
    def manifest_path(self) -> Path:
        """The one file that is ever replaced."""
        return self.root / MANIFEST

    def read(self) -> LakeManifest | None:
        """The newest snapshot, None where nothing was ever ingested."""
        try:
            data = self.manifest_path.read_bytes()
        except FileNotFoundError:
            return None
        return LakeManifest.decode(data)

    @contextlib.contextmanager
    def locked(
        self, *, wait_s: float = 0.0, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """The exclusive right to change this stream's lake, or S.LOCKED after `wait_s`."""
        Disk().mkdir(self.root)
        fd = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = time.monotonic() + wait_s
            while not _try_lock(fd):
                if time.monotonic() >= end or is_cancelled():
                    raise LakeBusyError(self.root)
                time.sleep(_LOCK_POLL_S)
            yield
        finally:
            os.close(fd)

    def publish(
        self, old: LakeManifest | None, new: LakeManifest, *, now_ms: int, disk: Disk | None = None
    ) -> LakeManifest:
        """Replace the manifest by the next snapshot; the caller holds the lock.

        Files that only the old snapshot names are retired, and removed when nobody can read them.
        """
        disk = disk or Disk()
        kept = {one.file for segment in new.segments for one in segment.files}
        known = set() if old is None else {
            one.file for segment in old.segments for one in segment.files
        }  # fmt: skip
        retired = [one for one in new.retired if one.at_ms + RETIRED_S * 1000 > now_ms]
        expired = [one.file for one in new.retired if one not in retired]
        retired += [Retired(file=file, at_ms=now_ms) for file in sorted(known - kept)]
        manifest = replace(
            new, snapshot=1 if old is None else old.snapshot + 1, retired=tuple(retired)
        )
        for folder in sorted({file.partition("/")[0] for file in kept - known}):
            disk.sync_dir(self.root / folder)
        disk.sync_dir(self.root)
        disk.write_atomic(self.manifest_path, manifest.encode())
        for file in expired:  # After the manifest stopped naming them.
            disk.unlink(self.root / file)
        return manifest

    def clean(self, manifest: LakeManifest | None) -> list[Path]:
        """Remove what a killed writer left behind; the caller holds the lock."""
        named = set() if manifest is None else set(manifest.files())
        leftovers = [
            path
            for path in self.root.glob("*-*-*/*")
            if path.relative_to(self.root).as_posix() not in named
        ]
        for path in leftovers:
            path.unlink(missing_ok=True)
        return leftovers

    def check(self, one: LakeFile) -> None:
        """Raise S.DAMAGE unless a file has the bytes that the manifest names."""
        path = self.path(one)
        try:
            with path.open("rb") as file:
                found = file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise StoreError(f"{path} is missing", ErrorCode.DAMAGE) from None
        if found != one.sha256:
            raise StoreError(f"{path} is not the file that was written", ErrorCode.DAMAGE)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _HashedFile:
    """A file that is only appended to, hashed on the way."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        self._hash = sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: pa.Buffer | bytes) -> int:
        view = memoryview(data)
        self._hash.update(view)
        while view:
            view = view[self._file.write(view) :]
        self.bytes += len(memoryview(data))
        return len(memoryview(data))

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def finish(self) -> str:
        """Make it durable; its hash."""
        os.fdatasync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def abandon(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How a kind of file is spelled in Parquet."""

    kind: str
    compression: str = "zstd"
    row_group_rows: int = 65_536
    plain: tuple[str, ...] = ()  # columns in which no value comes twice


def write_table(
    folder: Path, date: str, stem: str, parts: list[pa.Table], spelling: Spelling
) -> LakeFile:
    """Write tables as one Parquet file of one date, durable under a name made from its content.

    Each table starts a row group of its own.
    """
    directory = folder / date
    Disk().mkdir(directory)
    schema = parts[0].schema
    scratch = directory / f"{SCRATCH}{os.getpid()}-{time.monotonic_ns()}-{spelling.kind}"
    sink = _HashedFile(scratch)
    try:
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            schema,
            compression=spelling.compression,
            compression_level=1 if spelling.compression == "zstd" else None,
            use_dictionary=[name for name in schema.names if name not in spelling.plain] or False,
            write_page_index=True,
        ) as writer:
            for part in parts:
                writer.write_table(part, row_group_size=spelling.row_group_rows)
        digest = sink.finish()
    except BaseException:
        sink.abandon()
        scratch.unlink(missing_ok=True)
        raise
    name = f"{date}/{stem}.{digest[:32]}.{spelling.kind}.parquet"
    scratch.replace(folder / name)
    return LakeFile(file=name, bytes=sink.bytes, sha256=digest)
