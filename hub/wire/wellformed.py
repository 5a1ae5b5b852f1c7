"""Where any well-formed CBOR item ends, also one that no wire object may be [RFC 8949, App. C].

A sequence is cut with it, so that an item of another spelling falls by itself and takes no
neighbour with it; nothing is decoded here.
"""

from __future__ import annotations

from typing import Final

from hub.errors import WireError
from hub.wire.cbor import ARRAY, BSTR, DEPTH_MAX, MAP, TSTR

_TAG: Final = 6
_OTHER: Final = 7  # simple values, floats, the break
_SIMPLE_MIN: Final = 32  # smaller ones have no second byte


class Walk:
    """Steps over items from an offset on; all of them share one bound on what is inside."""

    __slots__ = ("_data", "_items_left", "pos")

    def __init__(self, data: bytes, pos: int, *, items_max: int) -> None:
        self._data = data
        self._items_left = items_max
        self.pos = pos

    def item(self, depth: int = DEPTH_MAX) -> int:
        """Step over one item and return its major type."""
        start = self.pos
        self._items_left -= 1
        if self._items_left < 0:
            raise WireError(f"byte {start}: too many items")
        major, number = self._head()
        if major in (BSTR, TSTR) and number is not None:
            self._take(number)
        elif major in (ARRAY, MAP, _TAG) or number is None:
            if depth == 0:
                raise WireError(f"byte {start}: nested too deep")
            if number is None:
                self._until_break(major, depth - 1)
            else:
                self._inside(major, number, depth - 1)
        return major

    def _head(self) -> tuple[int, int | None]:
        """Major type and number of the next item; None where its length is indefinite."""
        start = self.pos
        first = self._take(1)[0]
        major, info = first >> 5, first & 31
        if info < 24:
            return major, info
        if info > 27:
            if info < 31 or major not in (BSTR, TSTR, ARRAY, MAP):
                raise WireError(f"byte {start}: reserved value or a break without a beginning")
            return major, None
        number = int.from_bytes(self._take(1 << (info - 24)), "big")
        if major == _OTHER and info == 24 and number < _SIMPLE_MIN:
            raise WireError(f"byte {start}: simple value {number} has one byte")
        return major, number

    def _inside(self, major: int, number: int, depth: int) -> None:
        count = {ARRAY: number, MAP: 2 * number}.get(major, 1)
        if count > len(self._data) - self.pos:
            raise WireError(f"byte {self.pos}: {count} items claimed, too few bytes remain")
        for _ in range(count):
            self.item(depth)

    def _until_break(self, major: int, depth: int) -> None:
        count = 0
        while self._data[self.pos : self.pos + 1] != b"\xff":
            start = self.pos
            if major in (BSTR, TSTR) and self._head()[1] is None:
                raise WireError(f"byte {start}: a string of strings of strings")
            self.pos = start
            if self.item(depth) != major and major in (BSTR, TSTR):
                raise WireError(f"byte {start}: no chunk of the string around it")
            count += 1
        if major == MAP and count % 2:
            raise WireError(f"byte {self.pos}: a key without a value")
        self.pos += 1

    def _take(self, size: int) -> bytes:
        start, self.pos = self.pos, self.pos + size
        if self.pos > len(self._data):
            raise WireError(f"byte {start}: {size} bytes claimed, too few remain")
        return self._data[start : self.pos]
