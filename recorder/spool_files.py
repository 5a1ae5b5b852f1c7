"""Files of a spool: what a service recorded and the outbox has not taken over yet [SDR0 3.2.3].

    file    = "VEENLOG1" frame*                  (hub/storage/frames.py, kind RECORD)
    payload = array [flags, stream, body]         flags 1: somebody waits for the receipt
            | array [flags, stream, body, key, content]

Every process appends to files of its own, whose lock it holds while it may still write. A file is
removed when its writer has let go of it and all of it has been taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from hub.errors import ErrorCode, StoreError, WireError
from hub.storage import frames
from hub.storage.disk import Disk
from hub.wire import cbor

SUFFIX: Final = ".spool"
FIRST: Final = len(frames.MAGIC)  # where the first frame stands
_NAME: Final = re.compile(r"([0-9a-f]{16}-[0-9]+-[0-9a-f]{8})-[0-9]{8}\.spool")
RESERVE_BYTES: Final = 32 << 20  # of the disk, kept free for the outbox
_READ_BYTES: Final = 1 << 18
_WANTS_RECEIPT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolEntry:
    """One validated event on its way to the outbox."""

    stream: str
    body: bytes
    key: str | None = None  # the caller's idempotency_key
    content: bytes = b""  # hash of what the key stands for
    wants_receipt: bool = False

    def encode(self) -> bytes:
        """The payload of a frame."""
        flags = b"\x01" if self.wants_receipt else b"\x00"
        head = b"\x83" if self.key is None else b"\x85"
        stream = self.stream.encode()
        parts = [head, flags, cbor.head(cbor.TSTR, len(stream)), stream, cbor.bstr(self.body)]
        if self.key is not None:
            key = self.key.encode()
            parts += [cbor.head(cbor.TSTR, len(key)), key, cbor.bstr(self.content)]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse what `encode` made."""
        return cls._decode_by_position(data) or cls._decode_by_field(data)

    @classmethod
    def _decode_by_position(cls, data: bytes) -> Self | None:
        """An entry without key at a third of the cost; None when in doubt.

        It may only accept what `_decode_by_field` accepts, with equal fields.
        """
        try:
            if data[0] != 0x83 or data[1] > _WANTS_RECEIPT:
                return None
            found = _string_at(data, 2, cbor.TSTR << 5)
            body = None if found is None else _string_at(data, found[1], cbor.BSTR << 5)
            if found is None or body is None or body[1] != len(data):
                return None
            stream = data[found[0] : found[1]].decode()
        except (IndexError, UnicodeDecodeError):
            return None
        wants_receipt = data[1] == _WANTS_RECEIPT
        return cls(stream=stream, body=data[body[0] :], wants_receipt=wants_receipt)

    @classmethod
    def _decode_by_field(cls, data: bytes) -> Self:
        """The rule: read each item strictly; every refusal names its byte."""
        reader = cbor.Reader(data)
        items = reader.array_length(minimum=3, maximum=5)
        if items == 4:
            raise WireError("an entry has three items, or five with its key")
        flags, stream, body = reader.uint(maximum=1), reader.tstr(), reader.bstr()
        key, content = (reader.tstr(), reader.bstr()) if items > 3 else (None, b"")
        reader.end()
        return cls(
            stream=stream,
            body=body,
            key=key,
            content=content,
            wants_receipt=flags == _WANTS_RECEIPT,
        )


def _string_at(data: bytes, pos: int, kind: int) -> tuple[int, int] | None:
    """Start and end of the string at `pos`, minimally headed and of up to 65535 bytes."""
    length = data[pos] - kind
    if 0 <= length < 24:
        return pos + 1, pos + 1 + length
    if length == 24 and data[pos + 1] >= 24:
        return pos + 2, pos + 2 + data[pos + 1]
    if length == 25 and data[pos + 1]:
        return pos + 3, pos + 3 + (data[pos + 1] << 8 | data[pos + 2])
    return None


def new_writer() -> str:
    """The beginning of a writer's file names; no other process takes it."""
    return f"{time.time_ns():016x}-{os.getpid()}-{secrets.token_hex(4)}"


def file_name(writer: str, number: int) -> str:
    """The name of a writer's file; its files sort in the order they were written."""
    return f"{writer}-{number:08d}{SUFFIX}"


def names(folder: Path) -> list[str]:
    """The spool files of a directory; those of one writer in their order."""
    return sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name))


def by_writer(folder: Path) -> dict[str, list[str]]:
    """The files of each writer, in their order; it writes to none but the last."""
    found: dict[str, list[str]] = {}
    for name in names(folder):
        match = _NAME.fullmatch(name)
        assert match is not None
        found.setdefault(match[1], []).append(name)
    return found


def total_bytes(folder: Path) -> int:
    """How much all spool files hold."""
    total = 0
    for name in names(folder):
        try:
            total += (folder / name).stat().st_size
        except FileNotFoundError:  # taken over meanwhile
            continue
    return total


def is_let_go(path: Path) -> bool:
    """Whether nobody writes to the file any more."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as held:
        if held.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    finally:
        os.close(fd)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole entries from one file, each with the offset behind it."""

    entries: tuple[tuple[int, SpoolEntry], ...]
    end: int  # everything before it was read
    has_more: bool  # bytes stand behind `end`, whole or not


def read_piece(path: Path, start: int, *, items_max: int) -> Piece:
    """Entries from an offset on, as far as they are whole."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, _READ_BYTES, start)
        head = frames.HEAD_BYTES
        if len(data) >= head:
            # An entry that is larger than a piece is read whole.
            needed = head + frames.HEAD.unpack_from(data)[0]
            if len(data) < needed <= frames.PAYLOAD_BYTES_MAX and start + needed <= size:
                data = os.pread(fd, needed, start)
    finally:
        os.close(fd)
    entries: list[tuple[int, SpoolEntry]] = []
    offset = 0
    while len(entries) < items_max:
        try:
            payload = frames.read_payload(data, offset, frames.RECORD, path.name)
            entry = SpoolEntry.decode(payload)
        except (frames.Damage, WireError):
            break
        offset += frames.HEAD_BYTES + len(payload)
        entries.append((start + offset, entry))
    return Piece(entries=tuple(entries), end=start + offset, has_more=start + offset < size)


def is_torn(path: Path, start: int) -> bool:
    """Whether what stands behind the last whole entry is a write that never finished."""
    data = path.read_bytes()[start:]
    if len(data) < frames.HEAD_BYTES or frames.was_never_synced(data, 0, len(data)):
        return True
    length: int = frames.HEAD.unpack_from(data)[0]
    return frames.HEAD_BYTES + length > len(data)


def make_folder(folder: Path, disk: Disk) -> None:
    """A directory whose name outlives a power cut; else all that is synced in it goes with it."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    disk.mkdir(folder)
    for made in reversed(missing):
        disk.sync_dir(made.parent)


def create(path: Path, disk: Disk) -> int:
    """A new file with its magic, locked for its writer before anyone can see it."""
    hidden = path.with_name(f"new-{path.name}")
    fd = disk.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        disk.pwrite(fd, frames.MAGIC, 0)
        disk.rename(hidden, path)
    except OSError:
        disk.close(fd)
        disk.unlink(hidden)
        raise
    return fd


def room_on_disk(folder: Path) -> int:
    """How much may be written before the disk has only the reserve left.

    What waits can be sent only while the outbox beside it can still grow: a spool that took the
    last byte would stay full for ever. Who else fills the disk is not held back by this.
    """
    free, reserve = _free_and_reserve(folder)
    return free - reserve


def has_room_to_take(folder: Path) -> bool:
    """Whether the outbox may grow: settling what it holds needs some of the reserve, too."""
    free, reserve = _free_and_reserve(folder)
    return free > reserve // 2


def _free_and_reserve(folder: Path) -> tuple[int, int]:
    found = os.statvfs(folder)
    reserve = min(RESERVE_BYTES, found.f_blocks * found.f_frsize // 4)
    return found.f_bavail * found.f_frsize, reserve


class NoRoomError(StoreError):
    """The disk has hardly more than what is kept free for sending."""

    def __init__(self) -> None:
        detail = (
            "the disk of the spool is full but for what sending needs (No space left on device); "
            "the event was not recorded"
        )
        super().__init__(detail, ErrorCode.STORE)


class SpoolFullError(StoreError):
    """The spool holds as much as it may: the hub is away for long, or nobody drains it."""

    def __init__(self, bytes_max: int) -> None:
        detail = f"the spool is full ({bytes_max} bytes); the event was not recorded"
        super().__init__(detail, ErrorCode.STORE)
