"""One hub without its sockets: a directory, its keys, its rules, its one door [SSOT 8]."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hub.admission import records
from hub.admission.records import ControlRecord
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.server import guard
from hub.server.checkpoints import Checkpointer
from hub.server.clock import Clock, boottime
from hub.server.config import HubConfig
from hub.server.gate import CLOCK_ACCEPT, EQUIVOCATION, Gate
from hub.server.identity import Identity, load_identity
from hub.server.line import CommitLine, Outcome, Submission
from hub.server.strays import Strays
from hub.storage.disk import DirectoryLock, Disk
from hub.storage.framedfile import FramedFile
from hub.storage.frames import Damage
from hub.storage.labels import LabelFiles
from hub.storage.layout import Layout
from hub.storage.reader import LogReader
from hub.storage.state import LogState
from hub.storage.store import Store, open_store
from hub.types import HubId, Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire import cbor
from hub.wire.receipt import Receipt
from hub.wire.rotation import ForkRecord, RotationRecord

__all__ = ["HubCore", "Outcome", "Submission", "open_hub"]
PROBE_S: Final = 5.0  # between two looks at a disk to which nothing is written


class HubCore:
    """Everything the writer process owns. Not thread-safe: one caller, one writer."""

    def __init__(
        self,
        *,
        config: HubConfig,
        lock: DirectoryLock,
        identity: Identity,
        store: Store,
        gate: Gate,
        reader: LogReader,
    ) -> None:
        self.config = config
        self.identity = identity
        self.store = store
        self.gate = gate
        self.reader = reader
        self.checkpoints = Checkpointer(store, gate.is_housekeeping)
        self.findings = FramedFile(store.layout.findings, store.disk)
        self.strays = Strays()
        self.read_only: StoreError | None = None  # why the guard or damage forbids writing
        self.line = CommitLine(store, gate, self._check_writable)
        self.line.on_stray = lambda entry: self.strays.note(
            entry.client_id, entry.label, entry.hub_ts
        )
        self._lock = lock
        self._probed = 0.0, -1  # when, and how many syncs the disk had seen
        self._started_at = int(time.time())

    # -- the door

    def submit(self, items: list[Submission]) -> list[Outcome]:
        """Admit and commit up to one batch, and wait; every item is answered on its own."""
        return self.line.submit(items)

    @property
    def disk_flaw(self) -> str | None:
        """Why the last batch was not written."""
        return self.line.disk_flaw

    def probe_disk(self, now: float) -> None:
        """See whether the disk takes bytes, without waiting for a message.

        One that refused is asked each time, one to which nothing was written now and then.
        """
        disk, path = self.store.disk, self.store.layout.root / "probe"
        if self.disk_flaw is not None:
            disk.write_atomic(path, bytes(4096))
            disk.unlink(path)
            self.line.disk_flaw = None
        elif disk.syncs != self._probed[1]:
            self._probed = now, disk.syncs
        elif now - self._probed[0] >= PROBE_S:
            self._probed = now, disk.syncs
            try:
                fd = disk.open(path, os.O_WRONLY | os.O_CREAT)
                try:
                    disk.pwrite(fd, bytes(4096), 0)
                finally:
                    disk.close(fd)
                disk.unlink(path)
            except OSError as failure:
                self.line.disk_flaw = f"disk refuses: {failure.strerror or failure}"
                raise

    def _check_writable(self) -> None:
        if self.read_only is not None:
            code = self.read_only.code
            raise StoreError(f"{code}: {self.read_only.detail}")
        self.store.check_writable()

    def authorize(self, token: bytes) -> dict[str, cbor.Value]:
        """Admit a capability as a logged act [SSOT 6]."""
        self.line.drain()
        assert self.gate.clock is not None
        admission = self.store.begin().label(self.gate.admission_label)
        hub_ts = self.gate.clock.hub_ts(admission.last_ts)
        judged = self.gate.state.authorize(token, hub_ts)
        expires_at = judged.expires_at
        if judged.is_new:
            receipt = self.record(records.ADMISSION, judged.record.encode())
            expires_at = self.gate.state.authorize(token, receipt.hub_ts).expires_at
        return {"auth_ref": judged.record.auth_ref, "expires_at": expires_at}

    def record(self, schema: bytes, body: bytes) -> Receipt:
        """Append a record of the hub itself and fold it; it is durable when this returns."""
        self.line.drain()
        self._check_writable()
        self.gate.check_record(schema, body)
        batch = self.store.begin()
        self.gate.record(batch, schema, body)
        receipts = self.store.commit(batch, self.identity.key)
        receipt = Receipt.decode(receipts[0])
        self.gate.apply(schema, body, receipt.hub_ts)
        return receipt

    def record_act(self, verb: str, detail: dict[str, cbor.Value]) -> Receipt:
        """Log a changing act of the control socket."""
        act = ControlRecord(verb=verb, detail=detail, ts=UnixSeconds(self.now()))
        return self.record(records.CONTROL, act.encode())

    def accept_clock(self) -> int:
        """The operator accepts the wall clock; in force when it is recorded, also after a start."""
        assert self.gate.clock is not None
        self.line.drain()
        until = max((state.last_ts for state in self.store.state.labels.values()), default=0)
        undo = self.gate.clock.accept()
        try:
            now = self.now()
            self.record_act(CLOCK_ACCEPT, {"now": now, "until": until})
        except BaseException:
            undo()
            raise
        return now

    def now(self) -> int:
        """Trusted seconds, or E.TIME."""
        assert self.gate.clock is not None
        return self.gate.clock.now()

    # -- reads that only the writer can answer

    def find_leaf(self, leaf: LeafHash) -> bytes:
        """The RECEIPT of a committed leaf, however long ago."""
        for label, seq in _places(self.store, leaf):
            receipt = self.reader.receipt(label, seq)
            if Receipt.decode(receipt).leaf_hash == leaf:
                return receipt
        raise VeenError(ErrorCode.NOTFOUND, "no receipt for this leaf_hash")

    # -- checkpoints and keys

    def checkpoint(self) -> bytes:
        """A manifest of everything, now."""
        self.line.drain()
        self._check_writable()
        return self.checkpoints.make(self.identity.key, self.now()).encode()

    def rotate(self) -> RotationRecord:
        """Hand the log to a new key: last manifest of the old, record by both, first of the new."""
        self.line.drain()
        self._check_writable()
        old, now = self.identity.key, self.now()
        self.record_act("rotate", {"old_pk": old.public})
        fresh = self.identity.stage_next_key()
        last = self.checkpoints.make(old, now, witnesses=(old, fresh))
        record = RotationRecord.sign(
            old, fresh, hub_id=self.identity.hub_id, ts=UnixSeconds(now), manifest_id=last.id
        )
        self._adopt(record, fresh)
        with contextlib.suppress(VeenError, OSError):  # the record stands; the next one covers it
            self.checkpoints.make(fresh, now, witnesses=(old, fresh))
        return record

    def _adopt(self, record: RotationRecord | ForkRecord, fresh: SigningKey) -> None:
        """Change the key; when that stops half way no key may sign until a start has looked."""
        try:
            self.identity.adopt(record, fresh)
        except BaseException as failure:
            self.store.segments.failed = "the key change stopped half way; restart the hub"
            if isinstance(failure, OSError):
                raise StoreError(f"disk refuses: {failure.strerror or failure}") from failure
            raise

    def fork(self) -> ForkRecord:
        """Begin a log of our own at the parent's heads, with a new key."""
        assert self.gate.clock is not None
        heads = [
            (label, StreamSeq(seq), MmrRoot(root))
            for label, (seq, root) in guard.store_heads(self.store).items()
        ]
        fresh = self.identity.stage_next_key()
        record = ForkRecord.sign(
            fresh,
            parent_hub_id=self.identity.hub_id,
            ts=UnixSeconds(self.gate.clock.wall()),
            heads=heads,
        )
        self._adopt(record, fresh)
        self.store.hub_id = record.hub_id
        return record

    def report_equivocation(self, pair: bytes) -> None:
        """Keep two RECEIPTs of this log that contradict each other, as evidence."""
        reader = cbor.Reader(pair).array(2)
        receipts = []
        for _ in range(2):
            start = reader.pos
            end = cbor.skip(pair, start)
            receipts.append(Receipt.decode(pair[start:end]))
            reader = cbor.Reader(pair, end)
        reader.end()
        first, second = receipts
        if (first.label, first.stream_seq) != (second.label, second.stream_seq):
            raise VeenError(ErrorCode.FORMAT, "receipts of different places do not contradict")
        if (first.leaf_hash, first.mmr_root) == (second.leaf_hash, second.mmr_root):
            raise VeenError(ErrorCode.FORMAT, "both receipts say the same")
        if len({self._log_of(receipt) for receipt in receipts}) > 1:
            raise VeenError(ErrorCode.FORMAT, "receipts of a log and its fork may differ")
        # The evidence first, for it counts also where nothing can be recorded; a retry makes up
        # for the record.
        if pair not in self.findings.records:
            self.findings.append(pair)
        finding = h(pair)
        if finding not in self.gate.reported:
            act: dict[str, cbor.Value] = {
                "label": first.label,
                "stream_seq": first.stream_seq,
                "finding": finding,
            }
            self.record_act(EQUIVOCATION, act)

    def _log_of(self, receipt: Receipt) -> HubId:
        """The log in whose name a RECEIPT was signed: this one's, or that of a parent."""
        for hub_id, key in self.identity.signers():
            try:
                receipt.verify(key)
            except VeenError:
                continue
            return hub_id
        raise VeenError(ErrorCode.SIG, "signed by no key of this hub")

    def write_runtime(self, url: str) -> None:
        """Say in the directory where this hub is reached and which key signs now."""
        said = {
            "pid": os.getpid(),
            "url": url,
            "hub_pk": self.identity.key.public.hex(),
            "hub_id": self.identity.hub_id.hex(),
            "started_at": self._started_at,
        }
        self.store.disk.write_atomic(self.store.layout.runtime, json.dumps(said).encode())

    def close(self) -> None:
        """Leave everything durable and give the directory up."""
        try:
            self.line.drain()
            self.store.close()
        finally:
            self.reader.close()
            self._lock.release()


def _places(store: Store, leaf: LeafHash) -> list[tuple[Label, int]]:
    try:
        return store.leaves.find(leaf)
    except sqlite3.Error as failure:
        detail = f"{store.layout.leaves}: {failure}; run hub rebuild"
        raise StoreError(detail, ErrorCode.DAMAGE) from failure


def open_hub(
    config: HubConfig,
    disk: Disk | None = None,
    *,
    wall: Callable[[], float] = time.time,
    boot: Callable[[], float] = boottime,
    progress: Callable[[int], None] | None = None,
) -> HubCore:
    """Take the directory, recover it, and decide whether it may be written."""
    disk = disk or Disk()
    layout = Layout(config.data_dir)
    disk.mkdir(config.data_dir)
    with contextlib.ExitStack() as opened:  # a start that fails keeps neither lock nor file
        lock = DirectoryLock(layout.lock)
        opened.callback(lock.release)
        core = _open_locked(config, layout, disk, lock, wall, boot, progress, opened)
        opened.pop_all()
    return core


def _open_locked(  # noqa: PLR0917 - called once, above
    config: HubConfig,
    layout: Layout,
    disk: Disk,
    lock: DirectoryLock,
    wall: Callable[[], float],
    boot: Callable[[], float],
    progress: Callable[[int], None] | None,
    opened: contextlib.ExitStack,
) -> HubCore:
    identity = load_identity(layout, disk)
    reader = LogReader(config.data_dir, disk)
    opened.callback(reader.close)
    found: list[Store] = []

    def is_committed(leaf: LeafHash, label: Label) -> bool:
        if found[0].is_recent(leaf):
            return True
        return any(
            where == label and Receipt.decode(reader.receipt(where, seq)).leaf_hash == leaf
            for where, seq in _places(found[0], leaf)
        )

    gate = Gate.create(config, identity, is_committed)

    def ledger(state: LogState, _files: LabelFiles) -> Gate:
        gate.log = state
        admission = state.labels.get(gate.admission_label)
        gate.fold_stream(reader, admission.size if admission else 0)
        return gate

    store, damage = open_store(
        config.data_dir,
        disk,
        hub_id=identity.hub_id,
        ledger=ledger,
        keys=identity.known_keys(),
        progress=progress,
    )
    opened.callback(store.close_unchanged)
    found.append(store)
    store.segment_bytes = config.segment_bytes
    last_ts = max((state.last_ts for state in store.state.labels.values()), default=0)
    gate.clock = Clock(gate.trusted_ts(last_ts), wall, boot)
    core = HubCore(
        config=config, lock=lock, identity=identity, store=store, gate=gate, reader=reader
    )
    core.checkpoints.load()
    _guard(core, layout, damage)
    return core


def _guard(core: HubCore, layout: Layout, damage: Damage | None) -> None:
    config = core.config
    path: Path = config.heads_file or layout.default_heads()
    if damage is not None:
        core.read_only = damage
        return
    try:
        guard.check_heads(core.store, path, core.identity.hub_id)
    except StoreError as refusal:
        if config.fork:
            core.fork()
        elif not (config.take_over and refusal.code is ErrorCode.COPY):
            core.read_only = refusal
            return
    else:
        if config.fork and core.store.state.entries:
            core.fork()
    guard.attach(core.store, path, core.identity.hub_id)
    core.checkpoints.mend()
    if config.take_over:
        core.record_act("take-over", {})
