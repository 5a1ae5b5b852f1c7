"""Fields and payload paths: what a descriptor may name, read by a grammar [query, Fields].

field   = one of the names in KINDS, or path
path    = "payload" 1*16("." segment)      ; "payload.*" is another spelling of "payload"
segment = 1*(any character but ".")        ; a key of an object, or an index of an array
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from hub.canonical_json import Value

SEGMENTS_MAX: Final = 16
PAYLOAD: Final = "payload"
# Decimal without leading zeros; no array in memory has an index of more digits.
_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})", re.ASCII)


class Kind(Enum):
    """How a field's values are typed and printed."""

    TEXT = "text"
    INTEGER = "integer"
    TIMESTAMP = "timestamp"
    JSON = "json"


KINDS: Final[dict[str, Kind]] = {
    "stream": Kind.TEXT,
    "hub_commit_seq": Kind.INTEGER,
    "hub_commit_time": Kind.TIMESTAMP,
    "subject_id": Kind.TEXT,
    "principal_id": Kind.TEXT,
    "event_type": Kind.TEXT,
    "event_time": Kind.TIMESTAMP,
    "origin": Kind.TEXT,
    PAYLOAD: Kind.JSON,
    "receipt_id": Kind.TEXT,
    "error": Kind.TEXT,
}
# What `["*"]` stands for, in this order.
DEFAULT_FIELDS: Final = tuple(name for name in KINDS if name != "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A named field; `path` leads on from the payload and is empty for everything else."""

    name: str
    kind: Kind
    path: tuple[str, ...] = ()

    @property
    def is_payload(self) -> bool:
        """Whether the value comes out of the payload."""
        return self.kind is Kind.JSON


def parse_field(text: str) -> Field:
    """The field of this name, or ValueError saying what is wrong with it."""
    if text == f"{PAYLOAD}.*":
        text = PAYLOAD
    kind = KINDS.get(text)
    if kind is not None:
        return Field(name=text, kind=kind)
    head, *path = text.split(".")
    if head != PAYLOAD or not path:
        raise ValueError("no such field")
    if not all(path):
        raise ValueError("a path with an empty segment")
    if len(path) > SEGMENTS_MAX:
        raise ValueError(f"a path of more than {SEGMENTS_MAX} segments")
    return Field(name=text, kind=Kind.JSON, path=tuple(path))


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING  # unlike null, it does not exist
Found: TypeAlias = "Value | _Missing"


def follow(payload: Value, path: tuple[str, ...]) -> Found:
    """The value at a path, or MISSING."""
    value = payload
    for segment in path:
        if isinstance(value, dict):
            if segment not in value:
                return MISSING
            value = value[segment]
        elif isinstance(value, list):
            if not _INDEX.fullmatch(segment) or int(segment) >= len(value):
                return MISSING
            value = value[int(segment)]
        else:
            return MISSING
    return value
