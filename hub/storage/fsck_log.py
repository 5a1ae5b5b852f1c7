"""Walks the whole log for fsck: every frame, hash, order and root again from bytes [I1-I3, I9].

Where bytes are damaged it names the place, goes on behind the next COMMIT and picks up each label
there: its peaks come from the node file and count only when the next signed root follows from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hub import mmr
from hub.storage import frames, segments
from hub.storage.frames import Damage
from hub.storage.fsck_indexes import Indexes
from hub.storage.fsck_notes import Claim, Notes, Signatures
from hub.storage.history import History
from hub.storage.labels import PRUNED_BIT, pack_position
from hub.storage.layout import Layout
from hub.storage.replay import LabelTail, LoggedBatch, LoggedEntry, batches, has_later_batch
from hub.storage.spine import Spine
from hub.storage.state import LabelState, LogState
from hub.types import ClientId, Label


@dataclass(slots=True)
class Cursor:
    """A label while the log is walked."""

    state: LabelState
    first_client: ClientId
    is_anchored: bool = True  # peaks are known, so each root can be recomputed
    is_whole: bool = True  # no entry of it was lost to damage
    tail: LabelTail | None = None


class LogWalk:
    """One pass over the segments, in constant memory but for the cursors."""

    def __init__(
        self,
        layout: Layout,
        notes: Notes,
        history: History,
        indexes: Indexes,
        signatures: Signatures,
    ) -> None:
        self._layout = layout
        self._notes = notes
        self._history = history
        self._indexes = indexes
        self._signatures = signatures
        self._is_interrupted = False  # damage lies between here and the last whole batch
        self.labels: dict[Label, Cursor] = {}
        self.state = LogState()
        self.segments = 0

    def run(self) -> None:
        """Walk every segment."""
        numbers = self._layout.segment_numbers()
        for expected in range(1, (numbers[-1] if numbers else 0) + 1):
            path = self._layout.segment(expected)
            if expected in numbers:
                self._walk_file(path, expected, is_last=expected == numbers[-1])
            else:
                self._notes.flaw(path, 0, "segment is missing")
                self._is_interrupted = True

    def _walk_file(self, path: Path, number: int, *, is_last: bool) -> None:
        with path.open("rb") as file:
            self._indexes.segment_inode = os.fstat(file.fileno()).st_ino
            data = file.read()
        where = str(path)
        self.segments += 1
        try:
            entries, offset = segments.read_header(data, number, where)
            self._check_header(path, data, entries)
        except Damage as flaw:
            if is_last and self._is_torn(data, LogState(number, 0, self.state.entries), where):
                self._notes.did("unfinished segment")
                return
            self._notes.refusal(path, flaw)
            self._is_interrupted = True
            found = self._next_start(data, 0, where)
            if found is None:
                return
            offset = found
        self.state.segment, self.state.offset = number, offset
        self._indexes.at(self.state, self.labels)
        self._walk_batches(path, data, is_last=is_last)
        for cursor in self.labels.values():
            self._compare_tail(cursor)
        self._notes.did("segment")

    def _check_header(self, path: Path, data: bytes, entries: int) -> None:
        if segments.read_hub_id(data, str(path)) not in self._history.hub_ids:
            raise Damage(str(path), len(frames.MAGIC), "segment belongs to another log")
        if entries != self.state.entries and not self._is_interrupted:
            raise Damage(str(path), len(frames.MAGIC), "entries are missing before this segment")

    def _walk_batches(self, path: Path, data: bytes, *, is_last: bool) -> None:
        where = str(path)
        while True:
            try:
                for batch in batches(data, self.state.offset, where):
                    self._take(batch, path)
            except Damage as flaw:
                if is_last and self._is_torn(data, self.state, where):
                    self._notes.did("uncommitted tail")
                    return
                self._notes.refusal(path, flaw)
                self._is_interrupted = True
                start = self._next_start(data, flaw.offset, where)
                if start is None:
                    return
                self.state.offset = start
            else:
                return

    def _is_torn(self, data: bytes, state: LogState, where: str) -> bool:
        """Whether the end is a batch that was never answered; nothing may then count on it."""
        begun = LogState(state.segment, state.offset, state.entries, self._label_states())
        first = state.entries + (1 if state.offset else 0)
        return not (
            self._indexes.is_beyond(begun.labels)
            or has_later_batch(data, begun, first, self._history.keys, where)
        )

    def _label_states(self) -> dict[Label, LabelState]:
        return {label: cursor.state for label, cursor in self.labels.items()}

    @staticmethod
    def _next_start(data: bytes, flaw: int, where: str) -> int | None:
        """Where the next batch begins: behind a COMMIT that a frame or the end follows."""
        for found in frames.commits(data, flaw, where):
            if found.end == len(data):
                return None
            try:
                frames.read_frame(data, found.end, where)
            except Damage:
                continue
            return found.end
        return None

    def _take(self, batch: LoggedBatch, path: Path) -> None:
        state = self.state
        for entry in batch.entries:
            self._entry(entry, path)
        if batch.entries_so_far != state.entries + len(batch.entries):
            if not self._is_interrupted:
                place = batch.end - frames.COMMIT_BYTES
                self._notes.flaw(path, place, "entries are missing before here")
            state.entries = batch.entries_so_far - len(batch.entries)
        for number, entry in enumerate(batch.entries, start=state.entries):
            self._indexes.check_leaf(number, entry)
        state.entries = batch.entries_so_far
        self._notes.did("batch")
        self._notes.advance(batch.end - state.offset, state.entries)
        state.offset = batch.end
        self._indexes.at(state, self.labels)

    # -- one entry

    def _entry(self, entry: LoggedEntry, path: Path) -> None:
        self._notes.did("frame", 2)
        self._notes.did("spine" if isinstance(entry.message, Spine) else "ct_hash")
        self._notes.did("leaf")
        cursor = self._cursor(entry, path)
        for place, reason in _order_flaws(entry, cursor):
            self._notes.flaw(path, place, reason)
        self._root(entry, cursor, path)
        self._sign(entry, path)
        state, receipt, message = cursor.state, entry.receipt, entry.message
        state.size = receipt.stream_seq
        state.last_ts = receipt.hub_ts
        state.clients[ClientId(message.client_id)] = (message.client_seq, message.prev_ack)
        assert cursor.tail is not None
        cursor.tail.positions.append(_position(entry, self.state.segment))

    def _cursor(self, entry: LoggedEntry, path: Path) -> Cursor:
        """The label's cursor right before this entry, moved there when entries were lost."""
        receipt = entry.receipt
        cursor = self.labels.get(receipt.label)
        if cursor is None:
            self._indexes.first_message(receipt.label, entry.message)
            client = ClientId(entry.message.client_id)
            cursor = self.labels[receipt.label] = Cursor(LabelState(receipt.label), client)
        if receipt.stream_seq != cursor.state.size + 1:
            if not self._is_interrupted:
                place = entry.receipt_frame.offset
                reason = f"receipt {receipt.stream_seq} follows {cursor.state.size}"
                self._notes.flaw(path, place, reason)
            self._move(cursor, receipt.stream_seq - 1)
        if cursor.tail is None:
            cursor.tail = LabelTail(cursor.state.size)
        return cursor

    def _move(self, cursor: Cursor, size: int) -> None:
        self._compare_tail(cursor)
        cursor.is_whole = False
        cursor.state.size = size
        cursor.state.clients.clear()
        try:
            cursor.state.peaks = self._indexes.peaks(cursor.state.label, size)
            cursor.is_anchored = True
        except (OSError, Damage):
            cursor.is_anchored = False

    def _root(self, entry: LoggedEntry, cursor: Cursor, path: Path) -> None:
        state, tail = cursor.state, cursor.tail
        assert tail is not None
        if not cursor.is_anchored:
            self._notes.did("root not recomputed")
            return
        self._notes.did("root")
        tail.nodes.extend(mmr.append(state.peaks, state.size, entry.leaf))
        if mmr.root(state.peaks) != entry.receipt.mmr_root:
            if cursor.is_whole or tail.positions:
                self._notes.flaw(path, entry.receipt_frame.offset, "root does not follow (I3)")
            cursor.is_anchored = False
            tail.nodes.clear()

    def _sign(self, entry: LoggedEntry, path: Path) -> None:
        receipt, message = entry.receipt, entry.message
        keys = self._history.signers(receipt.label, receipt.stream_seq)
        place = entry.receipt_frame.offset
        self._signatures.add(
            Claim(path, place, "RECEIPT", keys, receipt.hub_sig, receipt.signing_hash())
        )
        digest = message.signed_digest if isinstance(message, Spine) else message.signing_hash()
        self._signatures.add(
            Claim(path, entry.frame.offset, "MSG", (message.client_id,), message.sig, digest)
        )

    def _compare_tail(self, cursor: Cursor) -> None:
        if cursor.tail is not None:
            self._indexes.compare(
                cursor.state.label,
                cursor.tail,
                self.state.segment,
                is_anchored=cursor.is_anchored,
            )
            cursor.tail = None


def _order_flaws(entry: LoggedEntry, cursor: Cursor) -> Iterator[tuple[int, str]]:
    receipt, message, state = entry.receipt, entry.message, cursor.state
    if receipt.hub_ts < state.last_ts:
        yield entry.receipt_frame.offset, "hub_ts goes back within the label"
    last = state.clients.get(ClientId(message.client_id))
    if last is None and not cursor.is_whole:
        return  # the messages before this one may be among those lost
    last_seq, last_ack = last or (0, 0)
    if message.client_seq != last_seq + 1:
        yield entry.frame.offset, "client_seq is not the next one (I9)"
    if not last_ack <= message.prev_ack < receipt.stream_seq:
        yield entry.frame.offset, "prev_ack goes back or ahead (I8)"


def _position(entry: LoggedEntry, segment: int) -> bytes:
    return pack_position(
        segment,
        len(entry.frame.payload) | (PRUNED_BIT if entry.frame.kind == frames.SPINE else 0),
        entry.frame.offset,
        len(entry.receipt_frame.payload),
        entry.receipt_frame.offset,
        entry.receipt.hub_ts,
    )
