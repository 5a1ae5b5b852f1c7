"""The order and the equality of values, on values and on their canonical text [query, Rows].

Order: null, false, true, numbers by value, texts by UTF-8 bytes, arrays and objects by their
canonical bytes. `sort_key` gives the same order to plain strings, so that an engine which knows
nothing of JSON can sort: a digit for the class, then

    text              its characters
    array or object   its canonical text
    number >= 0       "1" + length of the integer part in three digits + its text
    number < 0        "0" + (999 - that length) + its digits complemented + "~"

Two values are equal exactly when their canonical texts are.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final, TypeAlias

from hub.canonical_json import Value, encode_text

OrderKey: TypeAlias = "tuple[int] | tuple[int, int | Decimal | str]"

NULL, FALSE, TRUE, NUMBER, TEXT, CONTAINER = range(6)
_COMPLEMENT: Final = str.maketrans("0123456789.", "9876543210:")
_COMPLEMENT_BACK: Final = str.maketrans("9876543210:", "0123456789.")
_NAMES: Final = ("null", "false", "true")
_SIMPLE: Final = {"null": str(NULL), "false": str(FALSE), "true": str(TRUE)}


def order_key(value: Value) -> OrderKey:
    """Compares as the value does."""
    if value is None:
        return (NULL,)
    if isinstance(value, bool):
        return (TRUE,) if value else (FALSE,)
    if isinstance(value, int | Decimal):
        return NUMBER, value
    if isinstance(value, str):
        return TEXT, value  # Code points sort as their UTF-8 bytes do.
    return CONTAINER, encode_text(value)


def sort_key(sub_text: str) -> str:
    """The order of a value as a string, from its canonical text."""
    first = sub_text[0]
    if first == '"':
        return f"{TEXT}{json.loads(sub_text)}" if "\\" in sub_text else f"{TEXT}{sub_text[1:-1]}"
    if first in "[{":
        return f"{CONTAINER}{sub_text}"
    return _SIMPLE.get(sub_text) or number_sort_key(sub_text)


def number_sort_key(text: str) -> str:
    """The sort key of a number in canonical form."""
    if text[0] == "-":
        magnitude = text[1:]
        whole = len(magnitude.partition(".")[0])
        return f"{NUMBER}0{999 - whole:03}{magnitude.translate(_COMPLEMENT)}~"
    return f"{NUMBER}1{len(text.partition('.')[0]):03}{text}"


def text_of(key: str) -> str:
    """The canonical text whose sort key this is."""
    kind, rest = int(key[0]), key[1:]
    if kind == TEXT:
        return encode_text(rest)
    if kind == CONTAINER:
        return rest
    if kind != NUMBER:
        return _NAMES[kind]
    return rest[4:] if rest[0] == "1" else f"-{rest[4:-1].translate(_COMPLEMENT_BACK)}"


def is_integer(value: Value) -> bool:
    """Whether `sum` takes it; the reader has made an integer of 2.0 already."""
    return isinstance(value, int) and not isinstance(value, bool)
