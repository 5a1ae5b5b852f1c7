"""The arguments of an act, read strictly; every flaw is told at once with its place [SDR0 3.2]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hub.canonical_json import pointer
from recorder.codes import Detail, RecordCode, RecordError

_HEX32: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
LIST_MAX: Final = 1024
TEXT_CHARACTERS_MAX: Final = 512


class Arguments:
    """One object of known keys; null counts as absent. Ask for every key, then `close`."""

    def __init__(self, found: object) -> None:
        self._flaws: list[Detail] = []
        if not isinstance(found, Mapping):
            self.flaw("not an object")
            self.close()
        assert isinstance(found, Mapping)
        self._found: dict[str, object] = {str(key): value for key, value in found.items()}
        self._asked: set[str] = set()

    def flaw(self, reason: str, *steps: str | int) -> None:
        """Note what is wrong with a field."""
        self._flaws.append(Detail(pointer="/args" + pointer(*steps), reason=reason))

    def close(self) -> None:
        """Raise invalid_parameter when anything was wrong or nobody asked for a key."""
        if not self._flaws:
            for key in sorted(self._found.keys() - self._asked):
                self.flaw("unknown key", key)
        if self._flaws:
            flaws = sorted(self._flaws, key=lambda one: one.pointer)
            message = "the arguments of the act are refused"
            raise RecordError(RecordCode.INVALID_PARAMETER, message, details=flaws)

    def _take(self, key: str) -> object:
        self._asked.add(key)
        return self._found.get(key)

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self._found.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Text; required unless there is a default."""
        value = self._take(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.flaw("required", key)
        elif not isinstance(value, str) or len(value) > TEXT_CHARACTERS_MAX:
            self.flaw(f"not text of at most {TEXT_CHARACTERS_MAX} characters", key)
        else:
            return value
        return ""

    def name(self, key: str, default: str | None = None) -> str:
        """A name of a producer, reader or token: safe in a path, a log and a table."""
        value = self.text(key, default)
        if value and not _NAME.fullmatch(value):
            self.flaw(f"not {_NAME.pattern}", key)
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """One of a few words."""
        value = self.text(key, default)
        if value not in allowed and (value or self.has(key)):
            self.flaw(f"not one of {', '.join(allowed)}", key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, each once, sorted; absent is empty."""
        value = self._take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > LIST_MAX:
            self.flaw(f"not a list of at most {LIST_MAX}", key)
            return ()
        found = set()
        for index, item in enumerate(value):
            if isinstance(item, str) and 0 < len(item) <= TEXT_CHARACTERS_MAX:
                found.add(item)
            else:
                self.flaw("not text", key, index)
        return tuple(sorted(found))

    def some_texts(self, key: str) -> tuple[str, ...]:
        """As `texts`, at least one."""
        value = self.texts(key)
        if not value and not self._flaws:
            self.flaw("required", key)
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self._take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.flaw("not true or false", key)
            return default
        return value

    def integer(self, key: str, *, low: int, high: int, default: int | None = None) -> int:
        """A whole number within bounds; required unless there is a default."""
        value = self._take(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.flaw("required", key)
        elif not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.flaw(f"not a whole number from {low} to {high}", key)
        else:
            return value
        return low

    def hex32(self, key: str) -> bytes:
        """32 bytes as lower-case hex."""
        value = self.text(key)
        if _HEX32.fullmatch(value):
            return bytes.fromhex(value)
        if value:
            self.flaw("not 64 lower-case hex digits", key)
        return bytes(32)

    def hex32_or_none(self, key: str) -> bytes | None:
        """As `hex32`, where it may be absent."""
        if self.has(key):
            return self.hex32(key)
        self._take(key)
        return None

    def inner(self, key: str) -> Mapping[str, object]:
        """An object whose keys are names; absent is empty."""
        value = self._take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or len(value) > LIST_MAX:
            self.flaw("not an object", key)
            return {}
        return {str(name): item for name, item in value.items()}
