"""Whether a text is canonical JSON already, asked once for each event that is read [query, JSON].

msgspec reads and spells in C at a tenth of the cost of `canonical_json`. Where what it spells is
the text again, the text has one spelling only: keys sorted and each once, no space, the shortest
escapes. What is in doubt, such as a number with many digits, goes to the careful way.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hub import canonical_json

_DIGITS_MAX: Final = canonical_json.EXPONENT_MAX + 1
_FLOAT_CHARACTERS_MAX: Final = 25
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (_DIGITS_MAX + 1))


class _InDoubt(Exception):  # noqa: N818 - never leaves this module
    """A number that the fast way does not judge."""


def _fraction(text: str) -> float:
    """A float that prints as this very text, where that is the canonical spelling."""
    number = float(text)
    if (
        len(text) < _FLOAT_CHARACTERS_MAX
        and text[-1] != "0"
        and "e" not in text
        and (repr(number) == text)
    ):
        return number
    raise _InDoubt


_DECODER: Final = msgspec.json.Decoder(float_hook=_fraction)
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def is_canonical(text: bytes) -> bool:
    """Whether these bytes are what `canonicalize` makes of them; JsonError for no JSON at all."""
    return _is_plain(text) or canonical_json.canonicalize(text) == text


def _is_plain(text: bytes) -> bool:
    """The common payload; False when in doubt."""
    if text.count(b"{") + text.count(b"[") > canonical_json.DEPTH_MAX:
        return False
    if len(text) > _DIGITS_MAX and _LONG_NUMBER.search(text):
        return False
    try:
        return _ENCODER.encode(_DECODER.decode(text)) == text
    except (_InDoubt, msgspec.MsgspecError, ValueError, RecursionError):
        return False
