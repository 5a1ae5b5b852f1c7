"""Reading requests and judging events; nothing is kept yet [interfaces, Recorder; query]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hub import canonical_json
from hub.canonical_json import JsonError
from hub.client import Item
from hub.client.draft import Draft
from hub.wire.payload import PayloadHeader
from recorder.codes import Detail, RecordCode, RecordError
from recorder.event import SCHEMA, check_size, content_of, read_incoming, stored_key
from recorder.gateway.config import GatewayConfig, Held

EVENTS_MAX: Final = 1000
# Deeper than any event may be, so that one that is too deep is refused by itself, at its place.
_DEPTH_MAX: Final = 256
_HEADER: Final = PayloadHeader(schema=SCHEMA)


def read_request(body: bytes) -> tuple[list[object], bool]:
    """The events of a request, unjudged, and whether it is a batch; raises for the whole."""
    try:
        found = canonical_json.parse_marked(body, depth_max=_DEPTH_MAX)
    except JsonError as flaw:
        if flaw.is_syntax:
            raise RecordError(RecordCode.INVALID_JSON, flaw.reason) from flaw
        deep = Detail(pointer=flaw.pointer, reason=flaw.reason)
        message = "the event is refused"
        raise RecordError(RecordCode.INVALID_EVENT, message, details=[deep]) from flaw
    if not isinstance(found, dict) or "events" not in found:
        return [found], False
    more = sorted(found.keys() - {"events"})
    if more:
        places = [canonical_json.pointer(key) for key in more]
        details = [Detail(pointer=place, reason="unknown key") for place in places]
        raise RecordError(RecordCode.INVALID_EVENT, "a batch has events only", details=details)
    events = found["events"]
    if not isinstance(events, list):
        flaw_found = Detail(pointer="/events", reason="not a list")
        raise RecordError(RecordCode.INVALID_EVENT, "a batch has events", details=[flaw_found])
    if len(events) > EVENTS_MAX:
        too_many = Detail(pointer="/events", reason=f"more than {EVENTS_MAX} events")
        raise RecordError(RecordCode.INVALID_EVENT, "the batch is too long", details=[too_many])
    return events, True


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An event that may be recorded."""

    stream: str
    item: Item


def judge(found: object, *, prefix: str, config: GatewayConfig, held: Held, now_ms: int) -> Judged:
    """One event of a producer, or the RecordError that says why not."""
    incoming = read_incoming(found, now_ms=now_ms, default_origin=held.name, prefix=prefix)
    stream = config.map.route(
        incoming.event.event_type, asked=incoming.stream, allowed=held.streams, prefix=prefix
    )
    body = incoming.event.encode()
    check_size(body, stream.event_bytes_max)
    target = config.targets[stream.name]
    draft = Draft(label=target.label, reader_pk=target.reader_pk, header=_HEADER, body=body)
    key = incoming.idempotency_key
    item = Item(
        draft=draft,
        key=None if key is None else stored_key(key),
        content=b"" if key is None else content_of(found),
    )
    return Judged(stream=stream.name, item=item)
