"""The evidence summary: which rows were verified, in bytes anyone recomputes [Query 5.4, 6].

`verified` is the last key of the summary in canonical order, so a summary of any length is written
as a head, entries with commas between them, and a tail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Final

from hub import canonical_json
from hub.canonical_json import Value, encode_text
from hub.crypto.hashing import QUERY_SPOT, u64be
from queryapi.contract.coverage import coverage_to_json
from queryapi.contract.descriptor import Descriptor, Mode
from recorder.projection import Row

SEPARATOR: Final = b","
TAIL: Final = b"]}"
# What an answer's evidence rests on, said wherever its digest is shown.
NOTES: Final[dict[Mode, str]] = {
    Mode.NONE: "Nothing was verified: the rows are what the lake holds.",
    Mode.SPOT: "The events of sampled rows were opened again and verified; the others were not.",
    Mode.FULL: "Every event behind a row was opened again and verified, and the leaves of the "
    "whole coverage fold to its root. That no other event belongs to the answer rests on the "
    "recorded hashes of the lake's sealed files; `veen recorder audit` opens those again, too.",
}
NONE: Final = b'{"mode":"none"}'
_ALL: Final = 1 << 64


class Sampler:
    """Says which rows are verified: fixed by the descriptor, before anything is executed."""

    __slots__ = ("_result_id", "_threshold")

    def __init__(self, descriptor: Descriptor) -> None:
        self._result_id = descriptor.result_id.encode()
        self._threshold = spot_threshold(_rate(descriptor))

    def takes(self, row: int) -> bool:
        """Whether the row of this 0-based index is verified."""
        if self._threshold in {0, _ALL}:
            return self._threshold == _ALL
        drawn = QUERY_SPOT(self._result_id, u64be(row))[:8]
        return int.from_bytes(drawn, "big") < self._threshold


def _rate(descriptor: Descriptor) -> int | Decimal:
    if descriptor.evidence.mode is Mode.SPOT:
        assert descriptor.evidence.sample_rate is not None
        return descriptor.evidence.sample_rate
    return 1 if descriptor.evidence.mode is Mode.FULL else 0


def spot_threshold(sample_rate: int | Decimal) -> int:
    """floor(sample_rate * 2^64), exactly."""
    return int(Fraction(sample_rate) * _ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEvent:
    """A row of a selection and the event behind it; `mmr_root` is that of its (origin) RECEIPT."""

    row: int
    stream: str
    seq: int
    receipt_id: str
    mmr_root: str
    hub_id: str

    @classmethod
    def of(cls, index: int, row: Row) -> VerifiedEvent:
        """The entry of an event that became row `index`."""
        return cls(
            row=index,
            stream=row.stream,
            seq=row.hub_commit_seq,
            receipt_id=row.receipt_id,
            mmr_root=row.mmr_root.hex(),
            hub_id=row.hub_id.hex(),
        )

    def encode(self) -> bytes:
        """Canonical JSON; everything but the stream's name is hex or a number."""
        return (
            f'{{"hub_id":"{self.hub_id}","mmr_root":"{self.mmr_root}",'
            f'"receipt_id":"{self.receipt_id}","row":{self.row},"seq":{self.seq},'
            f'"stream":{encode_text(self.stream)}}}'
        ).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedGroup:
    """A row of an aggregate: how many events it rests on, and a hash over all of them."""

    row: int
    events: int
    receipt_id: str

    def encode(self) -> bytes:
        """Canonical JSON."""
        return (
            f'{{"events":{self.events},"receipt_id":"{self.receipt_id}","row":{self.row}}}'
        ).encode()


def set_id(leaf_hashes: Iterable[bytes]) -> str:
    """The receipt_id of a group; leaf hashes in (stream, seq) order."""
    context = sha256()
    for leaf_hash in leaf_hashes:
        context.update(leaf_hash)
    return f"rset-{context.hexdigest()}"


def summary_head(descriptor: Descriptor) -> bytes:
    """Everything up to the first entry, for modes spot and full."""
    assert descriptor.coverage is not None
    assert descriptor.evidence.mode is not Mode.NONE, "mode none has no entries"
    members: dict[str, Value] = {
        "query_id": descriptor.query_id,
        "result_id": descriptor.result_id,
        "coverage": coverage_to_json(descriptor.coverage),
        **descriptor.evidence.to_json(),
    }
    return canonical_json.encode(members)[:-1] + b',"verified":['


def summary_bytes(descriptor: Descriptor, entries: Iterable[bytes]) -> bytes:
    """The bytes that evidence_hash covers."""
    if descriptor.evidence.mode is Mode.NONE:
        return NONE
    return summary_head(descriptor) + SEPARATOR.join(entries) + TAIL
