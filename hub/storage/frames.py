"""Frames: how every append-only file of the data directory is cut [spec-1 OP0.5].

    file  = "VEENLOG1" frame*
    frame = u32be length || u32be crc32(length || kind || payload) || u8 kind || payload

A batch of the log is MSG frames, their RECEIPT frames, then one COMMIT frame. Only what a COMMIT
covers exists: a tail without one was never answered, and is cut at the next start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from hub.errors import ErrorCode, StoreError

MAGIC: Final = b"VEENLOG1"
HEAD: Final = struct.Struct(">IIB")
HEAD_BYTES: Final = HEAD.size

HEADER: Final = 0
MSG: Final = 1
RECEIPT: Final = 2
COMMIT: Final = 3
SPINE: Final = 4  # what retention leaves of a MSG: everything but the ciphertext
RECORD: Final = 5  # rotations, findings

PAYLOAD_BYTES_MAX: Final = 64 * 1024 * 1024
SECTOR_BYTES: Final = 512  # what a disk writes whole or not at all
COMMIT_MARK: Final = b"\xf5VEENCMT"
COMMIT_BODY: Final = struct.Struct(">8sIQ")  # mark, entries of this batch, entries so far
COMMIT_BYTES: Final = HEAD_BYTES + COMMIT_BODY.size

_LENGTH: Final = struct.Struct(">I")
_KINDS: Final = tuple(bytes((kind,)) for kind in range(8))


def frame(kind: int, payload: bytes) -> bytes:
    """One frame."""
    length = _LENGTH.pack(len(payload))
    crc = crc32(payload, crc32(length + _KINDS[kind]))
    return HEAD.pack(len(payload), crc, kind) + payload


def commit(entries: int, entries_so_far: int) -> bytes:
    """The frame that makes the batch before it exist."""
    return frame(COMMIT, COMMIT_BODY.pack(COMMIT_MARK, entries, entries_so_far))


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame found at an offset."""

    offset: int
    kind: int
    payload: bytes

    @property
    def end(self) -> int:
        """Offset behind this frame."""
        return self.offset + HEAD_BYTES + len(self.payload)


class Damage(StoreError):  # noqa: N818 - it names a finding as well as a refusal
    """Bytes that fail their checksum, with the place where they stand."""

    def __init__(self, where: str, offset: int, reason: str) -> None:
        super().__init__(f"{where} at offset {offset}: {reason}", ErrorCode.DAMAGE)
        self.where = where
        self.offset = offset
        self.reason = reason


def read_frame(data: bytes, offset: int, where: str, base: int = 0) -> Frame:
    """The frame at `offset` of data, or Damage; `base` is where data lies in its file."""
    if offset + HEAD_BYTES > len(data):
        raise Damage(where, base + offset, "truncated frame head")
    length, crc, kind = HEAD.unpack_from(data, offset)
    start = offset + HEAD_BYTES
    if length > PAYLOAD_BYTES_MAX or start + length > len(data):
        raise Damage(where, base + offset, "frame runs past the end")
    payload = data[start : start + length]
    if kind >= len(_KINDS) or crc32(payload, crc32(_LENGTH.pack(length) + _KINDS[kind])) != crc:
        raise Damage(where, base + offset, "checksum does not match")
    return Frame(base + offset, kind, payload)


def read_payload(data: bytes, offset: int, kind: int, where: str) -> bytes:
    """The payload of a frame that must be of this kind, without the object; or Damage."""
    start = offset + HEAD_BYTES
    try:
        length, crc, found = HEAD.unpack_from(data, offset)
    except struct.error:
        raise Damage(where, offset, "truncated frame head") from None
    payload = data[start : start + length]
    head = crc32(data[offset : offset + 4] + _KINDS[kind])
    if found != kind or len(payload) != length or crc32(payload, head) != crc:
        raise Damage(where, offset, "not the frame that the index names")
    return payload


def scan(data: bytes, offset: int, where: str) -> Iterator[Frame]:
    """All frames from `offset` to the end; Damage at the first that is not one."""
    while offset < len(data):
        found = read_frame(data, offset, where)
        yield found
        offset = found.end


def commits(data: bytes, offset: int, where: str) -> Iterator[Frame]:
    """Whole COMMIT frames behind `offset`, found by their mark wherever they stand.

    The bytes of a client can look like one, so a caller needs more than its being there.
    """
    at = data.find(COMMIT_MARK, offset + HEAD_BYTES)
    while at >= 0:
        try:
            found = read_frame(data, at - HEAD_BYTES, where)
            if found.kind == COMMIT and len(found.payload) == COMMIT_BODY.size:
                yield found
        except Damage:
            pass
        at = data.find(COMMIT_MARK, at + 1)


def was_never_synced(data: bytes, start: int, end: int) -> bool:
    """Whether a power cut explains a flaw in data[start:end].

    Then some sector of what was being appended at `start` reads as zeros up to its end, which no
    flipped bit looks like.
    """
    sector = start
    while sector < min(end, len(data)):
        border = min(sector - sector % SECTOR_BYTES + SECTOR_BYTES, len(data))
        if not any(data[sector:border]):
            return True
        sector = border
    return False
