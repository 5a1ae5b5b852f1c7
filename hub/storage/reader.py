"""Reading a data directory without owning it: O(1) or O(log n) to position, checked [SSOT 3.4].

Nothing is served on an index's word alone: each entry's leaf is recomputed and compared with its
RECEIPT, each proof is verified against the signed root before it leaves.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from hub import mmr
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import frames
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.labels import LabelFiles, Position
from hub.storage.layout import Layout
from hub.storage.spine import Spine
from hub.types import Label, MmrRoot
from hub.wire.msg import Msg
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof
from hub.wire.receipt import Receipt

SEGMENTS_OPEN_MAX: Final = 64
_RETRY_S: Final = 0.02
_RETRIES: Final = 100
_SPAN_BYTES_MAX: Final = 4 * 1024 * 1024
_GAP_BYTES_MAX: Final = 64 * 1024

T = TypeVar("T")


class LogReader:
    """A view of the committed log. The length of a label's index is its head."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.layout = Layout(root)
        self._disk = disk or Disk()
        self._files = LabelFiles(self.layout, self._disk, writable=False)
        self._segments: OrderedDict[int, int] = OrderedDict()

    def reopen(self) -> None:
        """Forget open files: a segment was replaced under its name."""
        self._files.close()
        while self._segments:
            _, fd = self._segments.popitem()
            self._disk.close(fd)

    close = reopen

    def labels(self) -> list[Label]:
        """Every label with an index, sorted."""
        return self.layout.label_names()

    def count(self, label: Label) -> int:
        """The newest stream_seq of a label, 0 for one that is unknown."""
        try:
            return self._files.count(label)
        except FileNotFoundError:
            return 0

    def receipt(self, label: Label, seq: int) -> bytes:
        """The RECEIPT as it was signed."""
        return self._steady(lambda: self._receipt(label, seq, self._files.position(label, seq)))

    def entry(self, label: Label, seq: int) -> tuple[bytes, bytes]:
        """(RECEIPT, MSG); E.PRUNED when retention took the payload."""
        return self._steady(lambda: self._entry(label, seq, self._files.position(label, seq)))

    def entries(self, label: Label, first: int, last: int) -> Iterator[tuple[bytes, bytes]]:
        """(RECEIPT, MSG) of a range, in order, in constant memory."""
        for seq in range(first, last + 1):
            yield self.entry(label, seq)

    def block(self, label: Label, first: int, last: int) -> list[tuple[bytes, bytes]]:
        """(RECEIPT, MSG) of a range in few reads, for a caller that checks leaves and roots itself.

        Frames are checked; whether each RECEIPT is of its MSG is not.
        """
        return self._steady(lambda: self._block(label, first, last))

    def spine_or_msg(self, label: Label, seq: int) -> Msg | Spine:
        """What is left of an entry's message, payload or not."""

        def read() -> Msg | Spine:
            position = self._files.position(label, seq)
            found = self._frame(position.segment, position.msg_offset, position.frame_bytes)
            return Spine.decode(found.payload) if position.is_pruned else Msg.decode(found.payload)

        return self._steady(read)

    def hub_ts(self, label: Label, seq: int) -> int:
        """Commit time of an entry."""
        return self._steady(lambda: self._files.position(label, seq).hub_ts)

    def first_at_or_after(self, label: Label, hub_ts: int) -> int:
        """The first seq committed at hub_ts or later; head + 1 when there is none."""
        low, high = 1, self.count(label) + 1
        while low < high:
            middle = (low + high) // 2
            if self.hub_ts(label, middle) < hub_ts:
                low = middle + 1
            else:
                high = middle
        return low

    def first_held(self, label: Label) -> int:
        """The first seq whose payload is still there."""
        return self._steady(lambda: self._files.first_held(label, self.count(label)))

    def root_at(self, label: Label, size: int) -> MmrRoot:
        """The root of the first `size` entries, as its RECEIPT signed it."""
        return Receipt.decode(self.receipt(label, size)).mmr_root

    def prove(self, label: Label, seq: int, size: int) -> MmrProof:
        """Inclusion of seq under the root at `size`, verified before it is returned."""
        proof = mmr.prove(seq, size, self._node(label))
        self._sound(
            label,
            lambda: proof.verify(stream_seq=seq, mmr_size=size, root=self.root_at(label, size)),
        )
        return proof

    def prove_consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        """The log of from_size is a prefix of the log of to_size."""
        proof = mmr.prove_consistency(from_size, to_size, self._node(label))
        old, new = self.root_at(label, from_size), self.root_at(label, to_size)
        self._sound(label, lambda: proof.verify(old, new))
        return proof

    def prove_range(self, label: Label, first: int, last: int, size: int) -> RangeProof:
        """Leaves first..last under the root at `size`."""
        node = self._node(label)
        proof = mmr.prove_range(first, last, size, node)
        if last - first < 4096:  # the check costs what the verifier pays; long ranges skip it
            leaves = [node(0, index) for index in range(first - 1, last)]
            self._sound(label, lambda: proof.verify(leaves, self.root_at(label, size)))
        return proof

    def node(self, label: Label, height: int, index: int) -> bytes:
        """A stored node of the MMR; who uses it checks the root it leads to."""
        return self._steady(lambda: self._files.node(label, height, index))

    def _node(self, label: Label) -> Callable[[int, int], bytes]:
        return lambda height, index: self._files.node(label, height, index)

    def _sound(self, label: Label, check: Callable[[], None]) -> None:
        try:
            check()
        except VeenError as flaw:
            where = str(self._files.path(label, "nodes"))
            raise StoreError(f"{where}: {flaw.detail}; run hub rebuild", ErrorCode.DAMAGE) from flaw

    def checkpoint_count(self, label: Label) -> int:
        """How many CHECKPOINTs there are for a label."""
        try:
            return self._files.checkpoint_count(label)
        except FileNotFoundError:
            return 0

    def checkpoint(self, label: Label, number: int) -> tuple[int, bytes]:
        """(upto_seq, CHECKPOINT) by 0-based number."""
        return self._files.checkpoint(label, number)

    def checkpoint_at(self, label: Label, upto_seq: int) -> bytes | None:
        """The newest CHECKPOINT with exactly this upto_seq."""
        low, high = 0, self.checkpoint_count(label)
        while low < high:
            middle = (low + high) // 2
            if self.checkpoint(label, middle)[0] <= upto_seq:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        found, wire = self.checkpoint(label, low - 1)
        return wire if found == upto_seq else None

    def _receipt(self, label: Label, seq: int, position: Position) -> bytes:
        found = self._frame(position.segment, position.receipt_offset, position.receipt_bytes)
        receipt = Receipt.decode(found.payload)
        if found.kind != frames.RECEIPT or receipt.label != label or receipt.stream_seq != seq:
            raise Damage(self._where(position), position.receipt_offset, "another receipt")
        return found.payload

    def _entry(self, label: Label, seq: int, position: Position) -> tuple[bytes, bytes]:
        receipt = self._receipt(label, seq, position)
        if position.is_pruned:
            raise VeenError(ErrorCode.PRUNED, f"first_held={self.first_held(label)}")
        found = self._frame(position.segment, position.msg_offset, position.frame_bytes)
        msg = Msg.decode(found.payload)
        msg.check_ct_hash()
        if found.kind != frames.MSG or msg.leaf_hash() != Receipt.decode(receipt).leaf_hash:
            raise Damage(self._where(position), position.msg_offset, "another message")
        return receipt, found.payload

    def _block(self, label: Label, first: int, last: int) -> list[tuple[bytes, bytes]]:
        positions = self._files.positions(label, first, last - first + 1)
        if any(position.is_pruned for position in positions):
            raise VeenError(ErrorCode.PRUNED, f"first_held={self.first_held(label)}")
        found: list[tuple[bytes, bytes]] = []
        for span in _spans(positions):
            base = span[0].msg_offset
            where, fd = self._where(span[0]), self._segment_fd(span[0].segment)
            data = self._disk.pread(fd, _end_of(span[-1]) - base, base)
            for position in span:
                msg = frames.read_payload(data, position.msg_offset - base, frames.MSG, where)
                receipt = frames.read_payload(
                    data, position.receipt_offset - base, frames.RECEIPT, where
                )
                found.append((receipt, msg))
        return found

    def _frame(self, segment: int, offset: int, payload_bytes: int) -> frames.Frame:
        fd = self._segment_fd(segment)
        data = self._disk.pread(fd, frames.HEAD_BYTES + payload_bytes, offset)
        found = frames.read_frame(data, 0, str(self.layout.segment(segment)), offset)
        if len(found.payload) != payload_bytes:
            raise Damage(str(self.layout.segment(segment)), offset, "frame of another length")
        return found

    def _segment_fd(self, segment: int) -> int:
        fd = self._segments.get(segment)
        if fd is None:
            fd = self._disk.open(self.layout.segment(segment), os.O_RDONLY)
            self._segments[segment] = fd
            if len(self._segments) > SEGMENTS_OPEN_MAX:
                _, oldest = self._segments.popitem(last=False)
                self._disk.close(oldest)
        return fd

    def _where(self, position: Position) -> str:
        return str(self.layout.segment(position.segment))

    def _steady(self, read: Callable[[], T]) -> T:
        """Run a read; when it meets a segment that is just being replaced, look again."""
        for attempt in range(_RETRIES):
            try:
                return read()
            except (Damage, FileNotFoundError) as flaw:
                self.reopen()
                if attempt > 0:
                    if not self.layout.prune_intent.exists():
                        raise _as_damage(flaw) from flaw
                    time.sleep(_RETRY_S)
            except VeenError as flaw:
                if flaw.code is ErrorCode.FORMAT:  # stored bytes that do not decode
                    raise StoreError(flaw.detail, ErrorCode.DAMAGE) from flaw
                raise
        raise StoreError("the log keeps changing under the reader", ErrorCode.DAMAGE)


def _end_of(position: Position) -> int:
    return position.receipt_offset + frames.HEAD_BYTES + position.receipt_bytes


def _spans(positions: list[Position]) -> Iterator[list[Position]]:
    """Entries that lie so close together that one read is cheaper than many."""
    span: list[Position] = []
    for position in positions:
        if span and (
            position.segment != span[0].segment
            or position.msg_offset - _end_of(span[-1]) > _GAP_BYTES_MAX
            or _end_of(position) - span[0].msg_offset > _SPAN_BYTES_MAX
        ):
            yield span
            span = []
        span.append(position)
    if span:
        yield span


def _as_damage(flaw: Damage | FileNotFoundError) -> StoreError:
    if isinstance(flaw, Damage):
        return flaw
    return StoreError(f"{flaw.filename} is missing", ErrorCode.DAMAGE)
