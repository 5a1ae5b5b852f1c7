"""What this client last verified of each label, so that no hub can rewrite it [RESYNC0.4]."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hub import mmr
from hub.errors import ErrorCode, ProofError, StoreError, VeenError
from hub.storage.disk import FILE_MODE, Disk
from hub.types import Label, StreamSeq
from hub.wire import cbor
from hub.wire.receipt import Receipt

_VERSION: Final = 1
# A hub refuses to run ahead of its own boot clock; this bound only catches a nonsensical time.
HUB_TS_AHEAD_MAX_S: Final = 86_400


class EquivocationError(ProofError):
    """Two signed statements of one hub that cannot both be true, carried along as evidence."""

    def __init__(self, detail: str, ours: bytes, theirs: bytes) -> None:
        super().__init__(detail, ErrorCode.EQUIVOCATION)
        self.ours = ours
        self.theirs = theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelHead:
    """The highest RECEIPT whose signature was verified, and the prefix that was read whole.

    They differ: a head or a receipt of an own message says where the log stands, but only a prefix
    that was folded leaf by leaf, or proven, says what the log is. Both bind the hub for ever.
    """

    receipt: Receipt
    prefix: Receipt | None = None  # the RECEIPT at the end of the verified prefix
    peaks: tuple[bytes, ...] = ()  # of the prefix, highest first

    @classmethod
    def of_prefix(cls, receipt: Receipt, peaks: Sequence[bytes]) -> LabelHead:
        """A prefix that ends with this RECEIPT, and nothing known beyond it."""
        return cls(receipt=receipt, prefix=receipt, peaks=tuple(peaks))

    @property
    def last_stream_seq(self) -> StreamSeq:
        """The highest sequence whose RECEIPT was verified."""
        return self.receipt.stream_seq

    @property
    def size(self) -> int:
        """Messages in the verified prefix."""
        return 0 if self.prefix is None else self.prefix.stream_seq

    @property
    def statements(self) -> tuple[Receipt, ...]:
        """What the hub has signed and must stand by."""
        if self.prefix is None or self.prefix == self.receipt:
            return (self.receipt,)
        return (self.prefix, self.receipt)

    def has_peaks(self) -> bool:
        """Whether the peaks reproduce the signed root of the prefix."""
        return (
            self.prefix is not None
            and len(self.peaks) == self.size.bit_count()
            and mmr.root(list(self.peaks)) == self.prefix.mmr_root
        )

    def is_whole(self) -> bool:
        """Whether the prefix reaches up to the highest RECEIPT."""
        return self.size == self.receipt.stream_seq and self.has_peaks()

    def merged(self, other: LabelHead) -> LabelHead:
        """The furthest of both; where they tie this one stands."""
        receipt = max(self.receipt, other.receipt, key=lambda one: one.stream_seq)
        is_further = other.size > self.size or (other.size == self.size and not self.has_peaks())
        longer = other if is_further else self
        return LabelHead(receipt=receipt, prefix=longer.prefix, peaks=longer.peaks)

    def encode(self) -> bytes:
        """The state file's bytes."""
        return cbor.encode(
            {
                "ver": _VERSION,
                "receipt": self.receipt.encode(),
                "prefix": b"" if self.prefix is None else self.prefix.encode(),
                "peaks": list(self.peaks),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> LabelHead:
        """Parse a state file."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=4, maximum=4)
        reader.name("ver").uint(exactly=_VERSION)
        receipt = Receipt.decode(reader.name("receipt").bstr())
        prefix = reader.name("prefix").bstr()
        count = reader.name("peaks").array_length(maximum=64)
        peaks = tuple(reader.bstr(32) for _ in range(count))
        reader.end()
        return cls(receipt=receipt, prefix=Receipt.decode(prefix) if prefix else None, peaks=peaks)


def check_successor(known: LabelHead | None, receipt: Receipt, *, now: float | None = None) -> None:
    """Raise unless this RECEIPT can stand in one log with what is already known of its label."""
    limit = (time.time() if now is None else now) + HUB_TS_AHEAD_MAX_S
    if receipt.hub_ts > limit:
        raise ProofError(f"hub_ts {receipt.hub_ts} lies more than a day ahead of this clock")
    if known is None:
        return
    for ours in known.statements:
        _check_pair(ours, receipt)
    if receipt.stream_seq == known.size + 1 and known.has_peaks():
        peaks = list(known.peaks)
        mmr.append(peaks, known.size, receipt.leaf_hash)
        if mmr.root(peaks) != receipt.mmr_root:
            assert known.prefix is not None
            detail = f"the root at {receipt.stream_seq} does not extend the one at {known.size}"
            _equivocation(detail, known.prefix, receipt)


def _check_pair(ours: Receipt, theirs: Receipt) -> None:
    if ours.stream_seq == theirs.stream_seq:
        same = ours.leaf_hash == theirs.leaf_hash and ours.mmr_root == theirs.mmr_root
        if not same:
            _equivocation(f"two receipts for sequence {ours.stream_seq}", ours, theirs)
    earlier, later = sorted((ours, theirs), key=lambda one: one.stream_seq)
    if later.hub_ts < earlier.hub_ts:
        _equivocation("hub_ts goes backwards within a label", ours, theirs)


def _equivocation(detail: str, ours: Receipt, theirs: Receipt) -> None:
    raise EquivocationError(detail, ours.encode(), theirs.encode())


def advance(known: LabelHead | None, receipt: Receipt) -> LabelHead:
    """The head after a checked RECEIPT; the prefix moves along while no sequence is skipped."""
    if known is None:
        known = LabelHead(receipt=receipt)
    if receipt.stream_seq == known.size + 1 and (known.size == 0 or known.has_peaks()):
        peaks = list(known.peaks)
        mmr.append(peaks, known.size, receipt.leaf_hash)
        if mmr.root(peaks) == receipt.mmr_root:
            known = replace(known, prefix=receipt, peaks=tuple(peaks))
    if receipt.stream_seq > known.receipt.stream_seq:
        known = replace(known, receipt=receipt)
    return known


def _next_head(known: LabelHead, receipts: Sequence[Receipt]) -> LabelHead | None:
    """The head after the very next RECEIPTs of a whole one; None when any is to be judged first.

    `check_successor` and `advance` come to the same for each; this computes each root once.
    """
    label, size, hub_ts = known.receipt.label, known.size, known.receipt.hub_ts
    peaks, now = list(known.peaks), time.time()
    for receipt in receipts:
        if (
            receipt.stream_seq != size + 1
            or receipt.label != label
            or not hub_ts <= receipt.hub_ts <= now
        ):
            return None
        mmr.append(peaks, size, receipt.leaf_hash)
        if mmr.root(peaks) != receipt.mmr_root:
            return None
        size, hub_ts = size + 1, receipt.hub_ts
    return LabelHead.of_prefix(receipts[-1], peaks)


class HeadStore:
    """One small file per label, replaced whole; in memory only when no directory is given."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._disk = Disk()
        self._heads: dict[Label, LabelHead] = {}
        self._unsaved: set[Label] = set()
        self._whole: set[Label] = set()  # labels whose head is known to be whole
        if directory is not None:
            self._disk.mkdir(directory)

    def get(self, label: Label) -> LabelHead | None:
        """What is known of a label."""
        if label not in self._heads:
            found = self._load(label)
            if found is None:
                return None
            self._heads[label] = found
        return self._heads[label]

    def put(self, label: Label, head: LabelHead) -> None:
        """Remember a head; `save` makes it durable."""
        self._whole.discard(label)
        if self._heads.get(label) != head:
            self._heads[label] = head
            self._unsaved.add(label)

    def observe(self, receipt: Receipt) -> None:
        """Check a RECEIPT against what is known, then remember it."""
        if self.observe_row([receipt]):
            return
        label = receipt.label
        known = self.get(label)
        check_successor(known, receipt)
        head = advance(known, receipt)
        self.put(label, head)
        if head.is_whole():
            self._whole.add(label)
        else:
            self._whole.discard(label)

    def observe_row(self, receipts: Sequence[Receipt]) -> bool:
        """`observe` for RECEIPTs that follow each other and what is known of their label.

        False, and nothing remembered, when any of them is to be judged by itself.
        """
        label = receipts[0].label
        known = self.get(label)
        head = None
        if known is not None and label in self._whole:
            head = _next_head(known, receipts)
        if head is None:
            return False
        self._heads[label] = head
        self._unsaved.add(label)
        return True

    def save(self) -> None:
        """Write what changed. What another process has moved further stays."""
        if self._directory is not None and self._unsaved:
            with _held(self._directory / "lock"):
                for label in sorted(self._unsaved):
                    self._save(label, self._heads[label])
        self._unsaved.clear()

    def _save(self, label: Label, head: LabelHead) -> None:
        stored = self._load(label)
        if stored is not None:
            head = self._heads[label] = stored.merged(head)
            self._whole.discard(label)
        if head != stored:
            self._write(label, head)

    def _path(self, label: Label) -> Path | None:
        return None if self._directory is None else self._directory / f"{label.hex()}.head"

    def _load(self, label: Label) -> LabelHead | None:
        path = self._path(label)
        if path is None or not path.exists():
            return None
        try:
            head = LabelHead.decode(path.read_bytes())
        except VeenError as flaw:
            detail = f"{path} is damaged ({flaw.detail}); remove it to trust the hub's head anew"
            raise StoreError(detail, ErrorCode.DAMAGE) from flaw
        if head.receipt.label != label:
            raise StoreError(f"{path} speaks of another label", ErrorCode.DAMAGE)
        return head

    def _write(self, label: Label, head: LabelHead) -> None:
        path = self._path(label)
        assert path is not None
        self._disk.write_atomic(path, head.encode())


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Wait for the other processes of this host that share the directory."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def keep_evidence(directory: Path | None, label: Label, found: EquivocationError) -> Path | None:
    """Store both statements where a report can pick them up; never overwrites older evidence."""
    if directory is None:
        return None
    disk = Disk()
    names: Mapping[str, bytes] = {
        "ours.receipt": found.ours,
        "theirs.receipt": found.theirs,
        "reason.txt": found.detail.encode() + b"\n",
    }
    folder = directory / f"{label.hex()[:16]}-{found.theirs.hex()[-16:]}"
    disk.mkdir(folder)
    for name, data in names.items():
        if not (folder / name).exists():
            disk.write_atomic(folder / name, data)
    return folder
