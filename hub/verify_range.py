"""Offline verification of a range of one label on all cores: signatures, leaves, roots [SSOT 7].

Each entry: (1) RECEIPT and MSG are well formed and of this place (2) ct_hash and leaf follow from
the MSG bytes (3) MSG.sig is its client_id's (4) the RECEIPT is signed by a trusted key (5) the MMR
over all leaves so far has the root that the RECEIPT names. Parts start from peaks that the log
claims and are chained to each other, so the root of the last RECEIPT proves the claims.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from hub import mmr
from hub.errors import ErrorCode, ProofError, VeenError
from hub.storage.reader import LogReader
from hub.types import Label, MmrRoot, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt

BLOCK_ENTRIES: Final = 1_000
PART_ENTRIES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A range of one label in a data directory, for one process."""

    data_dir: Path
    label: Label
    first: int
    last: int
    hub_keys: tuple[PublicKey, ...]  # the likeliest first


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRoots:
    """The roots a verified part goes from and to; None for the empty log."""

    start: bytes | None
    end: bytes


def check_entries(
    entries: Sequence[tuple[bytes, bytes]],
    *,
    label: Label,
    first: int,
    hub_keys: Sequence[PublicKey],
    peaks: list[bytes],
) -> None:
    """Verify (RECEIPT, MSG) pairs from `first` on; `peaks` of what is before them move along."""
    for seq, (receipt_bytes, msg_bytes) in enumerate(entries, first):
        try:
            receipt, msg = Receipt.decode(receipt_bytes), Msg.decode(msg_bytes)
            msg.check_ct_hash()
            msg.verify()
        except VeenError as flaw:
            raise ProofError(f"the entry at {seq}: {flaw.detail}", flaw.code) from flaw
        leaf = msg.leaf_hash()
        if receipt.stream_seq != seq or receipt.label != label or msg.label != label:
            raise ProofError(f"the entry at {seq} is of another place")
        if receipt.leaf_hash != leaf:
            raise ProofError(f"the RECEIPT at {seq} is of another MSG")
        _check_signer(receipt, hub_keys)
        mmr.append(peaks, seq - 1, leaf)
        if mmr.root(peaks) != receipt.mmr_root:
            raise ProofError(f"mmr_root of {seq} does not follow from the messages")


def _check_signer(receipt: Receipt, hub_keys: Sequence[PublicKey]) -> None:
    for key in hub_keys:
        try:
            receipt.verify(key)
        except VeenError:
            continue
        return
    detail = f"the RECEIPT at {receipt.stream_seq} is signed by no trusted key"
    raise ProofError(detail, ErrorCode.TRUST)


def verify_part(part: Part) -> PartRoots:
    """Verify one part from the peaks that the log claims before it."""
    reader = LogReader(part.data_dir)
    try:
        size = part.first - 1
        peaks = list(mmr.peaks_at(size, lambda *node: reader.node(part.label, *node)))
        start = mmr.root(peaks) if peaks else None
        for first in range(part.first, part.last + 1, BLOCK_ENTRIES):
            last = min(first + BLOCK_ENTRIES - 1, part.last)
            check_entries(
                reader.block(part.label, first, last),
                label=part.label,
                first=first,
                hub_keys=part.hub_keys,
                peaks=peaks,
            )
        return PartRoots(start=start, end=mmr.root(peaks))
    finally:
        reader.close()


def cut(first: int, last: int, processes: int) -> list[int]:
    """Where equal parts begin, and the end of the last.

    As many for each process: with one part too many the others would wait for it at the end.
    """
    count = last - first + 1
    parts = -(-count // (PART_ENTRIES_MAX * processes)) * processes
    return [first + count * number // parts for number in range(parts + 1)]


def verify_range(
    data_dir: Path,
    label: Label,
    first: int,
    last: int,
    hub_keys: Sequence[PublicKey],
    *,
    processes: int | None = None,
) -> MmrRoot:
    """Verify an inclusive range and return the root at its end, or raise at the first flaw."""
    processes = processes or os.cpu_count() or 1
    work = [
        Part(data_dir=data_dir, label=label, first=start, last=end - 1, hub_keys=tuple(hub_keys))
        for start, end in pairwise(cut(first, last, processes))
        if start < end
    ]
    if processes == 1:
        found = [verify_part(part) for part in work]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            found = list(pool.map(verify_part, work))
    for part, before, after in zip(work[1:], found, found[1:], strict=False):
        if after.start != before.end:
            raise ProofError(f"the log does not go on at {part.first}")
    return MmrRoot(found[-1].end)
