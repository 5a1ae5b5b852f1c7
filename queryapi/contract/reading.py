"""Flaws of a descriptor while it is read, so that all of them are told at once [Query 7.6]."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from hub.canonical_json import pointer
from queryapi.contract.codes import QueryCode, QueryError
from recorder.codes import Detail

Steps: TypeAlias = tuple[str | int, ...]


class Flaws:
    """Collects what is wrong and where; reading goes on with a stand-in value meanwhile."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Detail] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, reason: str, *steps: str | int) -> None:
        """One flaw at the place the steps lead to."""
        self._found.append(Detail(pointer=pointer(*steps), reason=reason))

    def raise_if_any(self) -> None:
        """Raise invalid_query_descriptor with every flaw, in the order they were met."""
        if self._found:
            message = "the query descriptor is refused"
            raise QueryError(
                QueryCode.INVALID_QUERY_DESCRIPTOR, message, details=tuple(self._found)
            )

    def members(
        self, found: object, known: Collection[str], *steps: str | int
    ) -> dict[str, object]:
        """The members of an object; another type or an unknown key is a flaw."""
        if not isinstance(found, dict):
            self.add("not an object", *steps)
            return {}
        for key in found:
            if key not in known:
                self.add("unknown key", *steps, key)
        return found

    def text(self, found: object, *steps: str | int) -> str | None:
        """A text, or None where there is none."""
        if found is None or isinstance(found, str):
            return found
        self.add("not text", *steps)
        return None

    def texts(self, found: object, maximum: int, *steps: str | int) -> tuple[str, ...]:
        """A list of texts as a set, sorted by UTF-8 bytes."""
        if not isinstance(found, list):
            self.add("not a list", *steps)
            return ()
        if not all(isinstance(one, str) for one in found):
            self.add("not a list of texts", *steps)
            return ()
        unique = tuple(sorted(set(found)))
        if len(unique) > maximum:
            self.add(f"more than {maximum}", *steps)
        return unique
