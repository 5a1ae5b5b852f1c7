"""Offline verification of a saved range of one label: each item, and none missing [SSOT 7]."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from hub import mmr
from hub.errors import ErrorCode, ProofError, VeenError
from hub.streamitem import StreamItem
from hub.verify import (
    Evidence,
    Statements,
    check_ended,
    check_position,
    check_same_leaf,
    check_same_proof,
    find_statements,
)
from hub.verify_report import Check, Pins, Report, Verdict
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt

ITEMS_MAX: Final = 10_000_000


def verify_items(items: Sequence[bytes], pins: Pins, *, manifest: bytes | None = None) -> Report:
    """A saved range of one label: each message alone, and that nothing between is missing.

    Proofs are checked against the manifest's checkpoint and against the last receipt of the range,
    which is what `veen stream --save` had them made for. Failures name the sequence.
    """
    report = Report("stream")
    ends = find_statements(report, Evidence(manifest=manifest), pins)
    if items:
        _trust_last(items[-1], pins, ends)
    walk = _Walk(report, pins, ends)
    for data in items:
        walk.take(data)
    walk.end()
    return report


def _trust_last(data: bytes, pins: Pins, ends: Statements) -> None:
    """The last receipt's root counts if an active key signed it; the walk lists it if not."""
    with contextlib.suppress(VeenError):
        receipt = StreamItem.decode(data).receipt
        if pins.signer(receipt) in pins.active:
            ends.add_receipt(receipt)


class _Walk:
    """Counts what holds and lists what fails, so that a million items give a short report."""

    NAMES: Final = (
        (Verdict.INTEGRITY, "messages are canonical, whole and signed"),
        (Verdict.INTEGRITY, "receipts are signed by a pinned key"),
        (Verdict.BINDING, "receipts are for the messages beside them (I2)"),
        (Verdict.POSITION, "leaves stand at their places under a signed root"),
        (Verdict.CONSISTENCY, "roots extend each other without contradiction (I3)"),
        (Verdict.COMPLETENESS, "sequences follow each other, nothing left out"),
    )
    FAILURES_MAX: Final = 20

    def __init__(self, report: Report, pins: Pins, ends: Statements) -> None:
        self._report = report
        self._pins = pins
        self._ends = ends
        self._counts = dict.fromkeys(self.NAMES, 0)
        self._failures = 0
        self._last: Receipt | None = None
        self._peaks: list[bytes] | None = None

    def take(self, data: bytes) -> None:
        """One [RECEIPT, MSG(, mmr_proof)]."""
        integrity, signed, binding, position, consistency, completeness = self.NAMES
        try:
            item = StreamItem.decode(data)
        except VeenError as refusal:
            self._fail(integrity, f"an item is malformed: {refusal}")
            return
        seq = item.receipt.stream_seq
        self._try(integrity, seq, lambda: _verify_msg(item.msg))
        self._try(signed, seq, lambda: self._verify_signer(item))
        self._try(binding, seq, lambda: check_same_leaf(item.msg, item.receipt))
        if item.proof is not None:
            self._try(position, seq, lambda: self._verify_position(item))
        if self._last is not None:
            self._try(completeness, seq, lambda: self._verify_next(item.receipt))
        self._try_root(consistency, item.receipt)
        self._last = item.receipt

    def _verify_signer(self, item: StreamItem) -> None:
        signer = self._pins.signer(item.receipt)
        if signer in self._pins.ended:
            check_ended(item.receipt, self._pins.ended[signer], self._ends, item.proof)

    def _verify_position(self, item: StreamItem) -> None:
        assert item.proof is not None
        check_same_proof(item.proof, item.receipt)
        check_position(item.proof, item.receipt, self._ends.of(item.receipt.label))

    def _verify_next(self, receipt: Receipt) -> None:
        assert self._last is not None
        if receipt.label != self._last.label:
            raise ProofError("the label changes within the range")
        if receipt.stream_seq != self._last.stream_seq + 1:
            raise ProofError(f"follows {self._last.stream_seq}")

    def _try_root(self, name: tuple[Verdict, str], receipt: Receipt) -> None:
        """From sequence 1 on, the own tree must give every signed root."""
        if receipt.stream_seq == 1:
            self._peaks = []
        elif self._last is None or receipt.stream_seq != self._last.stream_seq + 1:
            self._peaks = None  # After a gap no tree of ours can say anything.
        if self._peaks is None:
            return
        peaks = self._peaks
        mmr.append(peaks, receipt.stream_seq - 1, receipt.leaf_hash)

        def judge() -> None:
            if mmr.root(peaks) != receipt.mmr_root:
                raise ProofError("the root does not follow from the leaves")
            if self._last is not None and receipt.hub_ts < self._last.hub_ts:
                raise ProofError("hub_ts goes backwards")

        if not self._try(name, receipt.stream_seq, judge):
            self._peaks = None

    def _try(self, name: tuple[Verdict, str], seq: int, judge: Callable[[], None]) -> bool:
        try:
            judge()
        except VeenError as refusal:
            self._fail(name, f"sequence {seq}: {refusal}", refusal.code)
            return False
        self._counts[name] += 1
        return True

    def _fail(
        self, name: tuple[Verdict, str], detail: str, code: ErrorCode = ErrorCode.FORMAT
    ) -> None:
        self._failures += 1
        self._report.code = self._report.code or code
        if self._failures <= self.FAILURES_MAX:
            self._report.checks.append(
                Check(verdict=name[0], name=name[1], ok=False, detail=detail)
            )

    def end(self) -> None:
        """List what held, with how often."""
        for name, count in self._counts.items():
            if count:
                self._report.checks.append(
                    Check(verdict=name[0], name=f"{name[1]}: {count}", ok=True)
                )


def _verify_msg(msg: Msg) -> None:
    msg.check_ct_hash()
    msg.verify()


def cut_items(data: bytes) -> list[bytes]:
    """The items of a saved CBOR Sequence."""
    return cbor.split_sequence(data, items_max=ITEMS_MAX)
