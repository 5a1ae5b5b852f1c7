"""RecorderEvent: what a service says happened, on the wire and at the door [SDR0 3.2.1].

Body: deterministic CBOR map with the text keys subject_id, event_type, event_time (milliseconds
since 1970, UTC), origin, payload (canonical JSON text), in this order. principal_id and the two
hub_commit fields are not in it: they come from MSG and RECEIPT, so that nobody can claim them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NewType, Self, TypeAlias, TypeGuard

from hub import canonical_json
from hub.canonical_json import Flaw, JsonError, pointer
from hub.crypto.hashing import h
from hub.errors import WireError
from hub.types import Hash
from hub.wire import cbor
from recorder.canonical import is_canonical
from recorder.codes import Detail, RecordCode, RecordError

SCHEMA: Final = Hash(h(b"record.event.v1"))
TEXT_BYTES_MAX: Final = 512  # of subject_id and origin
IDEMPOTENCY_KEY_CHARACTERS_MAX: Final = 128
EVENT_TIME_MAX: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

UnixMillis = NewType("UnixMillis", int)

_EVENT_TYPE: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?Z"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAP_HEAD: Final = cbor.head(cbor.MAP, 5)
_SUBJECT_ID, _EVENT_TYPE_KEY, _EVENT_TIME, _ORIGIN, _PAYLOAD = (
    cbor.encode(name) for name in ("subject_id", "event_type", "event_time", "origin", "payload")
)
_BEFORE_SUBJECT_ID: Final = _MAP_HEAD + _SUBJECT_ID
_BEFORE_EVENT_TIME: Final = _EVENT_TIME + b"\x1b"  # an integer of eight bytes: after 1970-02-19
_REQUIRED: Final = ("event_type", "subject_id")
_OPTIONAL: Final = ("stream", "event_time", "origin", "payload", "idempotency_key")
_KNOWN: Final = frozenset((*_REQUIRED, *_OPTIONAL))


def parse_time(text: str, *, fraction_digits_max: int = 9) -> UnixMillis:
    """`YYYY-MM-DDTHH:MM:SS[.fraction]Z` cut to milliseconds; ValueError says what is wrong."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a time like 2026-03-01T09:00:00.250Z")
    fraction = match[7] or ""
    if len(fraction) > fraction_digits_max:
        raise ValueError(f"more than {fraction_digits_max} digits of fraction")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if year < _EPOCH.year:
        raise ValueError("a year before 1970")
    try:
        # A second 60 is refused here too: it has no place among milliseconds since 1970.
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise ValueError("no such date or time of day") from None
    return UnixMillis((moment - _EPOCH) // _MILLISECOND + int(f"{fraction[:3]:0<3}"))


def format_time(millis: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ`, always three decimals."""
    return f"{(_EPOCH + millis * _MILLISECOND).isoformat(timespec='milliseconds')[:23]}Z"


def fit_text(text: str) -> str:
    """A text cut to what subject_id and origin may hold."""
    return text.replace("\0", "").encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


def check_event_type(event_type: str) -> None:
    """Raise E.FORMAT unless it is 1 to 128 of the allowed characters."""
    if not _EVENT_TYPE.fullmatch(event_type):
        raise WireError("event_type is not [A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderEvent:
    """One event in its only spelling; `payload` is canonical JSON text."""

    subject_id: str
    event_type: str
    event_time: UnixMillis
    origin: str
    payload: str

    def encode(self) -> bytes:
        """The body of the MSG."""
        return b"".join((
            _MAP_HEAD, _SUBJECT_ID, _tstr(self.subject_id), _EVENT_TYPE_KEY,
            _tstr(self.event_type), _EVENT_TIME, cbor.uint(self.event_time), _ORIGIN,
            _tstr(self.origin), _PAYLOAD, _tstr(self.payload),
        ))  # fmt: skip

    @classmethod
    def decode(cls, data: bytes, *, body_bytes_max: int | None = None) -> Self:
        """Parse a body or raise E.FORMAT; a sloppy one is refused, never repaired."""
        if body_bytes_max is not None and len(data) > body_bytes_max:
            raise WireError(f"a body of {len(data)} bytes is over {body_bytes_max}")
        subject_id, event_type, event_time, origin, payload = read_body(data)
        return cls(
            subject_id=subject_id,
            event_type=event_type,
            event_time=event_time,
            origin=origin,
            payload=payload,
        )


EventFields: TypeAlias = tuple[str, str, UnixMillis, str, str]  # in the order of the body


def read_body(data: bytes) -> EventFields:
    """What `RecorderEvent.decode` finds, without the object: ingest reads millions of them."""
    found = _read_by_position(data) or _read_by_field(data)
    subject_id, event_type, _, origin, payload = found
    check_event_type(event_type)
    if "\0" in subject_id or "\0" in origin:
        raise WireError("U+0000 in subject_id or origin")
    if not is_canonical(payload.encode()):
        raise WireError("the payload is not canonical JSON")
    return found


def _read_by_field(data: bytes) -> EventFields:
    """The rule of the map: read each item strictly; every refusal names its byte."""
    reader = cbor.Reader(data)
    reader.map_length(minimum=5, maximum=5)
    found = (
        reader.name("subject_id").tstr(maximum=TEXT_BYTES_MAX),
        reader.name("event_type").tstr(),
        UnixMillis(reader.name("event_time").uint(maximum=EVENT_TIME_MAX)),
        reader.name("origin").tstr(maximum=TEXT_BYTES_MAX),
        reader.name("payload").tstr(),
    )
    reader.end()
    return found


def _read_by_position(data: bytes) -> EventFields | None:
    """The common spelling at half the cost; None when in doubt.

    It may only accept what `_read_by_field` accepts, with equal fields.
    """
    try:
        subject_id, pos = _text_after(data, 0, _BEFORE_SUBJECT_ID)
        event_type, pos = _text_after(data, pos, _EVENT_TYPE_KEY)
        time_end = pos + len(_BEFORE_EVENT_TIME) + 8
        number = data[time_end - 8 : time_end]
        event_time = int.from_bytes(number, "big")
        if data[pos : time_end - 8] != _BEFORE_EVENT_TIME or not (
            1 << 32 <= event_time <= EVENT_TIME_MAX
        ):
            return None
        origin, pos = _text_after(data, time_end, _ORIGIN)
        payload, pos = _text_after(data, pos, _PAYLOAD)
    except (IndexError, UnicodeDecodeError):
        return None
    if pos != len(data) or len(number) != 8:
        return None
    return subject_id, event_type, UnixMillis(event_time), origin, payload


def _text_after(data: bytes, pos: int, key: bytes) -> tuple[str, int]:
    """The text behind a key and its end, or IndexError; of up to 65535 bytes, minimally headed."""
    start = pos + len(key)
    if data[pos:start] != key:
        raise IndexError
    length = data[start] - 0x60  # TSTR
    start += 1
    if length == 24:
        length = data[start]
        start += 1
        if not 24 <= length <= TEXT_BYTES_MAX:
            raise IndexError
    elif length == 25 and key is _PAYLOAD:
        length = data[start] << 8 | data[start + 1]
        start += 2
        if length < 1 << 8:
            raise IndexError
    elif not 0 <= length < 24:
        raise IndexError
    end = start + length
    return data[start:end].decode(), end


_TSTR_HEADS: Final = tuple(cbor.head(cbor.TSTR, length) for length in range(1 << 8))


def _tstr(text: str) -> bytes:
    encoded = text.encode()
    length = len(encoded)
    head = _TSTR_HEADS[length] if length < len(_TSTR_HEADS) else cbor.head(cbor.TSTR, length)
    return head + encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An event as a client sends it: the event, and what it asks of the door."""

    event: RecorderEvent
    stream: str | None
    idempotency_key: str | None


def from_json(
    found: object, *, now_ms: int, default_origin: str, prefix: str = ""
) -> RecorderEvent:
    """The event of `read_incoming`, for callers that choose the stream themselves."""
    door = read_incoming(found, now_ms=now_ms, default_origin=default_origin, prefix=prefix)
    return door.event


def read_incoming(found: object, *, now_ms: int, default_origin: str, prefix: str = "") -> Incoming:
    """Judge one event of a request, or raise invalid_event with every flaw.

    `found` comes from `canonical_json.parse` or `parse_marked`, or from a program; `prefix` is the
    pointer of the event in the request (`/events/7`). null for an optional field is absence.
    """
    plain = _read_plain(found, now_ms, default_origin)
    if plain is not None:
        return plain
    door = _Door(found, prefix)
    event = RecorderEvent(
        subject_id=door.short_text("subject_id", ""),
        event_type=door.event_type(),
        event_time=door.event_time(now_ms),
        origin=door.short_text("origin", default_origin),
        payload=door.payload(),
    )
    incoming = Incoming(
        event=event, stream=door.text("stream"), idempotency_key=door.idempotency_key()
    )
    door.close()
    return incoming


def _read_plain(found: object, now_ms: int, default_origin: str) -> Incoming | None:
    """The common event at half the cost; None when in doubt.

    It may only accept what `_Door` accepts, with equal fields.
    """
    if type(found) is not dict or not _KNOWN.issuperset(found):
        return None
    read = found.get
    event_type, subject_id, origin = read("event_type"), read("subject_id"), read("origin")
    if origin is None:
        origin = default_origin
    elif not _is_plain(origin):
        return None
    if (
        type(event_type) is not str
        or not _EVENT_TYPE.fullmatch(event_type)
        or not _is_plain(subject_id)
        or read("event_time") is not None
        or read("stream") is not None
        or read("idempotency_key") is not None
    ):
        return None
    try:
        payload = canonical_json.encode_text(read("payload"))
    except JsonError:
        return None
    event = RecorderEvent(
        subject_id=subject_id,
        event_type=event_type,
        event_time=UnixMillis(now_ms),
        origin=origin,
        payload=payload,
    )
    return Incoming(event=event, stream=None, idempotency_key=None)


def _is_plain(text: object) -> TypeGuard[str]:
    return type(text) is str and len(text) <= TEXT_BYTES_MAX and text.isascii() and "\0" not in text


def content_of(found: object) -> bytes:
    """What an idempotency key stands for: the canonical JSON of what the client sent."""
    return canonical_json.encode(found, depth_max=canonical_json.DEPTH_MAX + 1)


def stored_key(idempotency_key: str) -> str:
    """An idempotency key as an outbox keeps it: any text, in one size."""
    return f"i/{h(idempotency_key.encode()).hex()}"


def check_size(body: bytes, event_bytes_max: int, *, prefix: str = "") -> None:
    """Raise event_too_large when a body is over its stream's bound; its payload is what is long."""
    if len(body) > event_bytes_max:
        message = f"the event has {len(body)} bytes, its stream takes {event_bytes_max}"
        flaw = Detail(pointer=f"{prefix}/payload", reason=f"makes it {len(body)} bytes")
        raise RecordError(RecordCode.EVENT_TOO_LARGE, message, details=[flaw])


class _Door:
    """Reads the fields of one event and keeps every flaw it meets, so that all are told at once."""

    __slots__ = ("_fields", "_flaws", "_prefix")

    def __init__(self, found: object, prefix: str) -> None:
        self._prefix = prefix
        self._flaws: list[Detail] = []
        if isinstance(found, Flaw):
            self._flaw(found.reason, *found.steps)
            self.close()
        if not isinstance(found, dict):
            self._flaw("an event is an object")
            self.close()
        assert isinstance(found, dict)
        self._fields: dict[str, object] = found
        if not _KNOWN.issuperset(found):
            for key in found.keys() - _KNOWN:
                self._flaw("unknown key", str(key))
        for key in _REQUIRED:
            if found.get(key) is None:
                self._flaw("required", key)

    def _flaw(self, reason: str, *steps: str | int) -> None:
        self._flaws.append(Detail(pointer=self._prefix + pointer(*steps), reason=reason))

    def close(self) -> None:
        """Raise when anything was wrong."""
        if self._flaws:
            flaws = sorted(self._flaws, key=lambda flaw: flaw.pointer)
            raise RecordError(RecordCode.INVALID_EVENT, "the event is refused", details=flaws)

    def text(self, key: str) -> str | None:
        """Any Unicode text, or None where there is none."""
        value = self._fields.get(key)
        if value is None:
            return None
        if isinstance(value, Flaw):
            self._flaw(value.reason, key, *value.steps)
        elif not isinstance(value, str):
            self._flaw("not text", key)
        elif not value.isascii() and not _is_unicode(value):
            self._flaw("a lone surrogate is not text", key)
        else:
            return value
        return None

    def short_text(self, key: str, default: str) -> str:
        """subject_id or origin."""
        value = self.text(key)
        if value is None:
            return default
        if len(value.encode()) > TEXT_BYTES_MAX:
            self._flaw(f"more than {TEXT_BYTES_MAX} bytes", key)
        if "\0" in value:
            self._flaw("contains U+0000", key)
        return value

    def event_type(self) -> str:
        """The application's own name of what happened."""
        value = self.text("event_type")
        if value is not None and not _EVENT_TYPE.fullmatch(value):
            self._flaw(f"not {_EVENT_TYPE.pattern}", "event_type")
        return value or ""

    def event_time(self, now_ms: int) -> UnixMillis:
        """When the application saw it; now, where it does not say."""
        value = self.text("event_time")
        if value is not None:
            try:
                return parse_time(value)
            except ValueError as flaw:
                self._flaw(str(flaw), "event_time")
        return UnixMillis(now_ms)

    def payload(self) -> str:
        """The canonical text."""
        try:
            return canonical_json.encode_text(self._fields.get("payload"))
        except JsonError as flaw:
            where = f"{self._prefix}/payload{flaw.pointer}"
            self._flaws.append(Detail(pointer=where, reason=flaw.reason))
            return ""

    def idempotency_key(self) -> str | None:
        """A name the client gives, so that sending twice records once."""
        value = self.text("idempotency_key")
        if value is not None and not 1 <= len(value) <= IDEMPOTENCY_KEY_CHARACTERS_MAX:
            reason = f"not 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} characters"
            self._flaw(reason, "idempotency_key")
        return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
