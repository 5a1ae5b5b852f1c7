"""An answer computed in plain Python: what every engine must equal, byte for byte [query].

It shares with the Spark engine only the descriptor and the spelling of a row: values are parsed,
numbers compared as numbers and everything sorted in memory, so a mistake made in strings shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Final

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract import evidence
from queryapi.contract.codes import QueryCode, failed_at
from queryapi.contract.descriptor import Aggregate, Descriptor, Filter, Function, Metric
from queryapi.contract.fields import MISSING, Field, Found, Kind, follow
from queryapi.contract.rows import RowShape, rows_bytes
from queryapi.contract.values import OrderKey, is_integer, order_key
from recorder.event import format_time
from recorder.projection import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything about a result that does not depend on where and when it was computed."""

    rows: tuple[bytes, ...]  # each in canonical form
    evidence: bytes
    unreadable_count: int

    @property
    def rows_hash(self) -> str:
        """hex(SHA-256) of the canonical array of rows."""
        return sha256(rows_bytes(self.rows)).hexdigest()

    @property
    def evidence_hash(self) -> str:
        """hex(SHA-256) of the canonical summary."""
        return sha256(self.evidence).hexdigest()


@dataclass(frozen=True, slots=True)
class _Event:
    """A row of the lake whose payload has been read."""

    row: Row
    payload: Value

    def at(self, field: Field) -> Found:
        """The value of a field; an unreadable event has no content."""
        if field.kind is not Kind.JSON:
            value: str | int | None = getattr(self.row, field.name)
            if field.kind is Kind.TIMESTAMP and value is not None:
                return format_time(int(value))
            return value
        return None if self.row.error is not None else follow(self.payload, field.path)

    def value(self, field: Field) -> Value:
        """Like `at`, missing counting as null."""
        found = self.at(field)
        return None if found is MISSING else found


def evaluate(descriptor: Descriptor, rows: Iterable[Row]) -> Answer:
    """The answer over all rows of the coverage, in any order; execution_failed names the event."""
    ordered = sorted(rows, key=lambda row: (row.stream, row.hub_commit_seq))
    inside = [row for row in ordered if _is_inside(descriptor, row)]
    windowed = [row for row in inside if _is_in_window(descriptor.filter, row)]
    events = [event for event in map(_read, windowed) if _matches(descriptor.filter, event)]
    if descriptor.aggregate is None:
        shown, entries = _select(descriptor, events)
    else:
        shown, entries = _aggregate(descriptor, descriptor.aggregate, events)
    return Answer(
        rows=tuple(shown),
        evidence=evidence.summary_bytes(descriptor, entries),
        unreadable_count=sum(row.error is not None for row in windowed),
    )


def _read(row: Row) -> _Event:
    text = row.payload_text
    return _Event(row, None if text is None else canonical_json.parse(text))


def _is_inside(descriptor: Descriptor, row: Row) -> bool:
    assert descriptor.coverage is not None
    return any(
        part.stream == row.stream and part.from_seq <= row.hub_commit_seq <= part.to_seq
        for part in descriptor.coverage
    )


def _is_in_window(asked: Filter, row: Row) -> bool:
    time = row.hub_commit_time
    starts = asked.time_from is None or asked.time_from <= time
    return starts and (asked.time_to is None or time <= asked.time_to)


def _matches(asked: Filter, event: _Event) -> bool:
    row = event.row
    if row.error is not None and asked.needs_content:
        return False
    equal = (
        (asked.subject_id, row.subject_id),
        (asked.principal_id, row.principal_id),
        (asked.origin, row.origin),
    )
    if any(wanted is not None and wanted != found for wanted, found in equal):
        return False
    if asked.event_type is not None and row.event_type not in asked.event_type:
        return False
    return all(one.holds(event.at(one.field)) for one in asked.payload)


def _select(descriptor: Descriptor, events: list[_Event]) -> tuple[list[bytes], Iterator[bytes]]:
    shape, sampler = RowShape.of(descriptor), evidence.Sampler(descriptor)
    shown = [
        shape.encode([canonical_json.encode_text(event.value(f)) for f in descriptor.projection])
        for event in events
    ]
    entries = (
        evidence.VerifiedEvent.of(index, event.row).encode()
        for index, event in enumerate(events)
        if sampler.takes(index)
    )
    return shown, entries


def _aggregate(
    descriptor: Descriptor, aggregate: Aggregate, events: list[_Event]
) -> tuple[list[bytes], Iterator[bytes]]:
    shape, sampler = RowShape.of(descriptor), evidence.Sampler(descriptor)
    _check_sums(aggregate, events)
    groups = _group(aggregate, events)
    shown = []
    for members in groups:
        keys = [members[0].value(field) for field in aggregate.group_by]
        values = keys + [_METRICS[one.function](one, members) for one in aggregate.metrics]
        shown.append(
            shape.encode([canonical_json.encode_text(one, is_bounded=False) for one in values])
        )
    entries = (
        evidence.VerifiedGroup(
            row=index,
            events=len(members),
            receipt_id=evidence.set_id(event.row.leaf_hash for event in members),
        ).encode()
        for index, members in enumerate(groups)
        if sampler.takes(index)
    )
    return shown, entries


def _group(aggregate: Aggregate, events: list[_Event]) -> list[list[_Event]]:
    if not aggregate.group_by:
        return [events]
    groups: dict[tuple[OrderKey, ...], list[_Event]] = {}
    for event in events:
        key = tuple([order_key(event.value(field)) for field in aggregate.group_by])
        groups.setdefault(key, []).append(event)
    return [groups[key] for key in sorted(groups)]


def _check_sums(aggregate: Aggregate, events: list[_Event]) -> None:
    summed = [one.field for one in aggregate.metrics if one.function is Function.SUM]
    for event in events:
        for field in summed:
            assert field is not None
            value = event.value(field)
            if value is not None and not is_integer(value):
                raise failed_at(
                    QueryCode.EXECUTION_FAILED,
                    event.row.stream,
                    event.row.hub_commit_seq,
                    f"sum({field.name}) takes integers only",
                )


def _present(metric: Metric, members: list[_Event]) -> Iterator[Value]:
    assert metric.field is not None
    values = map(partial(_value_of, metric.field), members)
    return (value for value in values if value is not None)


def _value_of(field: Field, event: _Event) -> Value:
    return event.value(field)


def _count(_metric: Metric, members: list[_Event]) -> Value:
    return len(members)


def _min(metric: Metric, members: list[_Event]) -> Value:
    return min(_present(metric, members), key=order_key, default=None)


def _max(metric: Metric, members: list[_Event]) -> Value:
    return max(_present(metric, members), key=order_key, default=None)


def _sum(metric: Metric, members: list[_Event]) -> Value:
    integers = [value for value in _present(metric, members) if isinstance(value, int)]
    return sum(integers) if integers else None


def _count_distinct(metric: Metric, members: list[_Event]) -> Value:
    return len({order_key(value) for value in _present(metric, members)})


_METRICS: Final[dict[Function, Callable[[Metric, list[_Event]], Value]]] = {
    Function.COUNT: _count,
    Function.MIN: _min,
    Function.MAX: _max,
    Function.SUM: _sum,
    Function.COUNT_DISTINCT: _count_distinct,
}
