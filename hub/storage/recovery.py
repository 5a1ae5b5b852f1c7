"""Opening a data directory: snapshot, then the tail of the log, never the history [SSOT 3.4.1]."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hub.storage import segments
from hub.storage.frames import Damage
from hub.storage.leaves import remove
from hub.storage.replay import (
    LoggedBatch,
    LoggedEntry,
    Replayer,
    batches,
    has_later_batch,
    is_signed,
)
from hub.storage.state import LogState, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hub.storage.disk import Disk
    from hub.storage.labels import LabelFiles
    from hub.storage.layout import Layout
    from hub.storage.leaves import LeafIndex
    from hub.storage.replay import Ledger
    from hub.types import Label, PublicKey


@dataclass(slots=True)
class Recovered:
    """The cursors at the end of the log, and damage that forbids to write on."""

    state: LogState
    damage: Damage | None


def make_directories(layout: Layout, disk: Disk) -> None:
    """The directories that anything durable goes into, with their own names durable."""
    folders = (layout.root, layout.log, layout.labels, layout.manifests, layout.attachments)
    if all(folder.is_dir() for folder in folders):
        return
    for folder in folders:
        disk.mkdir(folder)
    disk.sync_dir(layout.root)
    disk.sync_dir(layout.root.parent)


def wipe_indexes(layout: Layout, disk: Disk) -> None:
    """Forget all that is derived. The snapshot goes first: without it a start replays the log."""
    disk.unlink(layout.snapshot)
    disk.unlink(layout.prune_intent)  # the replay finds each entry where it stands now
    disk.sync_dir(layout.root)
    for label in layout.label_names():
        _empty(layout.label(label))
    remove(layout.leaves)


def start_state(layout: Layout, files: LabelFiles, leaves: LeafIndex) -> LogState:
    """The newest snapshot that the files still bear out, else the empty log.

    A snapshot is only a shortcut: when anything about it does not fit, the log is replayed.
    """
    state = read_snapshot(layout.snapshot)
    if state is None or state.entries > leaves.entries:
        return LogState()
    path = layout.segment(state.segment)
    if state.segment and (not path.exists() or path.stat().st_size < state.offset):
        return LogState()
    for label in state.labels.values():
        try:
            if not files.holds(label.label, label.size):
                return LogState()
        except OSError:
            return LogState()
    return state


class Recovery:
    """Replays what the snapshot does not cover and leaves the indexes equal to the log."""

    def __init__(
        self,
        layout: Layout,
        disk: Disk,
        files: LabelFiles,
        leaves: LeafIndex,
        keys: Collection[PublicKey],
    ) -> None:
        self._layout = layout
        self._disk = disk
        self._files = files
        self._leaves = leaves
        self._keys = keys
        self._last: dict[Label, tuple[int, LoggedEntry]] = {}

    def run(
        self,
        state: LogState,
        ledger: Ledger | None,
        progress: Callable[[int], None] | None = None,
    ) -> Recovered:
        """Replay from `state` to the end of the log, or to the first damage."""
        replayer = Replayer(state, ledger)
        indexed = self._leaves.entries
        if state.entries == 0:
            self._leaves.reset()
        numbers, damage = self._numbers(state)
        for number in numbers:
            flaw = self._segment(replayer, number)
            self._store_tails(replayer)
            if progress is not None:
                progress(replayer.state.entries)
            if flaw is not None:
                damage = flaw
                break
        damage = damage or self._check_signatures()
        if damage is None:
            self._cut_indexes(state)
            if indexed > state.entries:
                self._leaves.cut({label.label: label.size for label in state.labels.values()})
        return Recovered(state, damage)

    def _numbers(self, state: LogState) -> tuple[list[int], Damage | None]:
        """The segments to replay, up to the first that is missing."""
        on_disk = self._layout.segment_numbers()
        present = [number for at, number in enumerate(on_disk, start=1) if number == at]
        damage = None
        if len(present) < len(on_disk):
            path = self._layout.segment(len(present) + 1)
            damage = Damage(str(path), 0, "segment is missing")
        return [number for number in present if number >= state.segment], damage

    def _segment(self, replayer: Replayer, number: int) -> Damage | None:
        """Replay one segment; the damage that ends it, if any."""
        path = self._layout.segment(number)
        data = path.read_bytes()
        where = str(path)
        is_last = number == self._layout.segment_numbers()[-1]
        state = replayer.state
        try:
            entries, offset = segments.read_header(data, number, where)
            if state.segment == number:
                offset = state.offset
            elif entries != state.entries:
                raise Damage(where, 0, "entries are missing before this segment")  # noqa: TRY301
        except Damage as flaw:
            begun = LogState(number, 0, state.entries, state.labels)
            if (
                not is_last
                or state.segment == number
                or has_later_batch(data, begun, 0, self._keys, where)
            ):
                return flaw
            self._disk.unlink(path)  # made by a roll that never finished
            return None
        state.segment, state.offset = number, offset
        found = batches(data, offset, where)
        while True:
            try:
                batch = next(found, None)
            except Damage as flaw:
                return None if is_last and self._is_torn(data, state, where) else flaw
            if batch is None:
                return None
            try:
                self._take(replayer, batch, number, where)
            except Damage as flaw:  # whole, and yet it contradicts the log before it
                return flaw

    def _take(self, replayer: Replayer, batch: LoggedBatch, number: int, where: str) -> None:
        replayer.apply(batch, number, where)
        for entry in batch.entries:
            self._last[entry.receipt.label] = (number, entry)
            self._leaves.add(entry.leaf, entry.receipt.label, entry.receipt.stream_seq)

    def _is_torn(self, data: bytes, state: LogState, where: str) -> bool:
        """Whether a flaw at the end is a batch that was never synced.

        Then its receipts never left, and the writer cuts it before the next batch. Both signs
        against it are made only after the sync.
        """
        return not (
            has_later_batch(data, state, state.entries + 1, self._keys, where)
            or self._is_indexed(state)
        )

    def _is_indexed(self, state: LogState) -> bool:
        for label in self._layout.label_names():
            known = state.labels.get(label)
            size = known.size if known else 0
            with contextlib.suppress(OSError, Damage):
                if self._files.count(label) > size:
                    position = self._files.position(label, size + 1)
                    place = (position.segment, position.msg_offset)
                    if place >= (state.segment, state.offset):
                        return True
        return False

    def _store_tails(self, replayer: Replayer) -> None:
        for label, tail in replayer.tails.items():
            self._files.append(label, tail.first_size, tail.nodes, tail.positions)
        replayer.tails.clear()
        self._leaves.flush(replayer.state.entries)

    def _check_signatures(self) -> Damage | None:
        """The newest RECEIPT of each replayed label: its root covers all before it."""
        for number, entry in self._last.values():
            if not is_signed(entry.receipt, self._keys):
                where = str(self._layout.segment(number))
                offset = entry.receipt_frame.offset
                return Damage(where, offset, "receipt is signed by no known key")
        return None

    def _cut_indexes(self, state: LogState) -> None:
        """Nothing may stand behind the last committed entry of a label."""
        for label in state.labels.values():
            self._files.truncate(label.label, label.size)
            self._files.cut_checkpoints(label.label, label.size)
        for unknown in set(self._layout.label_names()) - set(state.labels):
            self._files.forget(unknown)
            _empty(self._layout.label(unknown))


def _empty(folder: Path) -> None:
    """A label that the log does not know: left by a longer log that was cut back."""
    for name in ("index", "nodes", "checkpoints"):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody else's file in it keeps it
        folder.rmdir()
