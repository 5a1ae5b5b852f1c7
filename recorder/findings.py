"""Every new finding is itself recorded, so that who can write the tables hides none [architecture].

The event says what was found and when it was first seen; what is seen again moves the row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hub.canonical_json import Value
from hub.crypto.hashing import h
from hub.models import Finding
from recorder.acts.authority import Authority
from recorder.json_fields import Fields
from recorder.models import AuthoredEvent
from recorder.queries import shown_time
from recorder.records import keep_event
from recorder.streams import CHANGES

NOTED: Final = "finding.noted"
_AT_ONCE: Final = 100


@dataclass(slots=True)
class FindingScribe:
    """Looks for findings that came since the last look; at its start for all of them."""

    _last: int = 0

    def look(self, authority: Authority) -> int:
        """Write down what is new; how many findings that was."""
        fresh = list(Finding.objects.filter(pk__gt=self._last).order_by("pk")[:_AT_ONCE])
        for one in fresh:
            self._last = one.pk
            key = _key(one)
            if AuthoredEvent.objects.filter(key=key).exists():
                continue  # Its detail may have moved on since; what was written down stays.
            keep_event(
                key=key,
                identity=AuthoredEvent.Identity.RECORDER,
                stream=CHANGES,
                event_type=NOTED,
                subject_id=AuthoredEvent.Identity.RECORDER,
                payload={
                    "code": one.code,
                    "severity": one.severity,
                    "object": one.object,
                    "detail": one.detail,
                    "first_seen": shown_time(one.first_seen),
                },
                event_time_ms=int(one.first_seen.timestamp() * 1000),
                now=authority.now(),
            )
        return len(fresh)


def _key(one: Finding) -> str:
    """Of what was found and when, not of its row: a database made again numbers its rows anew."""
    said = "\0".join((one.code, one.object, shown_time(one.first_seen) or ""))
    return f"finding/{h(said.encode()).hex()}"


def note_again(found: Value, at: datetime) -> None:
    """The row of a recorded finding, where the database was lost."""
    told = Fields.among(found)
    Finding.objects.get_or_create(
        code=told.text("code"),
        object=told.text("object"),
        defaults={
            "severity": told.text("severity"),
            "detail": told.text("detail"),
            "first_seen": at,
            "last_seen": at,
        },
    )
