"""The only CBOR reader and writer of the wire: deterministic, strict, bounded [SSOT 3.1].

Definite lengths, minimal heads, no tags, no floats, no duplicate keys, no trailing bytes. Claimed
lengths are checked against the bytes that remain before anything is allocated. General decoders
accept far more than one spelling of a value, and two spellings mean two hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Self, TypeAlias

from hub.errors import WireError

UINT: Final = 0
NINT: Final = 1
BSTR: Final = 2
TSTR: Final = 3
ARRAY: Final = 4
MAP: Final = 5
NULL: Final = 0xF6
FALSE: Final = 0xF4
TRUE: Final = 0xF5
DEPTH_MAX: Final = 16  # of overlay bodies; core objects are read field by field
ITEMS_MAX: Final = 2**18  # of one overlay body: one byte can cost 70 bytes of memory

Value: TypeAlias = (
    "int | bytes | str | bool | Sequence[Value] | Mapping[int, Value] | Mapping[str, Value] | None"
)

_SIMPLE: Final = {FALSE: False, TRUE: True, NULL: None}
_SIMPLE_BYTES: Final = {value: bytes((first,)) for first, value in _SIMPLE.items()}


class Reader:
    """Reads one item field by field; every method raises E.FORMAT on another spelling."""

    __slots__ = ("_data", "_items_left", "_pos")

    def __init__(self, data: bytes, pos: int = 0, *, items_max: int = ITEMS_MAX) -> None:
        self._data = data
        self._pos = pos
        self._items_left = items_max

    @property
    def pos(self) -> int:
        """Offset of the next unread byte."""
        return self._pos

    def _head(self, major: int) -> int:
        data, pos = self._data, self._pos
        if pos >= len(data):
            raise WireError(f"truncated at byte {pos}")
        first = data[pos]
        if first >> 5 != major:
            raise WireError(f"byte {pos}: major type {first >> 5}, expected {major}")
        info = first & 31
        if info < 24:
            self._pos = pos + 1
            return info
        if info > 27:
            raise WireError(f"byte {pos}: indefinite or reserved length")
        width = 1 << (info - 24)
        end = pos + 1 + width
        if end > len(data):
            raise WireError(f"truncated at byte {pos}")
        number = int.from_bytes(data[pos + 1 : end], "big")
        if number < 24 or (width > 1 and number >> (4 * width) == 0):
            raise WireError(f"byte {pos}: integer is not minimal")
        self._pos = end
        return number

    def uint(self, *, exactly: int | None = None, maximum: int | None = None) -> int:
        """An unsigned integer."""
        pos = self._pos
        number = self._head(UINT)
        if exactly is not None and number != exactly:
            raise WireError(f"byte {pos}: {number}, expected {exactly}")
        if maximum is not None and number > maximum:
            raise WireError(f"byte {pos}: {number} is over {maximum}")
        return number

    def bstr(self, size: int | None = None, *, maximum: int | None = None) -> bytes:
        """A byte string, of exactly `size` bytes where given."""
        pos = self._pos
        length = self._head(BSTR)
        if size is not None and length != size:
            raise WireError(f"byte {pos}: {length} bytes, expected {size}")
        if maximum is not None and length > maximum:
            raise WireError(f"byte {pos}: {length} bytes, at most {maximum}")
        return self._take(length)

    def tstr(self, *, maximum: int | None = None) -> str:
        """A text string in valid UTF-8."""
        pos = self._pos
        length = self._head(TSTR)
        if maximum is not None and length > maximum:
            raise WireError(f"byte {pos}: {length} bytes of text, at most {maximum}")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as flaw:
            raise WireError(f"byte {pos}: text is not UTF-8") from flaw

    def _take(self, length: int) -> bytes:
        pos = self._pos
        end = pos + length
        if end > len(self._data):
            raise WireError(f"byte {pos}: {length} bytes claimed, {len(self._data) - pos} remain")
        self._pos = end
        return self._data[pos:end]

    def bstr_or_null(self, size: int) -> bytes | None:
        """A byte string, or the null that stands for an absent MSG.auth_ref."""
        if self._peek() == NULL:
            self._pos += 1
            return None
        return self.bstr(size)

    def array(self, length: int) -> Self:
        """Enter an array of exactly `length` items."""
        pos = self._pos
        claimed = self._head(ARRAY)
        if claimed != length:
            raise WireError(f"byte {pos}: array of {claimed}, expected {length}")
        return self

    def array_length(self, *, minimum: int = 0, maximum: int) -> int:
        """Enter an array and return its length, bounded also by the bytes that remain."""
        return self._length(ARRAY, minimum, maximum, 1)

    def map_length(self, *, minimum: int = 0, maximum: int) -> int:
        """Enter a map and return its number of pairs."""
        return self._length(MAP, minimum, maximum, 2)

    def _length(self, major: int, minimum: int, maximum: int, item_bytes: int) -> int:
        pos = self._pos
        length = self._head(major)
        if not minimum <= length <= maximum:
            raise WireError(f"byte {pos}: {length} items, allowed {minimum} to {maximum}")
        if length * item_bytes > len(self._data) - self._pos:
            raise WireError(f"byte {pos}: {length} items claimed, too few bytes remain")
        return length

    def key(self, number: int) -> Self:
        """The next map key, which must be exactly this integer."""
        self.uint(exactly=number)
        return self

    def name(self, text: str) -> Self:
        """The next map key, which must be exactly this text."""
        pos = self._pos
        if self.tstr(maximum=256) != text:
            raise WireError(f"byte {pos}: expected key {text!r}")
        return self

    def _peek(self) -> int:
        if self._pos >= len(self._data):
            raise WireError(f"truncated at byte {self._pos}")
        return self._data[self._pos]

    def any(self, depth: int = DEPTH_MAX) -> Value:
        """Any item of the deterministic subset: the body of an overlay."""
        self._items_left -= 1
        if self._items_left < 0:
            raise WireError(f"byte {self._pos}: too many items")
        first = self._peek()
        major = first >> 5
        if first in _SIMPLE:
            self._pos += 1
            return _SIMPLE[first]
        if major > MAP:
            raise WireError(f"byte {self._pos}: tag, float or reserved value")
        if major < ARRAY:
            return self._scalar(major)
        if depth == 0:
            raise WireError(f"byte {self._pos}: nested too deep")
        if major == ARRAY:
            return [self.any(depth - 1) for _ in range(self.array_length(maximum=ITEMS_MAX))]
        return self._any_map(depth)

    def _scalar(self, major: int) -> int | bytes | str:
        if major == UINT:
            return self.uint()
        if major == NINT:
            return -1 - self._head(NINT)
        return self.bstr() if major == BSTR else self.tstr()

    def _any_map(self, depth: int) -> Mapping[int, Value] | Mapping[str, Value]:
        """Text keys without a repeat, or unsigned integer keys in ascending order; never both."""
        pairs = self.map_length(maximum=ITEMS_MAX)
        if pairs and self._peek() >> 5 != TSTR:
            return self._number_map(pairs, depth)
        found: dict[str, Value] = {}
        for _ in range(pairs):
            pos = self._pos
            key = self.tstr()
            if key in found:
                raise WireError(f"byte {pos}: duplicate key {key!r}")
            found[key] = self.any(depth - 1)
        return found

    def _number_map(self, pairs: int, depth: int) -> dict[int, Value]:
        found: dict[int, Value] = {}
        last = -1
        for _ in range(pairs):
            pos = self._pos
            key = self.uint()
            if key <= last:
                raise WireError(f"byte {pos}: key {key} after {last}")
            found[key] = self.any(depth - 1)
            last = key
        return found

    def skip(self, depth: int = DEPTH_MAX) -> None:
        """Step over one well-formed item without building it."""
        pending = [1]  # items still to come, innermost container last
        while pending:
            if pending[-1] == 0:
                pending.pop()
                continue
            pending[-1] -= 1
            inside = self._skip_head()
            if inside is None:
                continue
            if len(pending) > depth:
                raise WireError(f"byte {self._pos}: nested too deep")
            self._items_left -= inside
            if self._items_left < 0:
                raise WireError(f"byte {self._pos}: too many items")
            pending.append(inside)

    def _skip_head(self) -> int | None:
        """Step over a scalar, or over a container's head giving the number of items inside."""
        pos, first = self._pos, self._peek()
        major = first >> 5
        if first in _SIMPLE:
            self._pos += 1
            return None
        if major > MAP:
            raise WireError(f"byte {pos}: tag, float or reserved value")
        number = self._head(major)
        remain = len(self._data) - self._pos
        if major < ARRAY:
            if major in (BSTR, TSTR):
                if number > remain:
                    raise WireError(f"byte {pos}: {number} bytes claimed, {remain} remain")
                self._pos += number
            return None
        items = 2 * number if major == MAP else number
        if items > remain:
            raise WireError(f"byte {pos}: {items} items claimed, too few bytes remain")
        return items

    def end(self) -> None:
        """Nothing may follow: trailing bytes would give one object two encodings."""
        if self._pos != len(self._data):
            raise WireError(f"{len(self._data) - self._pos} trailing bytes")

    def seek(self, pos: int) -> None:
        """Go on at an offset that the caller knows to be the end of an item."""
        self._pos = pos

    def raw(self, start: int) -> bytes:
        """The exact bytes from `start` up to here."""
        return self._data[start : self._pos]


def decode(data: bytes, *, depth: int = DEPTH_MAX) -> Value:
    """One whole item of the deterministic subset."""
    reader = Reader(data)
    value = reader.any(depth)
    reader.end()
    return value


def skip(data: bytes, pos: int = 0, *, depth: int = DEPTH_MAX) -> int:
    """The offset behind the well-formed item at `pos`, without building it."""
    reader = Reader(data, pos)
    reader.skip(depth)
    return reader.pos


def split_sequence(data: bytes, *, items_max: int) -> list[bytes]:
    """The items of a CBOR Sequence (RFC 8742), each as its exact bytes."""
    items: list[bytes] = []
    pos = 0
    while pos < len(data):
        if len(items) == items_max:
            raise WireError(f"more than {items_max} items")
        end = skip(data, pos)
        items.append(data[pos:end])
        pos = end
    return items


def head(major: int, number: int) -> bytes:
    """The minimal head of one item."""
    first = major << 5
    if number < 24:
        return bytes((first | number,))
    if number < 0x100:
        return bytes((first | 24, number))
    if number < 0x10000:
        return bytes((first | 25,)) + number.to_bytes(2, "big")
    if number < 0x100000000:
        return bytes((first | 26,)) + number.to_bytes(4, "big")
    return bytes((first | 27,)) + number.to_bytes(8, "big")


def uint(number: int) -> bytes:
    """An unsigned integer."""
    return head(UINT, number)


def bstr(data: bytes) -> bytes:
    """A byte string."""
    return head(BSTR, len(data)) + data


def encode(value: Value) -> bytes:
    """Deterministic bytes of a value; a mapping keeps its order, which is the schema's."""
    if value is None or isinstance(value, bool):
        return _SIMPLE_BYTES[value]
    if isinstance(value, int):
        return head(UINT, value) if value >= 0 else head(NINT, -1 - value)
    if isinstance(value, bytes):
        return bstr(value)
    if isinstance(value, str):
        text = value.encode()
        return head(TSTR, len(text)) + text
    if isinstance(value, Mapping):
        pairs = b"".join(encode(key) + encode(item) for key, item in value.items())
        return head(MAP, len(value)) + pairs
    assert isinstance(value, list | tuple), type(value)  # a bytearray would pass as a sequence
    return head(ARRAY, len(value)) + b"".join(map(encode, value))
