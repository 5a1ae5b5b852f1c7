"""Per-label indexes: position of each entry, every MMR node, every CHECKPOINT [SSOT 3.4.1].

All three are derived from the log and can be rebuilt. Records have a fixed size, so a sequence is
found by arithmetic, and a node by its post-order position: a proof costs the same at any size.

    index        40 bytes per stream_seq, see Position
    nodes        32 bytes per node of the MMR, in post-order
    checkpoints  512 bytes per CHECKPOINT, ascending by upto_seq
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from hub import mmr
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.layout import Layout
from hub.types import Label

INDEX: Final = struct.Struct(">IIQIQQ")
INDEX_BYTES: Final = INDEX.size + 4
NODE_BYTES: Final = 32
CHECKPOINT_BYTES: Final = 512
_CHECKPOINT_HEAD: Final = struct.Struct(">QHI")  # upto_seq, length, crc
_CHECKPOINT_KEY: Final = struct.Struct(">QH")
_CRC: Final = struct.Struct(">I")
OPEN_FILES_MAX: Final = 256
PRUNED_BIT: Final = 1 << 31  # of msg_bytes: the frame there is a SPINE


class Position(NamedTuple):
    """Where one entry stands in the log, and when it was committed."""

    segment: int
    msg_bytes: int
    msg_offset: int
    receipt_bytes: int
    receipt_offset: int
    hub_ts: int

    @property
    def is_pruned(self) -> bool:
        """Whether retention has taken the payload."""
        return bool(self.msg_bytes & PRUNED_BIT)

    @property
    def frame_bytes(self) -> int:
        """Payload bytes of the MSG or SPINE frame."""
        return self.msg_bytes & ~PRUNED_BIT

    def encode(self) -> bytes:
        """40 bytes with their own checksum."""
        return pack_position(
            self.segment,
            self.msg_bytes,
            self.msg_offset,
            self.receipt_bytes,
            self.receipt_offset,
            self.hub_ts,
        )


def pack_position(*fields: int) -> bytes:
    """Position.encode without the object, for the commit path."""
    body = INDEX.pack(*fields)
    return body + _CRC.pack(crc32(body))


def decode_position(data: bytes, where: str, offset: int) -> Position:
    """A Position, or Damage."""
    body = data[: INDEX.size]
    if len(data) != INDEX_BYTES or _CRC.pack(crc32(body)) != data[INDEX.size :]:
        raise Damage(where, offset, "index record does not match its checksum")
    return Position._make(INDEX.unpack(body))


def encode_checkpoint(upto_seq: int, wire: bytes) -> bytes:
    """A CHECKPOINT padded to its fixed record."""
    crc = crc32(wire, crc32(_CHECKPOINT_KEY.pack(upto_seq, len(wire))))
    record = _CHECKPOINT_HEAD.pack(upto_seq, len(wire), crc) + wire
    assert len(record) <= CHECKPOINT_BYTES, len(record)
    return record.ljust(CHECKPOINT_BYTES, b"\x00")


def decode_checkpoint(record: bytes, where: str, offset: int) -> tuple[int, bytes]:
    """(upto_seq, CHECKPOINT bytes), or Damage."""
    if len(record) != CHECKPOINT_BYTES:
        raise Damage(where, offset, "truncated checkpoint record")
    upto_seq, length, crc = _CHECKPOINT_HEAD.unpack_from(record)
    end = _CHECKPOINT_HEAD.size + length
    wire = record[_CHECKPOINT_HEAD.size : end]
    if crc32(wire, crc32(_CHECKPOINT_KEY.pack(upto_seq, length))) != crc or any(record[end:]):
        raise Damage(where, offset, "checkpoint record does not match its checksum")
    return upto_seq, wire


class LabelFiles:
    """The open files of the labels in use; the least recently used are closed."""

    __slots__ = ("_disk", "_flags", "_layout", "_named", "_open", "_owed", "_writable")

    def __init__(self, layout: Layout, disk: Disk, *, writable: bool) -> None:
        self._layout = layout
        self._disk = disk
        self._writable = writable
        self._flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
        self._open: OrderedDict[tuple[Label, str], int] = OrderedDict()
        self._named: set[Label] = set()  # labels whose names in the directory are durable
        self._owed: list[tuple[Label, int, bytes]] = []  # CHECKPOINTs that the disk refused

    def fd(self, label: Label, name: str) -> int:
        """A descriptor of one index file; FileNotFoundError when a reader finds none."""
        key = (label, name)
        fd = self._open.get(key)
        if fd is not None:
            self._open.move_to_end(key)
            return fd
        folder = self._layout.label(label)
        if self._writable and not folder.exists():
            self._disk.mkdir(folder)
        fd = self._disk.open(folder / name, self._flags)
        self._open[key] = fd
        if len(self._open) > OPEN_FILES_MAX:
            _, oldest = self._open.popitem(last=False)
            self._disk.close(oldest)
        return fd

    def forget(self, label: Label) -> None:
        """Close the files of a label, because they are about to go."""
        for name in ("index", "nodes", "checkpoints"):
            fd = self._open.pop((label, name), None)
            if fd is not None:
                self._disk.close(fd)
        self._named.discard(label)

    def path(self, label: Label, name: str) -> Path:
        """Where an index file lies, for messages."""
        return self._layout.label(label) / name

    def append(self, label: Label, size: int, nodes: list[bytes], positions: list[bytes]) -> None:
        """Extend a label that had `size` entries.

        Nodes first: a reader takes the length of the index as the head, so everything an entry
        needs must be there before its record is.
        """
        disk = self._disk
        node_offset = mmr.node_count(size) * NODE_BYTES
        disk.pwrite(self.fd(label, "nodes"), b"".join(nodes), node_offset)
        disk.pwrite(self.fd(label, "index"), b"".join(positions), size * INDEX_BYTES)

    def truncate(self, label: Label, size: int) -> None:
        """Cut both files to exactly `size` entries."""
        for name, length in (
            ("index", size * INDEX_BYTES),
            ("nodes", mmr.node_count(size) * NODE_BYTES),
        ):
            fd = self.fd(label, name)
            if self._disk.size(fd) != length:
                self._disk.ftruncate(fd, length)
                self._disk.fdatasync(fd)

    def sync(self, labels: Iterable[Label]) -> None:
        """Make the indexes of labels durable, names included, before a snapshot counts on them."""
        unnamed: list[Label] = []
        for label in labels:
            for name in ("nodes", "index"):
                self._disk.fdatasync(self.fd(label, name))
            if label not in self._named:
                self._disk.sync_dir(self._layout.label(label))
                unnamed.append(label)
        if unnamed:
            self._disk.sync_dir(self._layout.labels)
            self._named.update(unnamed)

    def count(self, label: Label) -> int:
        """Entries of a label: the length of its index."""
        return self._disk.size(self.fd(label, "index")) // INDEX_BYTES

    def holds(self, label: Label, size: int) -> bool:
        """Whether both files are long enough for `size` entries."""
        nodes = self._disk.size(self.fd(label, "nodes"))
        return self.count(label) >= size and nodes >= mmr.node_count(size) * NODE_BYTES

    def position(self, label: Label, seq: int) -> Position:
        """Where entry `seq` stands."""
        offset = (seq - 1) * INDEX_BYTES
        data = self._disk.pread(self.fd(label, "index"), INDEX_BYTES, offset)
        return decode_position(data, str(self.path(label, "index")), offset)

    def positions(self, label: Label, first: int, count: int) -> list[Position]:
        """Where the entries from `first` stand, in one read."""
        offset = (first - 1) * INDEX_BYTES
        data = self._disk.pread(self.fd(label, "index"), INDEX_BYTES * count, offset)
        where = str(self.path(label, "index"))
        return [
            decode_position(data[at : at + INDEX_BYTES], where, offset + at)
            for at in range(0, INDEX_BYTES * count, INDEX_BYTES)
        ]

    def first_held(self, label: Label, size: int) -> int:
        """The first seq whose payload is still there; retention takes prefixes only."""
        low, high = 1, size + 1
        while low < high:
            middle = (low + high) // 2
            if self.position(label, middle).is_pruned:
                low = middle + 1
            else:
                high = middle
        return low

    def replace_position(self, label: Label, seq: int, position: Position) -> None:
        """Point an entry at its new place after its segment was rewritten."""
        fd = self.fd(label, "index")
        self._disk.pwrite(fd, position.encode(), (seq - 1) * INDEX_BYTES)

    def node(self, label: Label, height: int, index: int) -> bytes:
        """The MMR node of this height over leaves index*2^height onwards."""
        offset = mmr.node_position(height, index) * NODE_BYTES
        data = self._disk.pread(self.fd(label, "nodes"), NODE_BYTES, offset)
        if len(data) != NODE_BYTES:
            raise Damage(str(self.path(label, "nodes")), offset, "node is missing")
        return data

    def append_checkpoint(self, label: Label, upto_seq: int, wire: bytes) -> None:
        """Add the newest CHECKPOINT of a label.

        Its manifest is durable and this file is derived from it: what the disk refuses is owed,
        tried again, and restored by the next start.
        """
        self._owed.append((label, upto_seq, wire))
        with contextlib.suppress(OSError):
            self.settle_checkpoints()

    def settle_checkpoints(self) -> None:
        """Write the CHECKPOINTs that are owed, oldest first."""
        while self._owed:
            label, upto_seq, wire = self._owed[0]
            self._write_checkpoint(label, encode_checkpoint(upto_seq, wire))
            self._owed.pop(0)

    def _write_checkpoint(self, label: Label, record: bytes) -> None:
        fd = self.fd(label, "checkpoints")
        count = self._disk.size(fd) // CHECKPOINT_BYTES
        if count:  # a write that failed may have arrived
            last = self._disk.pread(fd, CHECKPOINT_BYTES, (count - 1) * CHECKPOINT_BYTES)
            count -= last == record
        self._disk.pwrite(fd, record, count * CHECKPOINT_BYTES)
        self._disk.fdatasync(fd)
        if count == 0:
            self._disk.sync_dir(self._layout.label(label))
            self._disk.sync_dir(self._layout.labels)

    def checkpoint_count(self, label: Label) -> int:
        """How many CHECKPOINTs a label has."""
        return self._disk.size(self.fd(label, "checkpoints")) // CHECKPOINT_BYTES

    def checkpoint(self, label: Label, number: int) -> tuple[int, bytes]:
        """(upto_seq, bytes) of the CHECKPOINT with this 0-based number."""
        offset = number * CHECKPOINT_BYTES
        data = self._disk.pread(self.fd(label, "checkpoints"), CHECKPOINT_BYTES, offset)
        return decode_checkpoint(data, str(self.path(label, "checkpoints")), offset)

    def has_checkpoint(self, label: Label, upto_seq: int, wire: bytes) -> bool:
        """Whether a label's file has this CHECKPOINT; a damaged end of the file is cut off."""
        for number in reversed(range(self.checkpoint_count(label))):
            try:
                found, kept = self.checkpoint(label, number)
            except Damage:
                fd = self.fd(label, "checkpoints")
                self._disk.ftruncate(fd, number * CHECKPOINT_BYTES)
                continue
            if kept == wire:
                return True
            if found < upto_seq:
                break
        return False

    def cut_checkpoints(self, label: Label, size: int) -> None:
        """Drop CHECKPOINTs behind the end of the log, when the log was cut back."""
        if not self.path(label, "checkpoints").exists():
            return
        for number in reversed(range(self.checkpoint_count(label))):
            with contextlib.suppress(Damage):
                if self.checkpoint(label, number)[0] <= size:
                    break
            self._disk.ftruncate(self.fd(label, "checkpoints"), number * CHECKPOINT_BYTES)

    def close(self) -> None:
        """Close everything; the next use opens again."""
        while self._open:
            _, fd = self._open.popitem()
            self._disk.close(fd)
