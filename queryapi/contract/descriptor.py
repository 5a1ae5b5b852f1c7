"""QueryDescriptor in its only spelling, and the ids that follow from it [Query 4; query]."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, Self

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto.hashing import QUERY_RESULT
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage, coverage_to_json
from queryapi.contract.fields import DEFAULT_FIELDS, Field, parse_field
from queryapi.contract.predicates import Predicate
from recorder.codes import Detail
from recorder.event import UnixMillis, format_time

VERSION: Final = 1
DESCRIPTOR_BYTES_MAX: Final = 256 * 1024
SERVER_KEYS: Final = ("coverage", "principal_id")  # of meta; a client never sends them


_RESULT_ID: Final = re.compile(r"r-[0-9a-f]{64}", re.ASCII)


def is_result_id(text: str) -> bool:
    """Whether an execution could have this id."""
    return _RESULT_ID.fullmatch(text) is not None


class Mode(StrEnum):
    """How much of an answer is verified [Query 6]."""

    NONE = "none"
    SPOT = "spot"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePolicy:
    """The evidence asked for; `sample_rate` is exact, in (0, 1], and stands with spot only."""

    mode: Mode
    sample_rate: int | Decimal | None = None

    def to_json(self) -> dict[str, Value]:
        """As the normalized descriptor and the digest have it."""
        found: dict[str, Value] = {"mode": self.mode.value}
        if self.sample_rate is not None:
            found["sample_rate"] = self.sample_rate
        return found


class Function(StrEnum):
    """What a metric computes."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT_DISTINCT = "count_distinct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric; all but count have an argument."""

    function: Function
    field: Field | None = None

    @property
    def name(self) -> str:
        """The key of its value in a row."""
        return self.function.value if self.field is None else f"{self.function}({self.field.name})"


def parse_metric(text: str) -> Metric:
    """The metric of this spelling, or ValueError."""
    if text == Function.COUNT:
        return Metric(function=Function.COUNT)
    name, opened, argument = text.partition("(")
    if name not in set(Function) - {Function.COUNT} or not opened or argument[-1:] != ")":
        raise ValueError("no such metric")
    return Metric(function=Function(name), field=parse_field(argument[:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Groups and what is computed for each."""

    group_by: tuple[Field, ...]
    metrics: tuple[Metric, ...]

    def to_json(self) -> dict[str, Value]:
        """As the normalized descriptor has it."""
        return {
            "group_by": [one.name for one in self.group_by],
            "metrics": [one.name for one in self.metrics],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions that must all hold; None asks for nothing."""

    event_type: tuple[str, ...] | None = None
    subject_id: str | None = None
    time_from: UnixMillis | None = None
    time_to: UnixMillis | None = None
    principal_id: str | None = None
    origin: str | None = None
    payload: tuple[Predicate, ...] = ()

    @property
    def needs_content(self) -> bool:
        """Whether it asks for what an unreadable event does not have."""
        asked = (self.event_type, self.subject_id, self.origin)
        return bool(self.payload) or any(one is not None for one in asked)

    def to_json(self) -> dict[str, Value]:
        """As the normalized descriptor has it: extensions stand only when given."""
        found: dict[str, Value] = {
            "event_type": None if self.event_type is None else list(self.event_type),
            "subject_id": self.subject_id,
            "time": {"from": _shown(self.time_from), "to": _shown(self.time_to)},
        }
        if self.principal_id is not None:
            found["principal_id"] = self.principal_id
        if self.origin is not None:
            found["origin"] = self.origin
        if self.payload:
            found["payload"] = [one.to_json() for one in self.payload]
        return found


def _shown(time: UnixMillis | None) -> str | None:
    return None if time is None else format_time(time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A query; `coverage` is None until the server has pinned it."""

    query_id: str
    scope: tuple[str, ...]
    filter: Filter
    projection: tuple[Field, ...]
    aggregate: Aggregate | None
    evidence: EvidencePolicy
    meta: Mapping[str, Value] = field(default_factory=dict)  # without coverage
    coverage: tuple[Coverage, ...] | None = None

    def to_json(self) -> dict[str, Value]:
        """The normalized descriptor."""
        projection = [one.name for one in self.projection]
        if self.aggregate is not None:
            projection = [one.name for one in self.aggregate.group_by] or ["*"]
        meta = dict(self.meta)
        if self.coverage is not None:
            meta["coverage"] = coverage_to_json(self.coverage)
        found: dict[str, Value] = {
            "query_id": self.query_id,
            "version": VERSION,
            "scope": list(self.scope),
            "filter": self.filter.to_json(),
            "projection": list(projection),
            "evidence": self.evidence.to_json(),
            "meta": meta,
        }
        if self.aggregate is not None:
            found["aggregate"] = self.aggregate.to_json()
        return found

    def canonical(self) -> bytes:
        """The bytes that are recorded and that result_id covers."""
        return canonical_json.encode(self.to_json())

    @property
    def result_id(self) -> str:
        """Follows from the whole descriptor, coverage included."""
        assert self.coverage is not None, "an answer has no id before its coverage is pinned"
        return f"r-{QUERY_RESULT(self.canonical()).hex()}"

    @property
    def principal_id(self) -> str:
        """Who asked."""
        return str(self.meta["principal_id"])

    @property
    def origin_hub(self) -> str | None:
        """The hub whose stream is meant, where the client says so."""
        found = self.meta.get("origin_hub")
        return None if found is None else str(found)

    def question(self) -> bytes:
        """What one query_id stands for: everything but coverage and the time of asking."""
        meta = {key: value for key, value in self.meta.items() if key != "requested_at"}
        return replace(self, meta=meta, coverage=None).canonical()

    def asked_by(self, principal_id: str, requested_at: UnixMillis) -> Self:
        """With what only the server writes; refused when that makes it too large."""
        meta = {**self.meta, "principal_id": principal_id}
        if meta.get("requested_at") is None:
            meta["requested_at"] = format_time(requested_at)
        asked = replace(self, meta=meta)
        check_size(asked)
        return asked

    def pin(self, coverage: Sequence[Coverage]) -> Self:
        """With the part of the log that answers it."""
        ordered = tuple(sorted(coverage, key=lambda entry: entry.stream))
        assert tuple(entry.stream for entry in ordered) == self.scope, "coverage is of the scope"
        return replace(self, coverage=ordered)


def check_size(descriptor: Descriptor) -> None:
    """Raise unless the canonical form without coverage is within bounds."""
    if len(replace(descriptor, coverage=None).canonical()) > DESCRIPTOR_BYTES_MAX:
        raise too_large("in canonical form")


def too_large(where: str) -> QueryError:
    """The refusal of a descriptor beyond its bound."""
    reason = f"more than {DESCRIPTOR_BYTES_MAX} bytes {where}"
    message = "the query descriptor is too large"
    flaw = Detail(pointer="", reason=reason)
    return QueryError(QueryCode.INVALID_QUERY_DESCRIPTOR, message, details=[flaw])


def default_projection() -> tuple[Field, ...]:
    """The fields of `["*"]`."""
    return tuple(parse_field(name) for name in DEFAULT_FIELDS)
