r"""An append-only anchor file on another path, each line hashed over all before it [ANCHOR0.1].

    file   = "veen-anchors 1 " file_id "\n" line*
    line   = n " " at " " manifest_id " " hash "\n"
    hash_0 = Ht("veen/anchor-file", file_id)
    hash_n = Ht("veen/anchor-file", hash_(n-1) || u64be(n) || u64be(at) || manifest_id)

Hashes are lower-case hex, numbers decimal. Whoever edits a line has to rewrite all that follow, and
then no anchor_ref given out for those fits any more; whoever cuts the file loses lines that are
still referred to. A line that a full disk or a power cut left unfinished was never referred to: the
next one ends it with "~", and readers pass over it. The file is only ever opened for appending, so
a file system may enforce that.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hub.crypto.hashing import ANCHOR_FILE, u64be
from hub.errors import ErrorCode, ProofError, StoreError, VeenError
from hub.storage.disk import Disk
from hub.types import UINT64_MAX, Hash, ManifestId, UnixSeconds
from hub.wire import cbor
from recorder.anchors.anchor import Anchored, AnchorRef

NAME: Final = "file"
_HEADER: Final = re.compile(rb"veen-anchors 1 ([0-9a-f]{64})")
_LINE: Final = re.compile(rb"([1-9][0-9]{0,19}) ([0-9]{1,20}) ([0-9a-f]{64}) ([0-9a-f]{64})")
_UNFINISHED: Final = b"~"
_LINE_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One anchored manifest_id."""

    n: int
    at: UnixSeconds
    manifest_id: ManifestId
    hash: Hash

    def encode(self) -> bytes:
        """The line with its end."""
        return f"{self.n} {self.at} {self.manifest_id.hex()} {self.hash.hex()}\n".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A whole file whose chain was checked."""

    file_id: Hash
    lines: tuple[Line, ...]
    is_torn: bool  # the last line has no end

    def last_hash(self) -> Hash:
        """What the next line is hashed over."""
        return self.lines[-1].hash if self.lines else Hash(ANCHOR_FILE(self.file_id))


def parse(data: bytes, where: str) -> Contents:
    """Read and check a file from its first line to its last, or V.PROOF naming the line."""
    *rows, rest = data.split(b"\n")
    header = _HEADER.fullmatch(rows[0]) if rows else None
    if header is None:
        raise ProofError(f"{where} is no anchor file")
    file_id = Hash(bytes.fromhex(header[1].decode()))
    lines = list(_follow(rows[1:], file_id, where))
    return Contents(file_id=file_id, lines=tuple(lines), is_torn=bool(rest))


def _follow(rows: list[bytes], file_id: Hash, where: str) -> Iterator[Line]:
    previous = Hash(ANCHOR_FILE(file_id))
    count = 0
    for number, row in enumerate(rows, 2):
        if row.endswith(_UNFINISHED):
            continue
        found = _LINE.fullmatch(row)
        place = f"{where} line {number}"
        if found is None or int(found[1]) != count + 1 or int(found[2]) > UINT64_MAX:
            raise ProofError(f"{place} is not the next anchor: the file was edited")
        count += 1
        manifest_id = ManifestId(bytes.fromhex(found[3].decode()))
        line = make_line(previous, count, UnixSeconds(int(found[2])), manifest_id)
        if line.encode() != row + b"\n":
            raise ProofError(f"{place} does not follow from the lines before: the file was edited")
        previous = line.hash
        yield line


def make_line(previous: Hash, n: int, at: UnixSeconds, manifest_id: ManifestId) -> Line:
    """The line that follows."""
    digest = Hash(ANCHOR_FILE(previous, u64be(n), u64be(at), manifest_id))
    return Line(n=n, at=at, manifest_id=manifest_id, hash=digest)


class AnchorFile:
    """The backend; give it a path on another disk, machine or medium than the hub's."""

    name = NAME

    def __init__(
        self, path: Path, disk: Disk | None = None, *, make_id: Callable[[int], bytes] = os.urandom
    ) -> None:
        self._path = path
        self._disk = disk or Disk()
        self._make_id = make_id

    def publish(self, manifest_id: ManifestId, now: UnixSeconds) -> AnchorRef:
        """Append a line durably; an id that is there already keeps its line."""
        try:
            self._disk.mkdir(self._path.parent)
            fd = self._disk.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                return self._publish(fd, manifest_id, now)
            finally:
                self._disk.close(fd)
        except OSError as failure:
            detail = f"{self._path}: {failure.strerror or failure}"
            raise StoreError(detail) from failure

    def _publish(self, fd: int, manifest_id: ManifestId, now: UnixSeconds) -> AnchorRef:
        data = self._disk.pread(fd, self._disk.size(fd), 0)
        if b"\n" not in data and len(data) < _LINE_BYTES_MAX:
            data = self._begin(fd, data)
        contents = parse(data, str(self._path))
        for line in reversed(contents.lines):
            if line.manifest_id == manifest_id:
                self._sync(fd)  # whoever wrote it may have stopped before it was durable
                return self._ref(contents.file_id, line)
        line = make_line(contents.last_hash(), len(contents.lines) + 1, now, manifest_id)
        ending = _UNFINISHED + b"\n" if contents.is_torn else b""
        self._disk.pwrite(fd, ending + line.encode(), len(data))
        self._sync(fd)
        return self._ref(contents.file_id, line)

    def _begin(self, fd: int, torn: bytes) -> bytes:
        """The first line; what a stop left of an earlier try referred to nothing yet."""
        if torn:
            self._disk.ftruncate(fd, 0)
        header = f"veen-anchors 1 {self._make_id(32).hex()}\n".encode()
        self._disk.pwrite(fd, header, 0)
        return header

    def _sync(self, fd: int) -> None:
        self._disk.fdatasync(fd)
        self._disk.sync_dir(self._path.parent)

    def _ref(self, file_id: Hash, line: Line) -> AnchorRef:
        return AnchorRef(backend=NAME, body=cbor.encode([file_id, line.n, line.at, line.hash]))

    def read(self) -> Contents:
        """The whole file, checked."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            raise ProofError(f"{self._path} is gone") from None
        except OSError as failure:
            raise StoreError(f"{self._path}: {failure.strerror}") from failure
        return parse(data, str(self._path))

    def verify(self, ref: AnchorRef, manifest_id: ManifestId) -> Anchored:
        """Raise unless the line referred to stands where it stood, in a chain that is whole."""
        file_id, wanted = _read_ref(ref, manifest_id)
        contents = self.read()
        if contents.file_id != file_id:
            raise ProofError(f"{self._path} is another anchor file")
        if wanted.n > len(contents.lines):
            detail = f"{self._path} ends at anchor {len(contents.lines)}, {wanted.n} was given out"
            raise ProofError(f"{detail}: the file was cut")
        found = contents.lines[wanted.n - 1]
        if found != wanted:
            raise ProofError(
                f"anchor {wanted.n} of {self._path} is another: the file was rewritten"
            )
        return Anchored(at=found.at, witness=f"{self._path} anchor {found.n}")


def _read_ref(ref: AnchorRef, manifest_id: ManifestId) -> tuple[Hash, Line]:
    if ref.backend != NAME:
        raise VeenError(ErrorCode.FORMAT, f"an anchor of {ref.backend!r}, not of a file")
    reader = cbor.Reader(ref.body).array(4)
    file_id = Hash(reader.bstr(32))
    n, at, digest = reader.uint(), UnixSeconds(reader.uint()), Hash(reader.bstr(32))
    reader.end()
    if n == 0:
        raise VeenError(ErrorCode.FORMAT, "anchors are counted from 1")
    return file_id, Line(n=n, at=at, manifest_id=manifest_id, hash=digest)
