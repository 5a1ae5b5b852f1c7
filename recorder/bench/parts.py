"""What each part of recording costs by itself, in memory, on one core [interfaces, Benchmarks]."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

from hub import authoring, mmr
from hub import label as labels
from hub.admission.authority import AdmissionState
from hub.admission.form import check_form
from hub.admission.order import check_order
from hub.admission.records import AdmissionRecord
from hub.client.heads import HeadStore
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.limits import DEFAULT
from hub.types import ClientSeq, LeafHash, StreamSeq, UnixSeconds
from hub.wire.captoken import CapToken
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT
from hub.wire.receipt import Receipt
from recorder.bench.ground import STREAM, event
from recorder.event import SCHEMA, from_json

_T = TypeVar("_T")
_NAMES: Final = ("author", "admit", "commit", "check")
_ROUTING_KEY: Final = bytes(range(32))
_NOW: Final = 1_700_000_000


class Parts:
    """The four parts of one event's way, each with what the one before it made.

    admit: form, signature, capability, order. commit: leaf recomputed from the bytes, append, root,
    RECEIPT signed. check: the RECEIPT is of this leaf, of this hub, and extends the log.
    """

    def __init__(self) -> None:
        self._client = SigningKey.generate()
        self.hub = SigningKey.generate()
        self._reader = DhSecret.generate().public
        self._profiles = {one.id: one for one in DEFAULT_PROFILES}
        issuer = SigningKey.generate()
        stream_id = labels.stream_id(STREAM)
        self._label = labels.derive(_ROUTING_KEY, stream_id)
        token = CapToken.issue(
            issuer, subject_pk=self._client.public, stream_ids=[stream_id], ttl=3600
        )
        self._auth_ref = token.auth_ref()
        self._admission = AdmissionState({issuer.public})
        self._admission.apply_admission(AdmissionRecord.of(token), _NOW)
        self._costs: dict[str, list[float]] = {name: [] for name in _NAMES}

    def measure(self, count: int) -> None:
        """One more round of so many events."""
        bodies = [
            from_json(event(number), now_ms=number, default_origin="bench").encode()
            for number in range(count)
        ]
        authored = self._time("author", lambda: [*map(self.author, range(count), bodies)])
        data = [one.msg_bytes for one in authored]
        self._time("admit", lambda: [*map(self._admit, range(count), data)])
        receipts = self._time("commit", lambda: self.commit(data))
        check = partial(self._check, HeadStore(None))
        leaves = [one.leaf_hash for one in authored]
        self._time("check", lambda: [*map(check, receipts, leaves)])

    def _time(self, name: str, work: Callable[[], list[_T]]) -> list[_T]:
        started = perf_counter()
        made = work()
        self._costs[name].append((perf_counter() - started) / len(made) * 1e6)
        return made

    def author(self, number: int, body: bytes) -> authoring.Authored:
        """One event, sealed and signed."""
        return authoring.author(
            key=self._client,
            profile=PRODUCT,
            label=self._label,
            client_seq=ClientSeq(number + 1),
            prev_ack=0,
            auth_ref=self._auth_ref,
            reader_pk=self._reader,
            header=PayloadHeader(schema=SCHEMA),
            body=body,
        )

    def _admit(self, number: int, data: bytes) -> Msg:
        msg = check_form(data, self._profiles, DEFAULT)
        msg.verify()
        self._admission.check(msg.auth_ref, msg.client_id, msg.label, _NOW, PRODUCT, _ROUTING_KEY)
        check_order(
            client_seq=msg.client_seq,
            prev_ack=msg.prev_ack,
            last_client_seq=number,
            last_prev_ack=0,
            head=number,
        )
        return msg

    def commit(self, messages: list[bytes]) -> list[bytes]:
        """The RECEIPTs of messages that follow each other."""
        peaks: list[bytes] = []
        receipts = []
        for size, data in enumerate(messages):
            msg = Msg.decode(data)
            msg.check_ct_hash()
            leaf = msg.leaf_hash()
            mmr.append(peaks, size, leaf)
            receipts.append(
                Receipt.encode_signed(
                    self.hub,
                    self._label,
                    StreamSeq(size + 1),
                    leaf,
                    mmr.root(peaks),
                    UnixSeconds(_NOW),
                )
            )
        return receipts

    def _check(self, heads: HeadStore, data: bytes, leaf: LeafHash) -> Receipt:
        receipt = Receipt.decode(data)
        assert (receipt.label, receipt.leaf_hash) == (self._label, leaf)
        receipt.verify(self.hub.public)
        heads.observe(receipt)
        return receipt

    def costs_us(self) -> dict[str, float]:
        """The median of the rounds."""
        return {name: round(statistics.median(self._costs[name]), 1) for name in _NAMES}
