"""Canonical JSON: one spelling of every value, read strictly and with exact numbers [Query 3.1].

Keys in UTF-8 byte order, no whitespace, raw UTF-8, JSON's short escapes, and numbers in minimal
decimal form without exponent: 2.0 and 2e0 are the integer 2, -0 is 0. What has no such form is
refused with a JSON pointer (RFC 6901): duplicate keys, lone surrogates, NaN and infinities, numbers
other than zero whose exponent in scientific form is outside -400..400 (judged on the text, before
anything is expanded), and nesting deeper than allowed.

Both directions run in the C code of `json`; Python looks closer only where that is not exact.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias, TypeVar

from hub.errors import WireError

DEPTH_MAX: Final = 64  # arrays and objects inside one another
EXPONENT_MAX: Final = 400
_INTEGER_DIGITS_MAX: Final = EXPONENT_MAX + 1
_LONG_DIGITS_MAX: Final = 4000  # int() itself stops a little later
_INTEGER_END: Final = 10**_INTEGER_DIGITS_MAX
# More digits than a text in memory has characters, so no mantissa can outweigh such an exponent.
_EXPONENT_DIGITS_MAX: Final = 18
_FLOAT_CHARACTERS_MAX: Final = 25
_OUT_OF_RANGE: Final = f"the number's exponent is outside -{EXPONENT_MAX}..{EXPONENT_MAX}"
_LONE_SURROGATE: Final = "a lone surrogate is not text"
_TOO_DEEP: Final = "too many arrays and objects inside one another"
_TEXT: Final = frozenset({str})
_ARRAYS: Final = (list, tuple)

Value: TypeAlias = "bool | int | Decimal | str | list[Value] | dict[str, Value] | None"
# What can be encoded: also a binary float, which counts as its shortest decimal spelling.
Encodable: TypeAlias = (
    "bool | int | float | Decimal | str | Sequence[Encodable] | Mapping[str, Encodable] | None"
)

_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MARK: Final = re.compile(_STRING.pattern + r"|[\[\]{},]", re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class JsonError(WireError):
    """A text or value that has no canonical form, and where that shows."""

    def __init__(self, pointer: str, reason: str, *, is_syntax: bool = False) -> None:
        super().__init__(f"{pointer}: {reason}" if pointer else reason)
        self.pointer = pointer
        self.reason = reason
        self.is_syntax = is_syntax  # not JSON at all, rather than JSON that a rule refuses


@dataclass(frozen=True, slots=True)
class Flaw:
    """Stands in a marked tree where a rule is broken; `steps` lead on from there."""

    reason: str
    steps: tuple[str | int, ...] = ()


class _Broken(Exception):  # noqa: N818 - never leaves this module
    """A rule is broken; the steps to the place are added on the way out, innermost first."""

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str | int] = [*steps]


class _NotAsSpelled(Exception):  # noqa: N818 - never leaves this module
    """The number is in order, but a binary float does not print it."""


def pointer(*steps: str | int) -> str:
    """The JSON pointer of these steps, as text that can always be sent."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join([f"/{step}" for step in escaped]).encode(errors="replace").decode()


# --- reading ---------------------------------------------------------------------------------


def parse(source: bytes | str, *, depth_max: int = DEPTH_MAX, is_bounded: bool = True) -> Value:
    """The value of a JSON text, or JsonError at its first flaw; only metric results have no bound.

    Without the bound integers may have up to 4000 digits; the bound of other numbers stays.
    """
    text = _text_of(source, depth_max)
    try:
        value: Value = _decode(_STRICT if is_bounded else _LONG, text)
    except _Broken:
        raise next(_flaws(_decode(_MARKING, text))) from None
    if _may_hold_surrogates(text, source):
        for flaw in _flaws(_mark_surrogates(value)):
            raise flaw
    return value


def parse_marked(source: bytes | str, *, depth_max: int = DEPTH_MAX) -> object:
    """Like `parse`, but a broken rule leaves a Flaw in the tree, which `encode` then refuses.

    So each event of a batch stands or falls by itself; only what is no JSON raises here.
    """
    text = _text_of(source, depth_max)
    try:
        value: object = _decode(_STRICT, text)
    except _Broken:
        value = _decode(_MARKING, text)
    return _mark_surrogates(value) if _may_hold_surrogates(text, source) else value


def _text_of(source: bytes | str, depth_max: int) -> str:
    try:
        text = source if isinstance(source, str) else source.decode()
    except UnicodeDecodeError as flaw:
        raise JsonError("", f"byte {flaw.start} is not UTF-8", is_syntax=True) from flaw
    # Text with so few brackets cannot nest too deep; counting them costs next to nothing.
    if text.count("[") + text.count("{") > depth_max:
        _check_depth(text, depth_max)
    return text


def _decode(decoder: json.JSONDecoder, text: str) -> Value:
    try:
        value: Value = decoder.decode(text)
    except json.JSONDecodeError as flaw:
        reason = f"not JSON at character {flaw.pos}: {flaw.msg}"
        raise JsonError("", reason, is_syntax=True) from None
    return value


def _check_depth(text: str, depth_max: int) -> None:
    """Raise before any parser descends; where the text is no JSON, the parser says so later."""
    steps: list[str | int] = []  # a key for each open object, an index for each open array
    expects_key = False
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in "[{":
            if len(steps) == depth_max:
                raise JsonError(pointer(*steps), _TOO_DEEP)
            steps.append(0 if mark == "[" else "")
            expects_key = mark == "{"
        elif mark in "]}":
            if steps:
                steps.pop()
        elif mark == ",":
            step = steps[-1] if steps else 0
            expects_key = isinstance(step, str)
            if steps and isinstance(step, int):
                steps[-1] = step + 1
        elif expects_key:
            steps[-1] = _unquote(mark)
            expects_key = False


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text))
    except json.JSONDecodeError:
        return text[1:-1]


def _integer(text: str) -> int:
    # int() takes time that grows with the square of the digits: count them first.
    if len(text) > _INTEGER_DIGITS_MAX and len(text.removeprefix("-")) > _INTEGER_DIGITS_MAX:
        raise _Broken(_OUT_OF_RANGE)
    return int(text)


def _long_integer(text: str) -> int:
    if len(text) > _LONG_DIGITS_MAX:
        raise _Broken(_OUT_OF_RANGE)
    return int(text)


def _number(text: str) -> int | Decimal:
    """A number with fraction or exponent, judged before anything is expanded."""
    mantissa, _, exponent_text = text.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    exponent = exponent_text.lstrip("+-0") or "0"  # int() refuses thousands of leading zeros
    if len(exponent) > _EXPONENT_DIGITS_MAX:
        raise _Broken(_OUT_OF_RANGE)
    last_place = int(f"-{exponent}" if exponent_text[:1] == "-" else exponent) - len(fraction)
    if not -EXPONENT_MAX <= last_place + len(digits) - 1 <= EXPONENT_MAX:
        raise _Broken(_OUT_OF_RANGE)
    shortest = digits.rstrip("0")
    last_place += len(digits) - len(shortest)
    sign = "-" if text[0] == "-" else ""
    if last_place >= 0:
        return int(sign + shortest + "0" * last_place)
    return Decimal(f"{sign}{shortest}E{last_place}")


def _as_spelled(text: str) -> float:
    """A float that prints as this very text, where the text is canonical."""
    if len(text) < _FLOAT_CHARACTERS_MAX and text[-1] != "0" and "e" not in text:
        number = float(text)
        if repr(number) == text:
            return number
    raise _NotAsSpelled


def _constant(text: str) -> Value:
    raise _Broken(f"{text} is not a JSON number")


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) != len(pairs):
        count = Counter(key for key, _ in pairs)
        repeated = next(key for key, times in count.items() if times > 1)
        raise _Broken("the key occurs more than once in its object", repeated)
    return found


_Read = TypeVar("_Read")


def _marking(read: Callable[[_Read], object]) -> Callable[[_Read], object]:
    def read_or_mark(source: _Read) -> object:
        try:
            return read(source)
        except _Broken as broken:
            return Flaw(broken.reason, tuple(broken.steps))

    return read_or_mark


_EXACT: Final[dict[str, Any]] = {"object_pairs_hook": _object, "parse_constant": _constant}
_STRICT: Final = json.JSONDecoder(**_EXACT, parse_int=_integer, parse_float=_number)
_LONG: Final = json.JSONDecoder(**_EXACT, parse_int=_long_integer, parse_float=_number)
_SPELLED: Final = json.JSONDecoder(**_EXACT, parse_int=_integer, parse_float=_as_spelled)
_MARKING: Final = json.JSONDecoder(
    object_pairs_hook=_marking(_object),
    parse_int=_marking(_integer),
    parse_float=_marking(_number),
    parse_constant=_marking(_constant),
)


def _may_hold_surrogates(text: str, source: bytes | str) -> bool:
    if "\\u" in text and _ESCAPED_SURROGATE.search(text):
        return True
    # UTF-8 bytes cannot hold one; a str given as such can.
    return isinstance(source, str) and not text.isascii() and bool(_SURROGATE.search(text))


def _mark_surrogates(value: object) -> object:
    """The tree with a Flaw in the place of every text that is not Unicode."""
    if isinstance(value, str):
        return Flaw(_LONE_SURROGATE) if _SURROGATE.search(value) else value
    if isinstance(value, list):
        return [_mark_surrogates(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if _SURROGATE.search(key):
                return Flaw(_LONE_SURROGATE, (key,))
        return {key: _mark_surrogates(item) for key, item in value.items()}
    return value


def _flaws(value: object, *steps: str | int) -> Iterator[JsonError]:
    """Every flaw of a marked tree, in the order of the text."""
    if isinstance(value, Flaw):
        yield JsonError(pointer(*steps, *value.steps), value.reason)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flaws(item, *steps, key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _flaws(item, *steps, index)


# --- writing ---------------------------------------------------------------------------------


def canonicalize(source: bytes | str, *, depth_max: int = DEPTH_MAX) -> bytes:
    """The canonical bytes of a JSON text, or JsonError; all in C where the numbers are plain."""
    text = _text_of(source, depth_max)
    try:
        return _ENCODER.encode(_decode(_SPELLED, text)).encode()
    except (_Broken, _NotAsSpelled, UnicodeEncodeError):
        # Something is wrong, or exact arithmetic is needed: the careful way says which.
        return encode(parse(source, depth_max=depth_max), depth_max=depth_max)


def encode(value: object, *, depth_max: int = DEPTH_MAX, is_bounded: bool = True) -> bytes:
    """`encode_text` as UTF-8."""
    return encode_text(value, depth_max=depth_max, is_bounded=is_bounded).encode()


def encode_text(value: object, *, depth_max: int = DEPTH_MAX, is_bounded: bool = True) -> str:
    """The canonical text of an Encodable, or JsonError; only metric results have no bound."""
    exponent_max = EXPONENT_MAX if is_bounded else None
    try:
        text = _Speller(encode_basestring, exponent_max).spell(value, depth_max)
        if not text.isascii() and _SURROGATE.search(text):
            _Speller(_quote_or_refuse, exponent_max).spell(value, depth_max)
    except _Broken as broken:
        raise JsonError(pointer(*reversed(broken.steps)), broken.reason) from None
    return text


# Python sorts by code point, which is UTF-8 byte order. What it is given has just been read.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
)
_SIMPLE: Final[dict[object, str]] = {None: "null", True: "true", False: "false"}


class _Speller:
    """Spells any value of a program, exactly; `depth` is how many levels may still open."""

    __slots__ = ("_exponent_max", "_quote")

    def __init__(self, quote: Callable[[str], str], exponent_max: int | None) -> None:
        self._quote = quote
        self._exponent_max = exponent_max

    def spell(self, value: object, depth: int) -> str:
        if isinstance(value, str):
            return self._quote(value)
        if value is None or isinstance(value, bool):
            return _SIMPLE[value]
        if isinstance(value, int):
            if self._exponent_max is not None and not -_INTEGER_END < value < _INTEGER_END:
                raise _Broken(_OUT_OF_RANGE)
            return int.__repr__(value)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, _ARRAYS):
            return self._array(value, depth)
        return self._seldom(value, depth)

    def _seldom(self, value: object, depth: int) -> str:
        if isinstance(value, float):
            return self._decimal(Decimal(float.__repr__(value)))
        if isinstance(value, Decimal):
            return self._decimal(value)
        if isinstance(value, Mapping):  # Asking an abstract class is slow, so it comes last.
            return self._object(value, depth)
        if isinstance(value, Flaw):
            raise _Broken(value.reason, *value.steps)
        raise _Broken(f"a {type(value).__name__} is not a JSON value")

    def _object(self, value: Mapping[str, object], depth: int) -> str:
        if depth == 0:
            raise _Broken(_TOO_DEEP)
        # A program's own mapping may have keys of any type, whatever its annotation says.
        if not _TEXT.issuperset(map(type, value)) and not all(isinstance(k, str) for k in value):
            raise _Broken("a key is not text")
        parts = []
        key = ""
        try:
            for key in sorted(value):
                parts.append(f"{self._quote(key)}:{self.spell(value[key], depth - 1)}")
        except _Broken as broken:
            broken.steps.append(key)
            raise
        return f"{{{','.join(parts)}}}"

    def _array(self, value: Sequence[object], depth: int) -> str:
        if depth == 0:
            raise _Broken(_TOO_DEEP)
        parts: list[str] = []
        try:
            for item in value:
                parts.append(self.spell(item, depth - 1))  # noqa: PERF401 - the index is needed
        except _Broken as broken:
            broken.steps.append(len(parts))
            raise
        return f"[{','.join(parts)}]"

    def _decimal(self, value: Decimal) -> str:
        if not value.is_finite():
            raise _Broken(f"{value} is not a JSON number")
        if not value:
            return "0"
        if self._exponent_max is not None and abs(value.adjusted()) > self._exponent_max:
            raise _Broken(_OUT_OF_RANGE)
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text


def _quote_or_refuse(text: str) -> str:
    if _SURROGATE.search(text):
        raise _Broken(_LONE_SURROGATE)
    return encode_basestring(text)
