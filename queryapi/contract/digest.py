"""ResultDigest: what an answer was, small enough to record for ever [Query 5.2; query, Digest]."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import WireError
from queryapi.contract.coverage import HEX32
from queryapi.contract.descriptor import VERSION, EvidencePolicy, Mode

# What two zones must agree on before one may say it sees the other's history [Query 9.1].
COMPARED: Final = (
    "query_id", "result_id", "unreadable_count", "row_count", "rows_hash", "evidence_policy",
    "evidence_hash",
)  # fmt: skip
_KEYS: Final = frozenset({*COMPARED, "version", "executed_at", "hub_id", "profile_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDigest:
    """Hashes are lower-case hex; its own receipt is returned beside it, never inside."""

    query_id: str
    result_id: str
    row_count: int
    evidence_policy: EvidencePolicy
    rows_hash: str
    evidence_hash: str
    executed_at: str
    hub_id: str
    profile_id: str
    unreadable_count: int

    def to_json(self) -> dict[str, Value]:
        """The object as it is recorded and returned."""
        return {
            "query_id": self.query_id,
            "result_id": self.result_id,
            "version": VERSION,
            "row_count": self.row_count,
            "evidence_policy": self.evidence_policy.to_json(),
            "rows_hash": self.rows_hash,
            "evidence_hash": self.evidence_hash,
            "executed_at": self.executed_at,
            "hub_id": self.hub_id,
            "profile_id": self.profile_id,
            "unreadable_count": self.unreadable_count,
        }

    def canonical(self) -> bytes:
        """The payload of its event."""
        return canonical_json.encode(self.to_json())

    @classmethod
    def decode(cls, value: Value) -> Self:
        """Read a recorded digest, or raise E.FORMAT."""
        if not isinstance(value, dict) or value.keys() != _KEYS:
            raise WireError(f"a ResultDigest has the keys {', '.join(sorted(_KEYS))}")
        if value["version"] != VERSION:
            raise WireError(f"only version {VERSION} is known")
        for key in ("rows_hash", "evidence_hash", "hub_id", "profile_id"):
            if not HEX32.fullmatch(_text(value, key)):
                raise WireError(f"{key} is not 64 lower-case hex digits")
        return cls(
            query_id=_text(value, "query_id"),
            result_id=_text(value, "result_id"),
            row_count=_count(value, "row_count"),
            evidence_policy=_policy(value["evidence_policy"]),
            rows_hash=_text(value, "rows_hash"),
            evidence_hash=_text(value, "evidence_hash"),
            executed_at=_text(value, "executed_at"),
            hub_id=_text(value, "hub_id"),
            profile_id=_text(value, "profile_id"),
            unreadable_count=_count(value, "unreadable_count"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One field of two digests."""

    field: str
    theirs: Value
    ours: Value

    @property
    def equal(self) -> bool:
        """By canonical form."""
        return canonical_json.encode(self.theirs) == canonical_json.encode(self.ours)

    def to_json(self) -> dict[str, Value]:
        """As a replay reports it."""
        return {
            "field": self.field, "theirs": self.theirs, "ours": self.ours, "equal": self.equal,
        }  # fmt: skip


def compare(theirs: ResultDigest, ours: ResultDigest) -> list[Compared]:
    """Field by field, what the engine could read before what it answered."""
    left, right = theirs.to_json(), ours.to_json()
    return [Compared(field=key, theirs=left[key], ours=right[key]) for key in COMPARED]


def _text(value: dict[str, Value], key: str) -> str:
    found = value[key]
    if not isinstance(found, str):
        raise WireError(f"{key} is not text")
    return found


def _count(value: dict[str, Value], key: str) -> int:
    found = value[key]
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise WireError(f"{key} is not a count")
    return found


def _policy(value: Value) -> EvidencePolicy:
    if not isinstance(value, dict) or not value.keys() <= {"mode", "sample_rate"}:
        raise WireError("evidence_policy is not {mode, sample_rate}")
    mode, rate = value.get("mode"), value.get("sample_rate")
    if not isinstance(mode, str) or mode not in set(Mode):
        raise WireError("evidence_policy has no known mode")
    if rate is None:
        return EvidencePolicy(mode=Mode(mode))
    if isinstance(rate, bool) or not isinstance(rate, int | Decimal):
        raise WireError("sample_rate is not a number")
    return EvidencePolicy(mode=Mode(mode), sample_rate=rate)
