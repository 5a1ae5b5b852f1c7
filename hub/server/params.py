"""Reading query parameters strictly: unknown, repeated or malformed ones are E.FORMAT [wire.md]."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from hub.errors import ErrorCode, VeenError
from hub.types import UINT64_MAX, Label

_HEX32 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UINT = re.compile(r"0|[1-9][0-9]{0,19}", re.ASCII)


class Params:
    """The parameters of one request; `end` refuses what nobody asked for."""

    __slots__ = ("_left",)

    def __init__(self, query: str) -> None:
        try:
            pairs = parse_qsl(
                query,
                keep_blank_values=True,
                strict_parsing=bool(query),
                errors="strict",
                max_num_fields=16,
            )
        except ValueError as flaw:
            raise VeenError(ErrorCode.FORMAT, "query string is malformed") from flaw
        self._left = dict(pairs)
        if len(self._left) != len(pairs):
            raise VeenError(ErrorCode.FORMAT, "a parameter is given twice")

    def hash(self, name: str) -> bytes | None:
        """32 bytes in lower-case hex."""
        text = self._left.pop(name, None)
        if text is None:
            return None
        if not _HEX32.fullmatch(text):
            raise VeenError(ErrorCode.FORMAT, f"{name} is not 64 lower-case hex digits")
        return bytes.fromhex(text)

    def label(self) -> Label:
        """The label, which must be there."""
        found = self.hash("label")
        if found is None:
            raise VeenError(ErrorCode.FORMAT, "label is missing")
        return Label(found)

    def uint(self, name: str) -> int | None:
        """An unsigned integer."""
        text = self._left.pop(name, None)
        if text is None:
            return None
        if not _UINT.fullmatch(text) or int(text) > UINT64_MAX:
            raise VeenError(ErrorCode.FORMAT, f"{name} is not an unsigned integer")
        return int(text)

    def need(self, name: str) -> int:
        """An unsigned integer that must be there."""
        number = self.uint(name)
        if number is None:
            raise VeenError(ErrorCode.FORMAT, f"{name} is missing")
        return number

    def flag(self, name: str) -> bool:
        """0 or 1, default 0."""
        text = self._left.pop(name, "0")
        if text not in ("0", "1"):
            raise VeenError(ErrorCode.FORMAT, f"{name} is 0 or 1")
        return text == "1"

    def end(self) -> None:
        """Nothing may be left."""
        if self._left:
            raise VeenError(ErrorCode.FORMAT, f"unknown parameter {min(self._left)!r}")
