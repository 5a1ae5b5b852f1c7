"""ResultRow and the bytes that rows_hash covers [Query 5.1, 5.3; query, Rows].

Every value of a row is given as canonical JSON text, so encoding a row is joining texts: its keys
are sorted once, for all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from hub.canonical_json import encode_text
from queryapi.contract.descriptor import Descriptor

NULL: Final = "null"
OPEN: Final = b"["
SEPARATOR: Final = b","
CLOSE: Final = b"]"


class RowShape:
    """The keys of a result's rows; `names` are in the order in which values are given."""

    __slots__ = ("_order", "_prefixes", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        # Python sorts texts by code point, which is the order of their UTF-8 bytes.
        self._order = sorted(range(len(self.names)), key=self.names.__getitem__)
        self._prefixes = [
            f"{',' if place else '{'}{encode_text(self.names[index])}:"
            for place, index in enumerate(self._order)
        ]

    @classmethod
    def of(cls, descriptor: Descriptor) -> RowShape:
        """The projection, or groups and metrics of an aggregate."""
        if descriptor.aggregate is None:
            return cls([field.name for field in descriptor.projection])
        groups = [field.name for field in descriptor.aggregate.group_by]
        return cls(groups + [metric.name for metric in descriptor.aggregate.metrics])

    def parts(self) -> list[tuple[str, int]]:
        """The text before each value and which value it is, in the order of the row."""
        return list(zip(self._prefixes, self._order, strict=True))

    def encode(self, texts: Sequence[str]) -> bytes:
        """One row."""
        joined = "".join([prefix + texts[index] for prefix, index in self.parts()])
        return f"{joined}}}".encode()


def rows_bytes(rows: Iterable[bytes]) -> bytes:
    """The canonical array of encoded rows."""
    return OPEN + SEPARATOR.join(rows) + CLOSE


def rows_hash(rows: Iterable[bytes]) -> str:
    """hex(SHA-256) of the canonical array, without holding it."""
    context = sha256(OPEN)
    for index, row in enumerate(rows):
        if index:
            context.update(SEPARATOR)
        context.update(row)
    context.update(CLOSE)
    return context.hexdigest()
