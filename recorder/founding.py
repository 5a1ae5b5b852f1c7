"""The streams that the product itself writes to, made once by the author [architecture]."""

from __future__ import annotations

from typing import Final

from hub.canonical_json import Value
from recorder import services
from recorder.acts.streams import HOUSEKEEPING_CLASS, CreateReservedStream
from recorder.models import Act, Stream
from recorder.scribe import STREAMS_OF
from recorder.streams import EVENT_BYTES_LIMIT, HOUSEKEEPING

ACTOR: Final = "veen"


def found_streams() -> list[Act]:
    """Ask for those that are missing; the changes stream first, for it records all of them."""
    known = set(Stream.objects.values_list("name", flat=True))
    asked = Act.objects.filter(verb=CreateReservedStream.name, state=Act.State.PENDING)
    known |= {str(act.args.get("name")) for act in asked}
    missing = [name for names in STREAMS_OF.values() for name in names if name not in known]
    return [found_stream(name) for name in missing]


def is_founded() -> bool:
    """Whether all of them are there, and recorded."""
    known = set(Stream.objects.values_list("name", flat=True))
    waiting = Act.objects.filter(verb=CreateReservedStream.name, state=Act.State.PENDING)
    wanted = {name for names in STREAMS_OF.values() for name in names}
    return wanted <= known and not waiting.exists()


def found_stream(name: str) -> Act:
    """Ask for one stream of the product."""
    return services.submit_own_act(CreateReservedStream.name, _arguments(name), actor=ACTOR)


def _arguments(name: str) -> dict[str, Value]:
    return {
        "name": name,
        "class": HOUSEKEEPING_CLASS if name in HOUSEKEEPING else "log",
        "event_bytes_max": EVENT_BYTES_LIMIT,
    }
