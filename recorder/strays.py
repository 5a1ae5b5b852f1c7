"""A producer's key used on a stream that is not its own becomes a finding [SDR0 3.2.3, 3.4 I3]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hub.models import Finding
from hub.services import note_finding
from recorder.acts.authority import Authority
from recorder.event import format_time
from recorder.models import Producer, Stream

STRAY: Final = "key_out_of_scope"


@dataclass(slots=True)
class StrayWatch:
    """Asks the hub whom it refused for the stream alone; what did not change is not told again."""

    _told: dict[tuple[str, str], int] = field(default_factory=dict)

    def look(self, authority: Authority) -> int:
        """Note what is new; how many pairs of key and stream that was."""
        found: list[dict[str, Any]] = authority.ask_hub("strays")["strays"]
        fresh = [one for one in found if self._told.get(_pair(one)) != one["last"]]
        self._told = {_pair(one): one["last"] for one in found}
        for one in fresh:
            self._note(one, authority)
        return len(fresh)

    @staticmethod
    def _note(one: dict[str, Any], authority: Authority) -> None:
        principal, label = _pair(one)
        # Several rows may have had the key: the newest is who answers for it now.
        who = Producer.objects.filter(principal=principal).order_by("-created_at").first()
        stream = Stream.objects.filter(label=label).first()
        name = "a key of no producer" if who is None else who.name
        where = f"label {label[:16]}" if stream is None else stream.name
        first, last = (format_time(one[key] * 1000) for key in ("first", "last"))
        detail = (
            f"{principal} signed {one['count']} messages for {where}, which its capability does "
            f"not allow; the hub refused them, the first at {first}, the last at {last}"
        )
        note_finding(
            STRAY,
            f"{name} on {where}",
            detail,
            severity=Finding.Severity.WARNING,
            now=authority.now(),
        )


def _pair(one: dict[str, Any]) -> tuple[str, str]:
    return one["client_id"], one["label"]
