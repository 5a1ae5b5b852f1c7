"""Records what the product's services have to say, each event once [architecture: outbox rule].

An AuthoredEvent row says what is to be recorded, the outbox of its identity makes it happen once:
the row's key names the message there, so a stop between the two never doubles an event.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from hub.client import Draft, HubClient, Producer, RefusedError
from hub.client.author import Item
from hub.client.outcome import AUTHORITY, TRANSIENT
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.label import stream_id
from hub.types import Label
from hub.wire.captoken import CapToken
from hub.wire.payload import PayloadHeader
from hub.wire.readerkey import ReaderKeyRecord
from hub.wire.receipt import Receipt
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.models import AuthoredEvent, ReaderKey, Stream
from recorder.streams import CHANGES, CHECKPOINTS, LAKE, QUERY_PREFIX

logger = logging.getLogger(__name__)

BATCH_MAX: Final = 256
KEYS_KEPT: Final = timedelta(days=30)
RECORDER: Final = AuthoredEvent.Identity.RECORDER.value
QUERY: Final = AuthoredEvent.Identity.QUERY.value
# Every stream that the product writes to itself, with the identity that may.
STREAMS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    RECORDER: (CHANGES, CHECKPOINTS, LAKE),
    QUERY: tuple(f"{QUERY_PREFIX}{name}" for name in ("requests", "results", "audit/executions")),
}


def may_write(identity: str, stream: str) -> bool:
    """Whether a service identity records on this stream."""
    return stream in STREAMS_OF.get(identity, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    """An identity that records for the product, with the capability it was issued."""

    key: SigningKey
    token: CapToken

    @classmethod
    def issue(cls, identity: str, key: SigningKey, issuer: SigningKey, ttl_s: int) -> ServiceKey:
        """The same again has the same bytes, so authorizing it at every start changes nothing."""
        ids = [stream_id(name) for name in STREAMS_OF[identity]]
        token = CapToken.issue(issuer, subject_pk=key.public, stream_ids=ids, ttl=ttl_s)
        return cls(key=key, token=token)


class Scribe:
    """Holds the outboxes of the service identities; one process at a time."""

    def __init__(self, client: HubClient, services: Mapping[str, ServiceKey]) -> None:
        self._client = client
        self._services = services
        self._producers: dict[str, Producer] = {}
        try:
            for identity, service in services.items():
                self._producers[identity] = client.producer(
                    service.key, auth_ref=service.token.auth_ref(), retries_max=0
                )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the keys up."""
        for producer in self._producers.values():
            producer.close()
        self._producers = {}

    def authorize(self) -> None:
        """Have the hub admit the capabilities; again is fine."""
        for service in self._services.values():
            self._client.authorize(service.token)

    def forget_old_keys(self) -> None:
        """Rows that were recorded long ago never come back, so their keys may go."""
        before = int((timezone.now() - KEYS_KEPT).timestamp())
        for producer in self._producers.values():
            producer.forget_keys(before)

    def record_pending(self) -> int:
        """Record what waits; returns how many rows found their end.

        A hub out of reach raises after everything is durable here; calling again goes on.
        """
        done = 0
        for identity in self._producers:
            while rows := _pending(identity):
                done += self._record(identity, rows)
        return done

    def _record(self, identity: str, rows: Sequence[AuthoredEvent]) -> int:
        producer = self._producers[identity]
        known: list[AuthoredEvent] = []
        items: list[Item] = []
        refused = 0
        for row in rows:
            try:
                draft = _draft(row)
            except VeenError as flaw:
                _refuse(row, flaw)
                refused += 1
            else:
                items.append(Item(draft=draft, key=row.key, content=row.payload_text.encode()))
                known.append(row)
        producer.enqueue_items(items)
        try:
            producer.flush()
        except RefusedError as refusal:
            if refusal.code in TRANSIENT | AUTHORITY:
                _store(producer, known)  # what went through before it
                raise
            refused += self._withdraw(producer, refusal)
        return refused + _store(producer, known)

    def _withdraw(self, producer: Producer, refusal: RefusedError) -> int:
        """The hub will never take it: the row says so, and those behind go on."""
        key = producer.key_of(refusal.entry)
        row = AuthoredEvent.objects.filter(key=key).first()
        producer.withdraw(refusal.entry)  # raises where the hub has it after all
        if row is not None:
            _refuse(row, refusal)
        return int(row is not None)


def _pending(identity: str) -> list[AuthoredEvent]:
    waiting = AuthoredEvent.objects.filter(
        identity=identity, state=AuthoredEvent.State.PENDING
    ).order_by("created_at", "key")
    return list(waiting[:BATCH_MAX])


def _draft(row: AuthoredEvent) -> Draft:
    event = RecorderEvent(
        subject_id=row.subject_id,
        event_type=row.event_type,
        event_time=UnixMillis(row.event_time_ms),
        origin=row.identity,
        payload=row.payload_text,
    )
    newest = ReaderKey.objects.filter(stream=row.stream).order_by("-key_id").first()
    stream = Stream.objects.filter(name=row.stream).first()
    if newest is None or stream is None:
        raise VeenError(ErrorCode.NOTFOUND, f"there is no stream {row.stream}")
    return Draft(
        label=Label(bytes.fromhex(stream.label)),
        reader_pk=ReaderKeyRecord.decode(bytes(newest.record)).reader_pk,
        header=PayloadHeader(schema=SCHEMA),
        body=event.encode(),
    )


def _store(producer: Producer, rows: Sequence[AuthoredEvent]) -> int:
    """Rows whose receipt is held are recorded."""
    found = [(row, producer.keyed(row.key)) for row in rows]
    settled = [(row, state.receipt) for row, state in found if state and state.receipt]
    with transaction.atomic():
        for row, receipt in settled:
            _recorded(row, receipt)
    return len(settled)


def _recorded(row: AuthoredEvent, receipt: Receipt) -> None:
    row.state = AuthoredEvent.State.RECORDED
    row.hub_commit_seq = receipt.stream_seq
    row.hub_commit_time_ms = receipt.hub_ts * 1000
    row.receipt_id = f"rcpt-{receipt.leaf_hash.hex()}"
    row.receipt = receipt.encode()
    row.save(
        update_fields=[
            "state", "hub_commit_seq", "hub_commit_time_ms", "receipt_id", "receipt"
        ]
    )  # fmt: skip


def _refuse(row: AuthoredEvent, refusal: VeenError) -> None:
    logger.error("event.refused", extra={"key": row.key, "code": str(refusal.code)})
    row.state = AuthoredEvent.State.REFUSED
    row.error = str(refusal)
    row.save(update_fields=["state", "error"])
