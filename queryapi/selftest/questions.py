"""Random events and random questions about them, full of the traps of JSON [query; spark].

Values come from small pools, so that equal values, groups and matches really occur.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Final

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.descriptor import Function, Mode
from queryapi.contract.fields import KINDS
from queryapi.contract.predicates import Op, is_range
from recorder.event import EVENT_TIME_MAX, RecorderEvent, UnixMillis, format_time

SUBJECTS: Final = (
    "",
    "user:1",
    "user:10",
    "User:1",
    "us\u00e9r",
    "\uff5ewide",
    "\U0001f600",
    'a"b\\c',
)
TYPES: Final = ("http.request", "http.error", "login.ok", "login.failed")
ORIGINS: Final = ("", "edge-1", "edge-10", "edge-2", "line\u2028separator", "tab\tand\u0001control")
# Keys and texts with quotes, backslashes, dots, control characters and beyond the basic plane.
_KEYS: Final = (
    "status", "ms", "path", "n", "ok", "A", "a", "0", "a.b", 'q"', "b\\", "\u0007",
    "\ue000", "\U00010000", "e\u0301", "\u00e9",
)  # fmt: skip
_TEXTS: Final = (
    "", "401", "null", "true", "/login", 'say "no"', "back\\slash", "\n\t\u0001", "\x7f",
    "\u2028", "\uff5e", "\U0001f600", "Z", "a", "\u00e9", "[1]", "{}",
)  # fmt: skip
_NUMBERS: Final[tuple[int | Decimal, ...]] = (
    0, 1, 2, 7, -1, -3, 9, 10, 11, 99, 100, 200, 401, 404, 500, 2**53, 2**53 + 1, 2**63, -(2**63),
    2**64 + 1, 10**30, -(10**30), 10**400, -(10**400), Decimal("0.1"),
    Decimal("0.10000000000000001"), Decimal("-0.1"), Decimal("-0.5"), Decimal("-0.05"),
    Decimal("404.5"), Decimal("1e-7"),
    Decimal("3.14159265358979323846"), Decimal("1e-400"), Decimal("-1.5"), Decimal("99.99"),
)  # fmt: skip
_INTEGERS: Final = tuple(number for number in _NUMBERS if isinstance(number, int))
_PATHS: Final = (
    "payload", "payload.status", "payload.ms", "payload.path", "payload.n", "payload.ok",
    "payload.A", "payload.a", "payload.a.b", "payload.nested.a", "payload.nested.list.0",
    "payload.nested.list.1.x", "payload.list.01", "payload.0", "payload.1", "payload.status.code",
    'payload.q"', "payload.b\\", "payload.\u0007", "payload.\ue000", "payload.\U00010000",
    "payload.absent",
)  # fmt: skip
_BASE: Final = tuple(name for name in KINDS if name != "payload")
_EPOCH_MS: Final = 1_767_225_600_000  # 2026-01-01


class Asker:
    """Draws events and questions from one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def value(self, depth: int = 2) -> Value:
        """Any JSON value."""
        drawn = self._rng.random()
        if drawn < 0.35:
            return self._rng.choice(_NUMBERS)
        if drawn < 0.6:
            return self._rng.choice(_TEXTS)
        if drawn < 0.75 or not depth:
            return self._rng.choice((None, True, False))
        if drawn < 0.87:
            return [self.value(depth - 1) for _ in range(self._rng.randrange(4))]
        return {key: self.value(depth - 1) for key in self._some(_KEYS, 3)}

    def payload(self) -> Value:
        """Mostly an object of familiar shape, sometimes anything."""
        if self._rng.random() < 0.12:
            return self.value()
        found: dict[str, Value] = {key: self.value(1) for key in self._some(_KEYS, 6)}
        if self._rng.random() < 0.7:
            found["n"] = self._rng.choice((*_INTEGERS, None))
        if self._rng.random() < 0.4:
            found["nested"] = {"a": self.value(0), "list": [self.value(0), {"x": self.value(0)}]}
        return found

    def event(self) -> RecorderEvent:
        """One event; times collide on purpose."""
        time = _EPOCH_MS + 250 * self._rng.randrange(40)
        return RecorderEvent(
            subject_id=self._rng.choice(SUBJECTS),
            event_type=self._rng.choice(TYPES),
            event_time=UnixMillis(self._rng.choice((0, EVENT_TIME_MAX, time, time, time, time))),
            origin=self._rng.choice(ORIGINS),
            payload=canonical_json.encode_text(self.payload()),
        )

    def question(self, streams: list[str], times: list[int]) -> dict[str, Value]:
        """A descriptor as a client may send it; `times` are commit times worth asking for."""
        found: dict[str, Value] = {
            "scope": list(self._some(streams, len(streams)) or streams[:1]),
            "evidence": self._evidence(),
        }
        if self._rng.random() < 0.8:
            found["filter"] = self._filter(times)
        if self._rng.random() < 0.5:
            found["aggregate"] = self._aggregate()
        else:
            projection: list[Value] = [*self._some((*_BASE, *_PATHS), 6)]
            found["projection"] = projection or ["*"]
        return found

    def _some(self, pool: list[str] | tuple[str, ...], most: int) -> list[str]:
        return self._rng.sample(pool, self._rng.randrange(min(most, len(pool)) + 1))

    def _evidence(self) -> Value:
        mode = self._rng.choice((Mode.NONE, Mode.NONE, Mode.SPOT, Mode.FULL))
        if mode is not Mode.SPOT:
            return {"mode": mode.value}
        rate = self._rng.choice((1, Decimal("0.33"), Decimal("0.5"), Decimal("1e-30")))
        return {"mode": mode.value, "sample_rate": rate}

    def _filter(self, times: list[int]) -> Value:
        found: dict[str, Value] = {}
        if self._rng.random() < 0.2:
            found["event_type"] = list(self._some(TYPES, 3))
        if self._rng.random() < 0.2:
            found["subject_id"] = self._rng.choice(SUBJECTS)
        if self._rng.random() < 0.1:
            found["origin"] = self._rng.choice(ORIGINS)
        if self._rng.random() < 0.3:
            ends = sorted(self._rng.choices(times, k=2))
            found["time"] = {"from": format_time(ends[0]), "to": format_time(ends[1])}
        if self._rng.random() < 0.5:
            found["payload"] = [self._predicate() for _ in range(self._rng.randint(1, 2))]
        return found

    def _predicate(self) -> Value:
        op = self._rng.choice(list(Op))
        operand: Value = self.value(1)
        if op is Op.EXISTS:
            operand = self._rng.random() < 0.5
        elif op is Op.IN:
            operand = [self.value(1) for _ in range(self._rng.randrange(6))]
        elif is_range(op):
            operand = self._rng.choice((*_NUMBERS, *_TEXTS))
        return {"path": self._rng.choice(_PATHS), "op": op.value, "value": operand}

    def _aggregate(self) -> Value:
        metrics: list[Value] = ["count"]
        for function in (Function.MIN, Function.MAX, Function.COUNT_DISTINCT):
            metrics += [f"{function}({name})" for name in self._some((*_BASE, *_PATHS), 2)]
        # A sum over anything else fails, so most go over integers and a few find that out.
        summed = "payload.n" if self._rng.random() < 0.9 else self._rng.choice(_PATHS)
        if self._rng.random() < 0.5:
            metrics.append(f"sum({summed})")
        return {"group_by": list(self._some((*_BASE, *_PATHS), 3)), "metrics": metrics}
