"""Fields of a JSON document of ours, read strictly; a flaw is told by its pointer [RFC 6901]."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Final, Self

from hub.canonical_json import Value
from hub.errors import WireError

_HEX32: Final = re.compile(r"[0-9a-f]{64}")


class Fields:
    """An object with known keys, read strictly; null counts as absent."""

    def __init__(
        self, found: Value, where: str, required: frozenset[str], optional: frozenset[str]
    ) -> None:
        if not isinstance(found, dict):
            raise WireError(f"{where or '/'}: expected an object")
        unknown = found.keys() - required - optional
        if unknown:
            raise WireError(f"{where}/{min(unknown)}: unknown key")
        missing = [key for key in sorted(required) if found.get(key) is None]
        if missing:
            raise WireError(f"{where}/{missing[0]}: required")
        self._found = found
        self._where = where

    @classmethod
    def among(cls, found: Value, where: str = "") -> Self:
        """An object of which some fields are read, whatever else it says."""
        return cls(found, where, frozenset(), frozenset(found if isinstance(found, dict) else ()))

    def value(self, key: str) -> Value:
        """Any value; None where there is none."""
        return self._found.get(key)

    def text(self, key: str) -> str:
        """A text."""
        return text_of(self._found.get(key), f"{self._where}/{key}")

    def text_or_none(self, key: str) -> str | None:
        """A text, or None where there is none."""
        return None if self._found.get(key) is None else self.text(key)

    def hex32(self, key: str) -> bytes:
        """32 bytes in lower-case hex."""
        return hex32_of(self._found.get(key), f"{self._where}/{key}")

    def base64(self, key: str) -> bytes:
        """Bytes in standard base64."""
        try:
            return b64decode(self.text(key), validate=True)
        except (binascii.Error, ValueError) as flaw:
            raise WireError(f"{self._where}/{key}: not base64") from flaw

    def uint(self, key: str) -> int:
        """A number from 0 on."""
        value = self._found.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise WireError(f"{self._where}/{key}: expected a number from 0 on")
        return value

    def items(self, key: str) -> list[Value]:
        """A list."""
        value = self._found.get(key)
        if not isinstance(value, list):
            raise WireError(f"{self._where}/{key}: expected a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        found = enumerate(self.items(key))
        return tuple(text_of(one, f"{self._where}/{key}/{number}") for number, one in found)

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._found.get(key)
        if not isinstance(value, bool):
            raise WireError(f"{self._where}/{key}: expected true or false")
        return value

    def inner(self, key: str) -> Fields:
        """An object in this one, read as `among` does."""
        return Fields.among(self._found.get(key), f"{self._where}/{key}")


def text_of(found: Value, where: str) -> str:
    """The text that stands at a place, or E.FORMAT."""
    if not isinstance(found, str):
        raise WireError(f"{where}: expected text")
    return found


def hex32_of(found: Value, where: str) -> bytes:
    """The 32 bytes whose lower-case hex stands at a place, or E.FORMAT."""
    text = text_of(found, where)
    if not _HEX32.fullmatch(text):
        raise WireError(f"{where}: expected 64 lower-case hex digits")
    return bytes.fromhex(text)
