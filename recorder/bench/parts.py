"""What each part of recording costs by itself, in memory, on one core [interfaces, Benchmarks]."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeVar

from hub import authoring, mmr
from hub.admission.form import check_form
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.limits import DEFAULT
from hub.types import AuthRef, ClientSeq, Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.payload import PayloadHeader
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT
from hub.wire.receipt import Receipt
from recorder.bench.ground import event
from recorder.event import SCHEMA, from_json

_T = TypeVar("_T")
_NAMES: Final = ("author", "admit", "commit", "check")
_LABEL: Final = Label(b"\x01" * 32)


class Parts:
    """The four parts of one event's way, each with what the one before it made."""

    def __init__(self) -> None:
        self._client = SigningKey.generate()
        self._hub = SigningKey.generate()
        self._reader = DhSecret.generate().public
        self._profiles = {one.id: one for one in DEFAULT_PROFILES}
        self._costs: dict[str, list[float]] = {name: [] for name in _NAMES}

    def measure(self, count: int) -> None:
        """One more round of so many events."""
        bodies = [
            from_json(event(number), now_ms=number, default_origin="bench").encode()
            for number in range(count)
        ]
        authored = self._time("author", lambda: [*map(self._author, range(count), bodies)])
        leaves = self._time("admit", lambda: [self._admit(one.msg_bytes) for one in authored])
        receipts = self._time("commit", lambda: self._commit(leaves))
        self._time("check", lambda: [*map(self._check, receipts, leaves)])

    def _time(self, name: str, work: Callable[[], list[_T]]) -> list[_T]:
        started = perf_counter()
        made = work()
        self._costs[name].append((perf_counter() - started) / len(made) * 1e6)
        return made

    def _author(self, number: int, body: bytes) -> authoring.Authored:
        return authoring.author(
            key=self._client,
            profile=PRODUCT,
            label=_LABEL,
            client_seq=ClientSeq(number + 1),
            prev_ack=0,
            auth_ref=AuthRef(_LABEL),
            reader_pk=self._reader,
            header=PayloadHeader(schema=SCHEMA),
            body=body,
        )

    def _admit(self, data: bytes) -> LeafHash:
        msg = check_form(data, self._profiles, DEFAULT)
        msg.verify()
        return msg.leaf_hash()

    def _commit(self, leaves: list[LeafHash]) -> list[bytes]:
        peaks: list[bytes] = []
        receipts = []
        for size, leaf in enumerate(leaves):
            mmr.append(peaks, size, leaf)
            root = MmrRoot(mmr.root(peaks))
            place = StreamSeq(size + 1)
            receipts.append(
                Receipt.encode_signed(self._hub, _LABEL, place, leaf, root, UnixSeconds(1))
            )
        return receipts

    def _check(self, data: bytes, leaf: LeafHash) -> Receipt:
        receipt = Receipt.decode(data)
        receipt.verify(self._hub.public)
        assert receipt.leaf_hash == leaf
        return receipt

    def costs_us(self) -> dict[str, float]:
        """The median of the rounds."""
        return {name: round(statistics.median(self._costs[name]), 1) for name in _NAMES}
