"""One administrative verb: what it takes, what it changes, what is recorded of it [SDR0 3.2].

The executor calls, in this order, and after a stop again from the first that is not done:

 1 check    the arguments alone; no table, no clock
 2 apply    rows, in one transaction that also stores the result on the Act
 3 settle   hub and files, derived from the rows; doing it twice changes nothing
 4          the event is recorded and its receipt held
 5 finish   what must not come before the event; doing it twice changes nothing
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from hub.canonical_json import Value
from recorder.acts.authority import Authority
from recorder.models import Act

Args = TypeVar("Args")
Result = dict[str, Value]


class Verb(ABC, Generic[Args]):
    """Stateless; one instance stands in the table of verbs."""

    name: ClassVar[str]
    event_type: ClassVar[str]
    is_public: ClassVar[bool] = True  # false: only the product itself asks for it
    needs_reason: ClassVar[bool] = False
    may_be_refused: ClassVar[bool] = False  # also while settling, because no row was changed

    @abstractmethod
    def check(self, found: object) -> Args:
        """The arguments as a value, or a refusal."""

    def plan(self, args: Args) -> None:
        """Raise when the tables as they are now do not allow it; reads only."""

    @abstractmethod
    def apply(self, args: Args, act: Act, authority: Authority) -> Result:
        """Change the rows; inside the executor's transaction. The result is never empty."""

    def settle(self, args: Args, act: Act, authority: Authority) -> Result:  # noqa: ARG002
        """Bring hub and files in line with the rows; returns what is added to the result."""
        return {}

    @abstractmethod
    def payload(self, args: Args, act: Act) -> Result:
        """What is recorded, beside act_id and reason; never a secret."""

    def event(self, args: Args, act: Act) -> tuple[str, Result]:
        """Type and payload of the recorded event."""
        found = {"act_id": str(act.id), "reason": act.reason, **self.payload(args, act)}
        return self.event_type, found

    def finish(self, args: Args, act: Act, authority: Authority) -> None:
        """After the event has its receipt, before the act is done."""

    def recorded(self, event_type: str, found: Result) -> Args | None:  # noqa: ARG002
        """The arguments of an act from what was recorded of it; None where it changed no row.

        `apply` with them, on the rows as they were then, makes the same rows again.
        """
        return None

    def mark_revoked(self, args: Args, act: Act, authority: Authority) -> None:
        """What `settle` and `finish` noted on the rows; when they are made again."""


def keep(act: Act, more: Result) -> None:
    """Store progress on the act, so that a stop does not ask twice."""
    if more and {**act.result, **more} != act.result:
        act.result = {**act.result, **more}
        act.save(update_fields=["result"])
