"""The one writer of a data directory: admitted entries in, durable receipts out [SSOT 8.1].

One batch: append the MSGs, read them back, recompute leaf and root from what the disk returned,
sign, append the RECEIPTs, one fdatasync, then index, heads and answers. Until the fdatasync has
returned nothing of the batch is visible to anyone.

While a batch syncs, MSGs of the next may be appended and signed behind it. Its RECEIPTs and its
COMMIT wait for the sync: a COMMIT on the disk says that every batch before it is durable, and a
start that finds one knows damage from a torn tail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from hub import mmr
from hub.crypto.hashing import LEAF, h, u64be
from hub.crypto.signing import SigningKey
from hub.errors import StoreError
from hub.storage import frames, manifests
from hub.storage.disk import Disk
from hub.storage.heads import HeadsFile
from hub.storage.labels import LabelFiles, pack_position
from hub.storage.layout import Layout
from hub.storage.leaves import FLUSH_AT, LeafIndex
from hub.storage.prune import finish_prune
from hub.storage.recovery import Recovery, make_directories, start_state, wipe_indexes
from hub.storage.replay import Ledger
from hub.storage.segments import SEGMENT_BYTES, SegmentWriter
from hub.storage.state import Entry, LabelState, LogState, Tentative, write_snapshot
from hub.types import HubId, Label, LeafHash, MmrRoot, PublicKey, StreamSeq, UnixSeconds
from hub.wire.msg import SIG_ITEM_BYTES
from hub.wire.receipt import Receipt


@dataclass(slots=True)
class Pending:
    """What a committed batch still owes the derived files."""

    label: Label
    first_size: int
    peaks: list[bytes]  # of the batch so far
    seq: int
    root: MmrRoot
    nodes: list[bytes] = field(default_factory=list)
    positions: list[bytes] = field(default_factory=list)


class Batch:
    """Entries that will become durable together, or not at all."""

    __slots__ = ("_store", "_touched", "msg_bytes", "offsets", "order", "owed", "receipts")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._touched: dict[Label, Tentative] = {}
        self.order: list[tuple[Tentative, Entry]] = []
        self.receipts: list[bytes] = []  # signed so far, in order
        self.offsets: list[int] = []  # of their MSG frames
        self.msg_bytes = 0  # of MSG frames, behind the end of the log
        self.owed: dict[Label, Pending] = {}

    def label(self, label: Label) -> Tentative:
        """The label as this batch leaves it so far."""
        found = self._touched.get(label)
        if found is None:
            base = self._store.state.labels.get(label) or LabelState(label)
            found = self._touched[label] = Tentative(base)
        return found

    def add(self, tentative: Tentative, entry: Entry) -> None:
        """Take one admitted entry."""
        tentative.add(entry)
        self.order.append((tentative, entry))


class Store:
    """Owns the log and its indexes. Construct with `open_store`."""

    def __init__(  # noqa: PLR0917 - the parts it is made of
        self,
        layout: Layout,
        disk: Disk,
        files: LabelFiles,
        leaves: LeafIndex,
        state: LogState,
        hub_id: HubId,
    ) -> None:
        self.hub_id = hub_id  # written into each new segment
        self.layout = layout
        self.disk = disk
        self.files = files
        self.leaves = leaves
        self.state = state
        self.segments = SegmentWriter(layout, disk, state.segment, state.offset)
        self.heads: HeadsFile | None = None  # attached once the guard against forks is satisfied
        self.segment_bytes = SEGMENT_BYTES
        self.fsync_s = 0.0  # of the last batch
        self._sealed: Batch | None = None  # written whole, perhaps not durable yet
        self._durable = state.entries
        self._pending: list[Pending] = []
        self._dirty: set[Label] = set()
        self._is_index_unknown = False

    def begin(self) -> Batch:
        """A new batch."""
        return Batch(self)

    def check_writable(self) -> None:
        """Raise E.STORE while the disk is not known to be sound."""
        if self.segments.failed:
            raise StoreError(self.segments.failed)
        if self._pending:
            self.settle()

    def commit(self, batch: Batch, key: SigningKey) -> list[bytes]:
        """Make the batch durable and return its RECEIPTs, in order of arrival."""
        self.extend(batch, key)
        self.seal(batch)
        self.sync()
        self.landed()
        self.settle()
        return batch.receipts

    def extend(self, batch: Batch, key: SigningKey) -> None:
        """Append the MSGs that are new in the batch and sign them as the disk returned them."""
        try:
            self.check_writable()
            if not batch.msg_bytes and self.is_roll_due:
                self.roll()
            self._write(batch, key)
        except OSError as failure:
            raise _refused(failure) from failure

    @property
    def is_roll_due(self) -> bool:
        """Whether the next batch opens a segment; it has to wait for a sync of this one."""
        return self.segments.number == 0 or self.segments.end >= self.segment_bytes

    def _write(self, batch: Batch, key: SigningKey) -> None:
        segment = self.segments
        start = end = segment.end + batch.msg_bytes
        fresh = batch.order[len(batch.offsets) :]
        blocks: list[bytes] = []
        for _, entry in fresh:
            block = frames.frame(frames.MSG, entry.msg)
            batch.offsets.append(end)
            end += len(block)
            blocks.append(block)
        joined = b"".join(blocks)
        written = segment.write(joined, batch.msg_bytes)
        if written != joined:
            segment.failed = "bytes read back differ from bytes written"
            raise StoreError(segment.failed)
        batch.msg_bytes += len(joined)
        self._sign(batch, key, written, start)

    @staticmethod
    def _sign(batch: Batch, key: SigningKey, written: bytes, start: int) -> None:
        """Leaf and root from the bytes that the disk returned, then the signature over them."""
        for number in range(len(batch.receipts), len(batch.order)):
            tentative, entry = batch.order[number]
            base = tentative.base
            leaf = _leaf_of(written, batch.offsets[number] - start, entry, base.label)
            owed = batch.owed.get(base.label)
            if owed is None:
                owed = batch.owed[base.label] = Pending(
                    base.label, base.size, list(base.peaks), base.size, MmrRoot(b"")
                )
            owed.nodes.extend(mmr.append(owed.peaks, owed.seq, leaf))
            owed.root = mmr.root(owed.peaks)
            owed.seq += 1
            batch.receipts.append(
                Receipt.encode_signed(
                    key, owed.label, StreamSeq(owed.seq), leaf, owed.root, UnixSeconds(entry.hub_ts)
                )
            )

    def seal(self, batch: Batch) -> None:
        """Write RECEIPTs and COMMIT behind the MSGs, and move the cursors.

        If the sync fails, nothing is admitted before a start has re-read the disk, so no cursor
        ever has to go back.
        """
        assert self._sealed is None, "the batch before this one is not settled"
        number = self.segments.number
        receipt_offset = self.segments.end + batch.msg_bytes
        blocks: list[bytes] = []
        for (tentative, entry), offset, receipt in zip(
            batch.order, batch.offsets, batch.receipts, strict=True
        ):
            block = frames.frame(frames.RECEIPT, receipt)
            batch.owed[tentative.base.label].positions.append(
                pack_position(
                    number, len(entry.msg), offset, len(receipt), receipt_offset, entry.hub_ts
                )
            )
            receipt_offset += len(block)
            blocks.append(block)
        blocks.append(frames.commit(len(blocks), self.state.entries + len(blocks)))
        try:
            self.segments.finish(batch.msg_bytes, b"".join(blocks))
        except OSError as failure:
            raise _refused(failure) from failure
        self._install(batch)

    def _install(self, batch: Batch) -> None:
        """Move the cursors. No I/O here, so it cannot half happen."""
        state = self.state
        state.offset = self.segments.end
        state.segment = self.segments.number
        state.entries += len(batch.order)
        for owed in batch.owed.values():
            tentative = batch.label(owed.label)
            tentative.install(owed.peaks)
            state.labels[owed.label] = tentative.base
            self._dirty.add(owed.label)
        self._sealed = batch

    def sync(self) -> None:
        """Make the sealed batch durable. This alone may run beside `extend`, in a thread."""
        started = perf_counter()
        try:
            self.segments.sync()
        except OSError as failure:
            raise _refused(failure) from failure
        self.fsync_s = perf_counter() - started

    def landed(self) -> None:
        """The sealed batch is durable; `settle` is owed. No I/O here, so the next can be sealed."""
        batch, self._sealed = self._sealed, None
        assert batch is not None
        for owed in batch.owed.values():
            seq = owed.first_size
            for entry in batch.label(owed.label).entries:
                seq += 1
                self.leaves.add(entry.leaf, owed.label, seq)
        self._durable += len(batch.order)
        self._pending.extend(batch.owed.values())

    def settle(self) -> None:
        """Index and heads of what is durable."""
        try:
            self._settle()
        except OSError as failure:
            raise _refused(failure) from failure

    def is_recent(self, leaf: LeafHash) -> bool:
        """Whether a leaf is among the newest entries, those of a sealed batch included."""
        sealed = self._sealed
        if sealed is not None and any(entry.leaf == leaf for _, entry in sealed.order):
            return True
        return self.leaves.find_recent(leaf) is not None

    def _settle(self) -> None:
        """Index and heads of committed batches; what fails here is tried again before more."""
        if self.heads is not None and self._pending:
            self.heads.append((owed.label, owed.seq, owed.root) for owed in self._pending)
        while self._pending:
            owed = self._pending[0]
            self.files.append(owed.label, owed.first_size, owed.nodes, owed.positions)
            self._pending.pop(0)
        if self.leaves.pending() >= FLUSH_AT:
            self.leaves.begin_flush(self._durable)

    def roll(self) -> None:
        """Go on in a new segment; the closed one may be pruned."""
        assert self._sealed is None, "a sync of the old segment is under way"
        self.segments.open_next(self.hub_id, self.state.entries)
        self.state.segment = self.segments.number
        self.state.offset = self.segments.end
        if self.state.entries:
            self.snapshot()

    def snapshot(self) -> bool:
        """Make the indexes durable and note where the log stands, so that a start is short.

        False when that cannot be said, and the last snapshot stands.
        """
        if self.segments.failed or self._sealed or self._pending or self._is_index_unknown:
            return False
        self.leaves.flush(self.state.entries)
        self.leaves.sync()
        try:
            self.files.sync(self._dirty)
        except OSError:
            self._is_index_unknown = True  # the kernel may have dropped pages; a start replays them
            raise
        write_snapshot(self.layout.snapshot, self.state, self.disk)
        self._dirty.clear()
        self.files.settle_checkpoints()
        return True

    def close(self) -> None:
        """Leave the directory as a start likes it best."""
        try:
            self.snapshot()
        finally:
            self.close_unchanged()

    def close_unchanged(self) -> None:
        """Close every file and write nothing more but the heads."""
        with contextlib.ExitStack() as steps:  # each is tried, whatever happens to the others
            if self.heads is not None:
                steps.callback(self.heads.close)
            steps.callback(self.leaves.close)
            steps.callback(self.files.close)
            steps.callback(self.segments.close)


def _refused(failure: OSError) -> StoreError:
    return StoreError(f"disk refuses: {failure.strerror or failure}")


def _leaf_of(written: bytes, at: int, entry: Entry, label: Label) -> LeafHash:
    """The leaf from the stored bytes; it must be the one that was verified."""
    length = len(entry.msg)
    start = at + frames.HEAD_BYTES
    end = start + length - SIG_ITEM_BYTES
    ct_hash = h(written[end - entry.ciphertext_bytes : end])
    leaf = LEAF(label, entry.profile_id, ct_hash, entry.client_id, u64be(entry.client_seq))
    if leaf != entry.leaf:
        raise StoreError("stored bytes are not the message that was verified; nothing was signed")
    return LeafHash(leaf)


def open_store(
    root: Path,
    disk: Disk,
    *,
    hub_id: HubId,
    ledger: Callable[[LogState, LabelFiles], Ledger] | None,
    keys: Collection[PublicKey],
    progress: Callable[[int], None] | None = None,
) -> tuple[Store, frames.Damage | None]:
    """Open a directory and recover it. The caller holds its lock.

    With damage the store comes back all the same: its good part can be read, but not written.
    """
    layout = Layout(root)
    make_directories(layout, disk)
    is_rebuild = layout.rebuild_intent.exists()
    if is_rebuild:
        wipe_indexes(layout, disk)
    with contextlib.ExitStack() as opened:  # a start that fails keeps no file open
        files = LabelFiles(layout, disk, writable=True)
        opened.callback(files.close)
        leaves = LeafIndex(layout.leaves)
        opened.callback(leaves.close)
        state, made, flaw = LogState(), None, None
        try:
            finish_prune(layout, disk, files)
            state = start_state(layout, files, leaves)
            made = ledger(state, files) if ledger is not None else None
        except frames.Damage as found:
            flaw = found
        recovered = Recovery(layout, disk, files, leaves, keys).run(state, made, progress)
        store = Store(layout, disk, files, leaves, recovered.state, hub_id)
        opened.callback(store.segments.close)
        damage = flaw or recovered.damage
        if damage is not None:
            store.segments.failed = str(damage)
        else:
            _finish_indexes(store, is_rebuild=is_rebuild)
        opened.pop_all()
    return store, damage


def _finish_indexes(store: Store, *, is_rebuild: bool) -> None:
    """What a sound log still owes its derived files at a start."""
    manifests.restore_checkpoints(store.layout, store.files, store.state)
    if is_rebuild:
        store.leaves.sync()
        store.files.sync(store.state.labels)
        store.disk.unlink(store.layout.rebuild_intent)
