"""What a self-test says: every check by name, whether it held, and if not why [interfaces]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from hub.errors import ErrorCode, VeenError

T = TypeVar("T")


class NotHeldError(Exception):
    """Something that must be true is not; a self-test never relies on `assert` (python -O)."""


class CannotGoOnError(Exception):
    """A step failed that the following ones stand on; it is already in the report."""


def require(condition: object, detail: str) -> None:
    """Raise unless the condition is true."""
    if not condition:
        raise NotHeldError(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check that was made."""

    group: str
    name: str
    ok: bool
    detail: str = ""

    def line(self) -> str:
        """As people read it."""
        verdict = "ok" if self.ok else "FAILED"
        told = f": {self.detail}" if self.detail else ""
        return f"{verdict:<6} {self.group:<8} {self.name}{told}"


@dataclass(slots=True)
class Checks:
    """All checks of one self-test, told as they are made."""

    title: str
    say: Callable[[Check], None]
    group: str = ""
    made: list[Check] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)  # seed, counts: what a repeat needs
    started: float = field(default_factory=perf_counter)

    def _note(self, name: str, *, ok: bool, detail: str = "") -> None:
        check = Check(group=self.group or self.title, name=name, ok=ok, detail=detail)
        self.made.append(check)
        self.say(check)

    def need(self, name: str, judge: Callable[[], T]) -> T:
        """Make a check that the following ones stand on."""
        try:
            found = judge()
        except Exception as failure:
            self._note(name, ok=False, detail=_told(failure))
            raise CannotGoOnError(name) from failure
        self._note(name, ok=True)
        return found

    def hold(self, name: str, judge: Callable[[], object]) -> None:
        """Make a check; a failure is listed and the self-test goes on."""
        try:
            judge()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is the finding
            self._note(name, ok=False, detail=_told(failure))
            return
        self._note(name, ok=True)

    def refused(self, name: str, code: ErrorCode, act: Callable[[], object]) -> None:
        """The act must be refused, and with exactly this code."""

        def judge() -> None:
            try:
                act()
            except VeenError as refusal:
                require(refusal.code is code, f"refused with {refusal} instead of {code}")
                return
            raise NotHeldError(f"was taken; it must be refused with {code}")

        self.hold(f"{name} -> {code}", judge)

    def section(self, group: str, part: Callable[[], None]) -> bool:
        """Run one part; a failed step ends this part only. Whether it came to its end."""
        self.group = group
        try:
            part()
        except CannotGoOnError:
            return False
        except Exception as failure:  # noqa: BLE001 - never a traceback, always a finding
            self._note("runs to its end", ok=False, detail=_told(failure))
            return False
        return True

    @property
    def failed(self) -> int:
        """How many checks did not hold."""
        return sum(not check.ok for check in self.made)

    def is_good(self) -> bool:
        """Something was checked and all of it held."""
        return bool(self.made) and not self.failed

    def summary(self) -> str:
        """The last line."""
        seconds = perf_counter() - self.started
        verdict = f"{self.failed} FAILED" if self.failed else "all hold"
        told = "".join(f", {name} {value}" for name, value in self.facts.items())
        return f"selftest {self.title}: {len(self.made)} checks, {verdict}, {seconds:.1f} s{told}"

    def to_json(self) -> dict[str, object]:
        """The whole as one document."""
        return {
            "name": self.title,
            "ok": self.is_good(),
            "checks": [
                {"group": one.group, "name": one.name, "ok": one.ok, "detail": one.detail}
                for one in self.made
            ],
            "failed": self.failed,
            "seconds": round(perf_counter() - self.started, 3),
            **self.facts,
        }


def _told(failure: Exception) -> str:
    if isinstance(failure, NotHeldError | VeenError):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
