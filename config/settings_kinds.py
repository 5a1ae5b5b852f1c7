"""Kinds of settings: how each is read from text and from TOML, and never guessed [style 4]."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

TRUE_WORDS: Final = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS: Final = frozenset({"0", "false", "no", "off"})


class KindError(ValueError):
    """A value is not of its kind; the message completes the sentence "<setting> ..."."""


class Kind(Protocol):
    """from_text reads a variable; from_value a typed value of TOML or of a flag."""

    @property
    def name(self) -> str: ...

    def from_text(self, text: str, base: Path) -> object: ...

    def from_value(self, value: object, base: Path) -> object: ...


class Text:
    def __init__(self, *, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices
        self.name = " | ".join(choices) or "text"

    def from_text(self, text: str, base: Path) -> object:
        return self.from_value(text, base)

    def from_value(self, value: object, base: Path) -> object:  # noqa: ARG002 - Kind's signature
        if not isinstance(value, str) or not value:
            raise KindError("must be text that is not empty")
        if self.choices and value not in self.choices:
            raise KindError(f"must be one of {', '.join(self.choices)}, not {value!r}")
        return value


class Integer:
    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.name = f"integer {low}..{high}"

    def from_text(self, text: str, base: Path) -> object:
        # int() alone would take " 1_000 " and other spellings of one number.
        if not (text.isascii() and text.isdigit()):
            raise KindError(f"must be a whole number, not {text!r}")
        return self.from_value(int(text), base)

    def from_value(self, value: object, base: Path) -> object:  # noqa: ARG002 - Kind's signature
        if not isinstance(value, int) or isinstance(value, bool):
            raise KindError(f"must be a whole number, not {value!r}")
        if not self.low <= value <= self.high:
            raise KindError(f"must lie between {self.low} and {self.high}, not {value}")
        return value


class Flag:
    name = "true | false"

    def from_text(self, text: str, base: Path) -> object:
        word = text.lower()
        if word not in TRUE_WORDS | FALSE_WORDS:
            raise KindError(f"must be true or false, not {text!r}")
        return self.from_value(word in TRUE_WORDS, base)

    def from_value(self, value: object, base: Path) -> object:  # noqa: ARG002 - Kind's signature
        if not isinstance(value, bool):
            raise KindError(f"must be true or false, not {value!r}")
        return value


class PathName:
    """A path; a relative one counts from its file's folder, or from the caller's."""

    name = "path"

    def from_text(self, text: str, base: Path) -> object:
        return self.from_value(text, base)

    def from_value(self, value: object, base: Path) -> object:
        if not isinstance(value, (str, Path)) or not str(value) or "\0" in str(value):
            raise KindError("must be a path")
        return base / Path(value).expanduser()


class TextList:
    """Several texts: a list in TOML, commas in a variable."""

    def __init__(self, *, hex_bytes: int | None = None) -> None:
        self.hex_bytes = hex_bytes
        self.name = "list of text" if hex_bytes is None else f"list of {hex_bytes}-byte hex"

    def from_text(self, text: str, base: Path) -> object:
        return self.from_value([item.strip() for item in text.split(",") if item.strip()], base)

    def from_value(self, value: object, base: Path) -> object:  # noqa: ARG002 - Kind's signature
        if not isinstance(value, (list, tuple)):
            raise KindError("must be a list")
        for item in value:
            if not isinstance(item, str) or not item:
                raise KindError("must hold text only")
            if self.hex_bytes is not None and not _is_hex(item, self.hex_bytes):
                raise KindError(f"must hold {2 * self.hex_bytes} lower-case hex digits per item")
        return tuple(value)


def _is_hex(text: str, length_bytes: int) -> bool:
    return len(text) == 2 * length_bytes and set(text) <= set("0123456789abcdef")


def as_text(value: object) -> str:
    """A value as a VEEN_* variable holds it, so that a child process reads the same."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
