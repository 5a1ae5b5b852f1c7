"""Rows of what the product's services record, written once for each key [architecture]."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from recorder.codes import RecordCode, RecordError
from recorder.event import check_size, format_time, from_json
from recorder.models import AuthoredEvent, Stream
from recorder.scribe import may_write


def keep_event(
    *,
    key: str,
    identity: str,
    stream: str,
    event_type: str,
    subject_id: str,
    payload: Value,
    event_time_ms: int | None = None,
    now: datetime,
) -> AuthoredEvent:
    """Store an event that is to be recorded; a known key gives its first row.

    Raises idempotency_conflict when the key was used for something else.
    """
    if not may_write(identity, stream):
        raise VeenError(ErrorCode.POLICY, f"{identity} does not record on {stream}")
    millis = int(now.timestamp() * 1000) if event_time_ms is None else event_time_ms
    event = from_json(
        {
            "event_type": event_type,
            "subject_id": subject_id,
            "event_time": format_time(millis),
            "payload": payload,
        },
        now_ms=millis,
        default_origin=identity,
    )
    bound = Stream.objects.filter(name=stream).values_list("event_bytes_max", flat=True).first()
    if bound is not None:
        check_size(event.encode(), bound)
    wanted = {
        "identity": identity,
        "stream": stream,
        "event_type": event_type,
        "subject_id": subject_id,
        "payload_text": event.payload,
    }
    row = AuthoredEvent.objects.filter(key=key).first()
    if row is None:
        try:
            with transaction.atomic():
                row = AuthoredEvent.objects.create(
                    key=key, event_time_ms=millis, created_at=now, **wanted
                )
        except IntegrityError:  # somebody else was faster with the same key
            row = AuthoredEvent.objects.get(key=key)
    if any(getattr(row, name) != value for name, value in wanted.items()):
        message = f"the key {key} was used for another event"
        raise RecordError(RecordCode.IDEMPOTENCY_CONFLICT, message)
    return row


def parsed_payload(row: AuthoredEvent) -> Value:
    """What a row says, as a value."""
    return canonical_json.parse(row.payload_text)
