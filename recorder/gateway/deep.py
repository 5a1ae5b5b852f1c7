"""Cutting what nests too deep out of a request, so that it is one event's flaw [query, Depth].

What is cut is checked to be JSON, so that only a text that is none is refused as a whole.
"""

from __future__ import annotations

import json
import re
from typing import Final

from hub.canonical_json import JsonError

_MARK: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_CUT: Final = "null"  # stands where the rest was; its event is too deep without it already
# Numbers stay text: what is cut is never looked at again.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def cut(text: str, depth_max: int) -> str:
    """The text without what is inside `depth_max` arrays and objects; in one pass, however deep."""
    open_pieces: list[list[str]] = [[]]  # of the text, and of each cut container that is open
    start = depth = 0
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in "[{":
            if depth and depth % depth_max == 0:
                open_pieces[-1].append(text[start : match.start()])
                open_pieces.append([])
                start = match.start()
            depth += 1
        elif mark in "]}":
            depth -= 1
            if depth > 0 and depth % depth_max == 0:
                open_pieces[-1].append(text[start : match.end()])
                _check("".join(open_pieces.pop()))
                open_pieces[-1].append(_CUT)
                start = match.end()
            elif depth < 0:
                break  # the parser says where
    if len(open_pieces) > 1:
        raise JsonError("", "an array or object has no end", is_syntax=True)
    return "".join((*open_pieces[0], text[start:]))


def _check(text: str) -> None:
    try:
        _DECODER.decode(text)
    except json.JSONDecodeError as flaw:
        reason = f"not JSON inside the deepest arrays and objects: {flaw.msg}"
        raise JsonError("", reason, is_syntax=True) from None
