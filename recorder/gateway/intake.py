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
from recorder.event import (
    SCHEMA,
    Incoming,
    check_size,
    content_of,
    read_incoming,
    stored_key,
)
from recorder.gateway import deep
from recorder.gateway.config import GatewayConfig, Held

EVENTS_MAX: Final = 1000
# Deeper than any event may be, so that one that is too deep is refused by itself, at its place.
_DEPTH_MAX: Final = 256
_HEADER: Final = PayloadHeader(schema=SCHEMA)


def read_request(body: bytes) -> tuple[list[object], bool]:
    """The events of a request, unjudged, and whether it is a batch; raises for the whole."""
    try:
        found = _parsed(body)
    except JsonError as flaw:
        raise RecordError(RecordCode.INVALID_JSON, flaw.reason) from flaw
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


def _parsed(body: bytes) -> object:
    try:
        return canonical_json.parse_marked(body, depth_max=_DEPTH_MAX)
    except JsonError as flaw:
        if flaw.is_syntax:
            raise
    return canonical_json.parse_marked(deep.cut(body.decode(), _DEPTH_MAX), depth_max=_DEPTH_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An event that is well formed, whatever streams there are now."""

    incoming: Incoming
    key: str | None  # as the outbox keeps it
    content: bytes


def read_event(found: object, *, prefix: str, held: Held, now_ms: int) -> Asked:
    """One event of a producer, or invalid_event with every flaw."""
    incoming = read_incoming(found, now_ms=now_ms, default_origin=held.name, prefix=prefix)
    key = incoming.idempotency_key
    return Asked(
        incoming=incoming,
        key=None if key is None else stored_key(key),
        content=b"" if key is None else content_of(found),
    )


def judge(asked: Asked, *, prefix: str, config: GatewayConfig, held: Held) -> Item:
    """The event on its way to where its type goes now, or the RecordError that says why nowhere."""
    event = asked.incoming.event
    stream = config.map.route(
        event.event_type, asked=asked.incoming.stream, allowed=held.streams, prefix=prefix
    )
    body = event.encode()
    check_size(body, stream.event_bytes_max, prefix=prefix)
    target = config.targets[stream.name]
    draft = Draft(label=target.label, reader_pk=target.reader_pk, header=_HEADER, body=body)
    return Item(draft=draft, key=asked.key, content=asked.content)
