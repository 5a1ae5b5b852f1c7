"""Reads of the recorder: streams with their heads, and the lists of administrators [SDR0 3.2.2]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch, QuerySet

from hub.types import Label
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from recorder.event import format_time
from recorder.hub_reads import HubReads
from recorder.models import Act, ApiToken, Producer, Reader, ReaderGrant, ReaderKey, Stream
from recorder.streams import LONG_TERM
from recorder.tokens import PASSWORD_HASH


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """A stream as set up, and where the hub says it stands."""

    stream: Stream
    event_types: tuple[str, ...]
    head: Receipt | None
    manifest: Manifest | None

    def to_json(self) -> dict[str, object]:
        """One item of GET /api/record/streams."""
        head, stream = self.head, self.stream
        return {
            "name": stream.name,
            "label": stream.label,
            "class": stream.label_class,
            "sensitivity": stream.sensitivity,
            "retention_hint": shown_retention(stream.retention_hint),
            "event_bytes_max": stream.event_bytes_max,
            "event_types": list(self.event_types),
            "head_seq": 0 if head is None else head.stream_seq,
            "head_root": None if head is None else head.mmr_root.hex(),
            "head_time": None if head is None else format_time(head.hub_ts * 1000),
            "last_checkpoint": self._checkpoint(),
        }

    def _checkpoint(self) -> dict[str, object] | None:
        if self.manifest is None:
            return None
        found = self.manifest.checkpoint(label_of(self.stream))
        if found is None:
            return None
        return {
            "manifest_id": self.manifest.id.hex(),
            "upto_seq": found.upto_seq,
            "created_at": format_time(self.manifest.created_at * 1000),
        }


def shown_retention(seconds: int) -> str:
    """`long_term`, or seconds."""
    return "long_term" if seconds == LONG_TERM else str(seconds)


def shown_args(act: Act) -> dict[str, object]:
    """What was asked for; a hash of a password waits there until the act is applied."""
    return {key: "..." if key == PASSWORD_HASH else value for key, value in act.args.items()}


def shown_time(moment: datetime | None) -> str | None:
    """A time of ours as the API prints all of them."""
    return None if moment is None else format_time(int(moment.timestamp() * 1000))


def label_of(stream: Stream) -> Label:
    """The label of a stream."""
    return Label(bytes.fromhex(stream.label))


def names_by_label() -> dict[str, str]:
    """What each label stands for, as far as the recorder gave it out."""
    return dict(Stream.objects.values_list("label", "name"))


def stream_states(streams: QuerySet[Stream], hub: HubReads) -> list[StreamState]:
    """Two queries and one round trip for the heads, however many streams there are."""
    rows = list(streams.prefetch_related("event_types").order_by("name"))
    heads = hub.heads([label_of(one) for one in rows])
    manifest = hub.manifest() if heads else None
    return [
        StreamState(
            stream=one,
            event_types=event_types(one),
            head=heads.get(label_of(one)),
            manifest=manifest,
        )
        for one in rows
    ]


def event_types(stream: Stream) -> tuple[str, ...]:
    """The types that map to a stream, from what was fetched with it."""
    return tuple(sorted([one.event_type for one in stream.event_types.all()]))


def producer_streams(streams: QuerySet[Stream]) -> list[tuple[Stream, tuple[str, ...], bytes]]:
    """What a producer is told of its streams, with the reader key to seal to."""
    newest = Prefetch("reader_keys", ReaderKey.objects.order_by("-key_id"))
    rows = streams.prefetch_related("event_types", newest).order_by("name")
    found = []
    for one in rows:
        keys = list(one.reader_keys.all())
        if keys:  # a stream that is still being made takes no events yet
            found.append((one, event_types(one), bytes(keys[0].record)))
    return found


def streams() -> QuerySet[Stream]:
    """All streams, with their types, keys and readers."""
    return Stream.objects.prefetch_related("event_types", "reader_keys", "grants")


def producers() -> QuerySet[Producer]:
    """All keys of all producers, with their streams."""
    return Producer.objects.prefetch_related("streams")


def tokens() -> QuerySet[ApiToken]:
    """All tokens, with their streams."""
    return ApiToken.objects.prefetch_related("streams")


def readers() -> QuerySet[Reader]:
    """All readers, with what was wrapped to them."""
    return Reader.objects.prefetch_related(
        Prefetch("grants", ReaderGrant.objects.order_by("stream_id", "-key_id"))
    )
