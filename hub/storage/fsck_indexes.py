"""Compares what is derived with the log it is derived from, for fsck [SSOT 3.4.1].

Indexes trail the log: one that is shorter is completed by the next start and is no flaw. One that
says something else, or goes on behind the end of the log, is.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from hub import authoring, mmr
from hub.errors import ErrorCode, VeenError
from hub.storage import heads, manifests
from hub.storage.frames import Damage
from hub.storage.fsck_notes import Notes
from hub.storage.labels import CHECKPOINT_BYTES, INDEX_BYTES, NODE_BYTES
from hub.storage.layout import Layout
from hub.storage.leaves import REFUSALS, prefix_of
from hub.storage.replay import LabelTail, LoggedEntry
from hub.storage.spine import Spine
from hub.storage.state import LabelState, LogState, read_snapshot
from hub.types import HubId, Label, ManifestId
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT

if TYPE_CHECKING:
    from hub.storage.fsck_log import Cursor


@dataclass(slots=True)
class Indexes:
    """What the derived files said before the log was read, so that a running hub fits too."""

    layout: Layout
    notes: Notes
    heads_path: Path
    snapshot: LogState | None = None
    counts: dict[Label, int] = field(default_factory=dict)  # entries in each index
    checkpoints: dict[Label, int] = field(default_factory=dict)  # records in each file of them
    latest: ManifestId | None = None
    is_latest_known: bool = True
    heads: heads.Heads = field(default_factory=dict)
    reader_secret: bytes | None = None
    opened_for: set[Label] = field(default_factory=set)  # labels that the hub's own key opens
    segment_inode: int = 0  # of the segment being walked
    _db: sqlite3.Connection | None = None
    _label_nos: dict[Label, int] = field(default_factory=dict)
    _flushed: int = 0  # entries that the leaf index covers
    _is_snapshot_met: bool = False

    def read_claims(self, hub_id: HubId) -> None:
        """Take what is claimed: snapshot before indexes before log, as the hub writes them."""
        self._read_snapshot()
        for label in self.layout.label_names():
            folder = self.layout.label(label)
            self.checkpoints[label] = _length(folder / "checkpoints") // CHECKPOINT_BYTES
        try:
            self.latest = manifests.latest_id(self.layout)
        except Damage as flaw:
            self.notes.refusal(self.layout.manifests, flaw)
            self.is_latest_known = False
        for label in self.layout.label_names():
            self.counts[label] = _length(self.layout.label(label) / "index") // INDEX_BYTES
        self._read_heads(hub_id)
        self._open_leaves()

    def _read_snapshot(self) -> None:
        if not self.layout.snapshot.exists():
            return
        self.snapshot = read_snapshot(self.layout.snapshot)
        if self.snapshot is None:
            self.notes.flaw(self.layout.snapshot, 0, "snapshot is not readable")
        elif self.snapshot.segment == 0:
            self._is_snapshot_met = True  # of a log that had not begun

    def _read_heads(self, hub_id: HubId) -> None:
        try:
            found = heads.read(self.heads_path)
        except Damage as flaw:
            self.notes.refusal(self.heads_path, flaw)
            return
        if found is None:
            return
        owner, self.heads, _ = found
        if owner != hub_id:
            self.notes.flaw(self.heads_path, len(heads.MAGIC), "heads of another log")

    def _open_leaves(self) -> None:
        path = self.layout.leaves
        if not path.exists():
            return
        try:
            self._db = _connect(path)
            check = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if check != "ok":
                self.notes.flaw(path, 0, f"leaf index: {check}")
            rows = self._db.execute("SELECT label, no FROM labels")
            self._label_nos = {Label(label): number for label, number in rows}
            row = self._db.execute("SELECT entries FROM progress").fetchone()
            self._flushed = row[0] if row and isinstance(row[0], int) else 0
        except REFUSALS as flaw:
            self.notes.flaw(path, 0, f"leaf index: {flaw}")
            self.close()

    def close(self) -> None:
        """Close the leaf index."""
        if self._db is not None:
            self._db.close()
        self._db, self._flushed = None, 0

    # -- while the log is walked

    def is_beyond(self, labels: Mapping[Label, LabelState]) -> bool:
        """Whether index or heads name entries that the walk has not met."""
        claimed = [*self.counts.items(), *((label, seq) for label, (seq, _) in self.heads.items())]
        return any(count > _size(labels, label) for label, count in claimed)

    def first_message(self, label: Label, message: Msg | Spine) -> None:
        """Note whether the hub's own reader key opens the label's first message."""
        if self.reader_secret is None or isinstance(message, Spine):
            return
        if message.profile_id == PRODUCT.id:
            with contextlib.suppress(VeenError):
                authoring.open_message(message, profile=PRODUCT, secret=self.reader_secret)
                self.opened_for.add(label)

    def peaks(self, label: Label, size: int) -> list[bytes]:
        """The peaks of a label as its node file has them."""
        path = self.layout.label(label) / "nodes"
        with path.open("rb") as file:

            def node(height: int, index: int) -> bytes:
                offset = mmr.node_position(height, index) * NODE_BYTES
                file.seek(offset)
                data = file.read(NODE_BYTES)
                if len(data) != NODE_BYTES:
                    raise Damage(str(path), offset, "node is missing")
                return data

            return mmr.peaks_at(size, node)

    def check_leaf(self, number: int, entry: LoggedEntry) -> None:
        """The leaf index knows the entry with this 0-based number in the log."""
        if self._db is None or number >= self._flushed:
            return
        label, seq = entry.receipt.label, entry.receipt.stream_seq
        self.notes.did("leaf index row")
        row = (prefix_of(entry.leaf), self._label_nos.get(label, -1), seq)
        try:
            found = self._db.execute(
                "SELECT 1 FROM leaves WHERE prefix = ? AND label_no = ? AND seq = ?", row
            ).fetchone()
        except REFUSALS as flaw:
            self.notes.flaw(self.layout.leaves, 0, f"leaf index: {flaw}")
            self.close()
            return
        if found is None:
            reason = f"leaf of {label.hex()[:16]} {seq} is not in the leaf index"
            self.notes.flaw(self.layout.leaves, 0, reason)

    def compare(self, label: Label, tail: LabelTail, segment: int, *, is_anchored: bool) -> None:
        """Index and nodes of a run of entries of one segment are what the log leads to."""
        folder = self.layout.label(label)
        positions = b"".join(tail.positions)
        start = tail.first_size * INDEX_BYTES
        flaw = _difference(folder / "index", start, positions, INDEX_BYTES)
        if flaw is not None and not self._is_replaced(segment):
            self.notes.flaw(folder / "index", flaw, "index points elsewhere than the log")
        self.notes.did("index record", len(tail.positions))
        if is_anchored and tail.nodes:
            start = mmr.node_count(tail.first_size) * NODE_BYTES
            flaw = _difference(folder / "nodes", start, b"".join(tail.nodes), NODE_BYTES)
            if flaw is not None:
                self.notes.flaw(folder / "nodes", flaw, "node is not the hash of its children")
            self.notes.did("node", len(tail.nodes))

    def _is_replaced(self, segment: int) -> bool:
        """Whether retention writes the segment anew while it is looked at."""
        if self.layout.prune_intent.exists():
            return True
        return self.layout.segment(segment).stat().st_ino != self.segment_inode

    def at(self, state: LogState, labels: Mapping[Label, Cursor]) -> None:
        """The walk stands at a place where a snapshot can be true."""
        snapshot = self.snapshot
        if snapshot is None or (snapshot.segment, snapshot.offset) != (state.segment, state.offset):
            return
        self._is_snapshot_met = True
        for reason in _snapshot_flaws(snapshot, state, labels):
            self.notes.flaw(self.layout.snapshot, 0, reason)
        self.notes.did("snapshot label", len(snapshot.labels))

    # -- when the log has been walked

    def finish(self, labels: Mapping[Label, LabelState], *, is_whole: bool) -> None:
        """Nothing may promise more than the log holds."""
        if self.snapshot is not None and is_whole and not self._is_snapshot_met:
            self.notes.flaw(self.layout.snapshot, 0, "snapshot is of no place in the log")
        for label, count in self.counts.items():
            size = _size(labels, label)
            if count > size and is_whole:
                path = self.layout.label(label) / "index"
                self.notes.flaw(path, size * INDEX_BYTES, "index goes on behind the log")
        for label, known in self.snapshot.labels.items() if self.snapshot is not None else ():
            folder = self.layout.label(label)
            for path, promised in (
                (folder / "index", known.size * INDEX_BYTES),
                (folder / "nodes", mmr.node_count(known.size) * NODE_BYTES),
            ):
                length = _length(path)
                if length < promised:
                    self.notes.flaw(path, length, "shorter than the snapshot says")
        self._check_heads(labels)
        self.close()

    def _check_heads(self, labels: Mapping[Label, LabelState]) -> None:
        for label, (seq, root) in self.heads.items():
            self.notes.did("head")
            state = labels.get(label)
            if state is None or state.size < seq:
                reason = f"label {label.hex()[:16]}: {seq} entries were signed, the log has "
                reason += str(_size(labels, label))
                self.notes.flaw(self.heads_path, 0, reason, ErrorCode.BEHIND)
            elif self.root_at(state, seq) not in (root, None):
                reason = f"label {label.hex()[:16]} has another history at {seq}"
                self.notes.flaw(self.heads_path, 0, reason, ErrorCode.BEHIND)

    def root_at(self, state: LabelState, size: int) -> bytes | None:
        """The root of a label's first `size` entries; None where no node file says."""
        if size == state.size and state.peaks:
            return mmr.root(state.peaks)
        try:
            return mmr.root(self.peaks(state.label, size))
        except (OSError, Damage):
            return None


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _size(labels: Mapping[Label, LabelState], label: Label) -> int:
    known = labels.get(label)
    return known.size if known else 0


def _snapshot_flaws(
    snapshot: LogState, state: LogState, labels: Mapping[Label, Cursor]
) -> Iterator[str]:
    if snapshot.entries != state.entries:
        yield f"snapshot counts {snapshot.entries} entries, the log {state.entries}"
    if snapshot.labels.keys() != labels.keys():
        yield "snapshot knows other labels than the log"
    for label, kept in snapshot.labels.items():
        cursor = labels.get(label)
        if cursor is None or not cursor.is_whole:
            continue
        now = cursor.state
        if (kept.size, kept.last_ts, kept.clients) != (now.size, now.last_ts, now.clients):
            yield f"snapshot of label {label.hex()[:16]} is not what the log leads to"
        elif cursor.is_anchored and kept.peaks != now.peaks:
            yield f"snapshot of label {label.hex()[:16]} has other peaks"


def _difference(path: Path, start: int, expected: bytes, record_bytes: int) -> int | None:
    """Offset of the first record that is not the expected one; a shorter file is none."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            found = file.read(len(expected))
    except FileNotFoundError:
        return None
    whole = len(found) - len(found) % record_bytes
    if found[:whole] == expected[:whole]:
        return None
    return start + next(
        at
        for at in range(0, whole, record_bytes)
        if found[at : at + record_bytes] != expected[at : at + record_bytes]
    )


def _connect(path: Path) -> sqlite3.Connection:
    """Open without writing: with a journal beside it as a reader, else as a file that is still."""
    journal = path.with_name(path.name + "-wal")
    mode = "mode=ro" if journal.exists() else "immutable=1"
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)
