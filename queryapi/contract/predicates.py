"""Payload predicates: eq ne lt le gt ge in exists, two-valued [query, Which events match]."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from hub.canonical_json import Value, encode_text
from queryapi.contract.fields import MISSING, Field, Found
from queryapi.contract.values import OrderKey, order_key


class Op(StrEnum):
    """What a predicate asks of a value."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    EXISTS = "exists"


_RANGES: Final[Mapping[Op, Callable[[OrderKey, OrderKey], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


def is_range(op: Op) -> bool:
    """Whether it compares by order."""
    return op in _RANGES


def check_operand(op: Op, value: Value) -> None:
    """Raise ValueError unless the operator takes this value."""
    if op is Op.EXISTS and not isinstance(value, bool):
        raise ValueError("exists takes true or false")
    if op is Op.IN and not isinstance(value, list):
        raise ValueError("in takes a list")
    is_ordered = isinstance(value, int | Decimal | str) and not isinstance(value, bool)
    if op in _RANGES and not is_ordered:
        raise ValueError(f"{op} compares with a number or a text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """One condition on the payload; the operand fits the operator."""

    field: Field
    op: Op
    value: Value

    def to_json(self) -> dict[str, Value]:
        """As the normalized descriptor has it."""
        return {"path": self.field.name, "op": self.op.value, "value": self.value}

    def texts(self) -> tuple[str, ...]:
        """The canonical texts that `eq`, `ne` and `in` compare with."""
        if self.op is Op.IN:
            assert isinstance(self.value, list)
            return tuple(encode_text(one) for one in self.value)
        return (encode_text(self.value),)

    def holds(self, found: Found) -> bool:
        """Whether a value at the path satisfies it; missing counts as null, but does not exist."""
        if self.op is Op.EXISTS:
            return (found is not MISSING) is self.value
        value = None if found is MISSING else found
        if self.op in _RANGES:
            ours, theirs = order_key(value), order_key(self.value)
            return ours[0] == theirs[0] and _RANGES[self.op](ours, theirs)
        is_equal = encode_text(value) in self.texts()
        return is_equal is not (self.op is Op.NE)
