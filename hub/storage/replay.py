"""Reading the log back: batches, entries, and the cursors they lead to [SSOT 0, Replay].

Recovery, rebuild and fsck all go through here, so what a start believes is what fsck checks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from hub import mmr
from hub.errors import VeenError
from hub.storage import frames
from hub.storage.frames import Damage, Frame
from hub.storage.labels import PRUNED_BIT, pack_position
from hub.storage.spine import Spine
from hub.storage.state import LabelState, LogState
from hub.types import ClientId, Label, LeafHash, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt

RECEIPT_BYTES: Final = range(172, 189)  # two integers of one to nine bytes among fixed fields


@dataclass(slots=True)
class LoggedEntry:
    """One committed entry as it stands in a segment."""

    frame: Frame
    receipt_frame: Frame
    message: Msg | Spine
    receipt: Receipt
    leaf: LeafHash


@dataclass(slots=True)
class LoggedBatch:
    """The entries one COMMIT made exist, and the offset behind it."""

    entries: list[LoggedEntry]
    entries_so_far: int
    end: int


class Ledger(Protocol):
    """What admission derives from committed entries; live and on replay it is the same code."""

    def committed(self, state: LabelState, entry: LoggedEntry) -> None:
        """Account for one entry that is in the log."""


def batches(data: bytes, offset: int, where: str) -> Iterator[LoggedBatch]:
    """Whole batches from `offset`; Damage where the bytes stop being one."""
    messages: list[Frame] = []
    receipts: list[Frame] = []
    for found in frames.scan(data, offset, where):
        if found.kind in (frames.MSG, frames.SPINE) and not receipts:
            messages.append(found)
        elif found.kind == frames.RECEIPT and len(receipts) < len(messages):
            receipts.append(found)
        elif found.kind == frames.COMMIT and len(receipts) == len(messages):
            mark, count, so_far = frames.COMMIT_BODY.unpack(found.payload)
            if mark != frames.COMMIT_MARK or count != len(messages):
                raise Damage(where, found.offset, "commit does not cover its batch")
            pairs = zip(messages, receipts, strict=True)
            yield LoggedBatch([_entry(m, r, where) for m, r in pairs], so_far, found.end)
            messages, receipts = [], []
        else:
            raise Damage(where, found.offset, f"frame of kind {found.kind} out of place")
    if messages:
        raise Damage(where, messages[0].offset, "batch without commit")


def _entry(found: Frame, receipt_frame: Frame, where: str) -> LoggedEntry:
    try:
        message: Msg | Spine
        if found.kind == frames.MSG:
            message = Msg.decode(found.payload)
            message.check_ct_hash()
        else:
            message = Spine.decode(found.payload)
        receipt = Receipt.decode(receipt_frame.payload)
    except VeenError as flaw:
        raise Damage(where, found.offset, f"entry does not decode: {flaw.detail}") from flaw
    leaf = message.leaf_hash()
    if leaf != receipt.leaf_hash or message.label != receipt.label:
        raise Damage(where, receipt_frame.offset, "receipt is of another message")
    return LoggedEntry(found, receipt_frame, message, receipt, leaf)


def has_later_batch(
    data: bytes, state: LogState, first: int, keys: Collection[PublicKey], where: str
) -> bool:
    """Whether a batch that begins with entry `first` + 1 or later stands behind state.offset.

    Each batch is synced before the next is written, so what is flawed before it is damage and no
    torn tail. A COMMIT counts only behind a RECEIPT of ours that the log before it lacks: nobody
    else can put one into the bytes of a message.
    """
    for commit in frames.commits(data, state.offset, where):
        _, count, so_far = frames.COMMIT_BODY.unpack(commit.payload)
        receipt = _receipt_before(data, commit.offset, where)
        if so_far - count < first or receipt is None:
            continue
        known = state.labels.get(receipt.label)
        if receipt.stream_seq > (known.size if known else 0) and is_signed(receipt, keys):
            return True
    return False


def _receipt_before(data: bytes, end: int, where: str) -> Receipt | None:
    for size in RECEIPT_BYTES:
        start = end - frames.HEAD_BYTES - size
        if start < 0:
            break
        try:
            found = frames.read_frame(data[:end], start, where)
            if found.kind == frames.RECEIPT and found.end == end:
                return Receipt.decode(found.payload)
        except VeenError:
            continue
    return None


def is_signed(receipt: Receipt, keys: Collection[PublicKey]) -> bool:
    """Whether one of the keys signed the RECEIPT."""
    for key in keys:
        with contextlib.suppress(VeenError):
            receipt.verify(key)
            return True
    return False


@dataclass(slots=True)
class LabelTail:
    """Index rows that a replay produced for one label."""

    first_size: int
    nodes: list[bytes] = field(default_factory=list)
    positions: list[bytes] = field(default_factory=list)


class Replayer:
    """Advances cursors over logged batches, checking each root on the way (I3, I9)."""

    __slots__ = ("_ledger", "state", "tails")

    def __init__(self, state: LogState, ledger: Ledger | None) -> None:
        self.state = state
        self._ledger = ledger
        self.tails: dict[Label, LabelTail] = {}

    def apply(self, batch: LoggedBatch, segment: int, where: str) -> None:
        """Take one batch, or raise Damage at the entry that contradicts the log before it."""
        for entry in batch.entries:
            self._apply_entry(entry, segment, where)
        self.state.segment = segment
        self.state.offset = batch.end
        self.state.entries += len(batch.entries)
        if self.state.entries != batch.entries_so_far:
            raise Damage(where, batch.end - frames.COMMIT_BYTES, "entries are missing before here")

    def _apply_entry(self, entry: LoggedEntry, segment: int, where: str) -> None:
        receipt, message = entry.receipt, entry.message
        label = Label(receipt.label)
        state = self.state.labels.get(label)
        if state is None:
            state = self.state.labels[label] = LabelState(label)
        tail = self.tails.get(label)
        if tail is None:
            tail = self.tails[label] = LabelTail(state.size)
        client = ClientId(message.client_id)
        if receipt.stream_seq != state.size + 1 or receipt.hub_ts < state.last_ts:
            raise Damage(where, entry.receipt_frame.offset, "receipt is out of order")
        if message.client_seq != state.clients.get(client, (0, 0))[0] + 1:
            raise Damage(where, entry.frame.offset, "client_seq is not the next one (I9)")
        tail.nodes.extend(mmr.append(state.peaks, state.size, entry.leaf))
        if mmr.root(state.peaks) != receipt.mmr_root:
            raise Damage(where, entry.receipt_frame.offset, "root does not follow (I3)")
        if self._ledger is not None:
            self._ledger.committed(state, entry)
        state.size += 1
        state.last_ts = receipt.hub_ts
        state.clients[client] = (message.client_seq, message.prev_ack)
        tail.positions.append(
            pack_position(
                segment,
                len(entry.frame.payload) | (PRUNED_BIT if entry.frame.kind == frames.SPINE else 0),
                entry.frame.offset,
                len(entry.receipt_frame.payload),
                entry.receipt_frame.offset,
                receipt.hub_ts,
            )
        )
