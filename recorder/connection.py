"""The connection file: all that a producer or reader is given, and all it trusts [SDR0 3.2.3].

JSON with the keys of the contract: ver, web_url, hub_url, gateway_url, hub_pk, hub_id, trust_pk,
recorder_admin_pk, producer {name, key or key_file}, cap_token, streams [{name, label, event_types,
reader_key, event_bytes_max?}]. Keys, ids and labels are lower-case hex, cap_token and reader_key
standard base64. It never holds the routing key. A reader's file has no producer and no cap_token.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final, Self

from hub import canonical_json, label
from hub.canonical_json import Value
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import HubId, Label, PublicKey
from hub.wire import readerkey
from hub.wire.captoken import CapToken
from hub.wire.readerkey import ReaderKeyRecord
from recorder.event import check_event_type
from recorder.json_fields import Fields, text_of
from recorder.streams import EVENT_BYTES_LIMIT

VER: Final = 1
CONNECTION_BYTES_MAX: Final = 4_194_304
NAME_CHARACTERS_MAX: Final = 128
_URL: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(?:/[A-Za-z0-9._~/-]*)?")
_REQUIRED: Final = frozenset(
    {"ver", "hub_url", "hub_pk", "hub_id", "trust_pk", "recorder_admin_pk", "streams"}
)
_OPTIONAL: Final = frozenset({"web_url", "gateway_url", "producer", "cap_token"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerKey:
    """The producer's name, and its key or where that is kept."""

    name: str
    key: bytes | None = field(default=None, repr=False)  # the 32-byte seed
    key_file: str | None = None

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not 1 <= len(self.name) <= NAME_CHARACTERS_MAX:
            raise WireError(f"/producer/name: 1 to {NAME_CHARACTERS_MAX} printable characters")
        if (self.key is None) == (self.key_file is None):
            raise WireError("/producer: exactly one of key and key_file")
        if self.key is not None and len(self.key) != 32:
            raise WireError("/producer/key: a seed has 32 bytes")
        if self.key_file is not None and ("\0" in self.key_file or not self.key_file):
            raise WireError("/producer/key_file: no path")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntry:
    """One stream of the producer: where events go and to which key they are sealed."""

    name: str
    label: Label
    event_types: tuple[str, ...]
    reader_key: ReaderKeyRecord
    event_bytes_max: int = EVENT_BYTES_LIMIT  # of an event's CBOR body; files of before say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A file that was read is whole: signatures checked, every name bound to what it names."""

    hub_url: str
    hub_pk: PublicKey
    hub_id: HubId
    trust_pk: PublicKey
    recorder_admin_pk: PublicKey
    streams: tuple[StreamEntry, ...]
    web_url: str | None = None
    gateway_url: str | None = None
    producer: ProducerKey | None = None
    cap_token: CapToken | None = None

    def __post_init__(self) -> None:
        for name, url in self._urls().items():
            if url is not None and not _URL.fullmatch(url):
                raise WireError(f"/{name}: not an http or https address")
        if (self.producer is None) != (self.cap_token is None):
            raise WireError("a producer and its cap_token come together")
        self._check_streams()
        if self.cap_token is not None:
            self._check_token(self.cap_token)

    def _urls(self) -> dict[str, str | None]:
        return {"web_url": self.web_url, "hub_url": self.hub_url, "gateway_url": self.gateway_url}

    def _check_streams(self) -> None:
        names: set[str] = set()
        types: set[str] = set()
        for index, entry in enumerate(self.streams):
            if entry.name in names or not types.isdisjoint(entry.event_types):
                raise WireError(f"/streams/{index}: a stream or event type is listed twice")
            names.add(entry.name)
            types.update(entry.event_types)
            for event_type in entry.event_types:
                check_event_type(event_type)
            if not 1 <= entry.event_bytes_max <= EVENT_BYTES_LIMIT:
                where = f"/streams/{index}/event_bytes_max"
                raise WireError(f"{where}: not 1 to {EVENT_BYTES_LIMIT}")
            readerkey.accept(
                None,
                entry.reader_key,
                stream_id=label.stream_id(entry.name),
                recorder_admin_pk=self.recorder_admin_pk,
            )

    def _check_token(self, token: CapToken) -> None:
        token.verify_chain()
        key = self.producer.key if self.producer else None
        if key is not None and SigningKey(key).public != token.subject_pk:
            raise VeenError(ErrorCode.CAP, "the cap_token is of another key than the producer's")
        outside = [
            entry.name
            for entry in self.streams
            if label.stream_id(entry.name) not in token.stream_ids
        ]
        if outside:
            raise VeenError(ErrorCode.CAP, f"the cap_token does not cover {', '.join(outside)}")

    @property
    def principal(self) -> PublicKey:
        """The producer's client_id, which is its principal_id."""
        assert self.cap_token is not None
        return self.cap_token.subject_pk

    def stream_of(self, event_type: str) -> StreamEntry | None:
        """The one stream that an event type maps to."""
        return next((one for one in self.streams if event_type in one.event_types), None)

    def render(self) -> bytes:
        """The file's content; the caller writes it with mode 0600."""
        producer: dict[str, Value] | None = None
        if self.producer is not None:
            producer = {"name": self.producer.name}
            if self.producer.key is not None:
                producer["key"] = self.producer.key.hex()
            else:
                producer["key_file"] = self.producer.key_file
        token = None if self.cap_token is None else _base64(self.cap_token.encode())
        found: dict[str, Value] = {
            "ver": VER,
            "web_url": self.web_url,
            "hub_url": self.hub_url,
            "gateway_url": self.gateway_url,
            "hub_pk": self.hub_pk.hex(),
            "hub_id": self.hub_id.hex(),
            "trust_pk": self.trust_pk.hex(),
            "recorder_admin_pk": self.recorder_admin_pk.hex(),
            "producer": producer,
            "cap_token": token,
            "streams": [_render_stream(entry) for entry in self.streams],
        }
        shown = {key: value for key, value in found.items() if value is not None}
        return json.dumps(shown, ensure_ascii=False, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a file, or raise a VeenError that says where it is wrong."""
        if len(data) > CONNECTION_BYTES_MAX:
            raise WireError(f"a connection file of {len(data)} bytes", ErrorCode.SIZE)
        fields = Fields(canonical_json.parse(data), "", _REQUIRED, _OPTIONAL)
        if fields.value("ver") != VER:
            raise WireError("/ver: unknown version of a connection file")
        return cls(
            web_url=fields.text_or_none("web_url"),
            hub_url=fields.text("hub_url"),
            gateway_url=fields.text_or_none("gateway_url"),
            hub_pk=PublicKey(fields.hex32("hub_pk")),
            hub_id=HubId(fields.hex32("hub_id")),
            trust_pk=PublicKey(fields.hex32("trust_pk")),
            recorder_admin_pk=PublicKey(fields.hex32("recorder_admin_pk")),
            producer=_read_producer(fields.value("producer")),
            cap_token=_read_token(fields),
            streams=tuple(
                [
                    read_stream(item, f"/streams/{index}")
                    for index, item in enumerate(fields.items("streams"))
                ]
            ),
        )


def _read_producer(found: Value) -> ProducerKey | None:
    if found is None:
        return None
    fields = Fields(found, "/producer", frozenset({"name"}), frozenset({"key", "key_file"}))
    return ProducerKey(
        name=fields.text("name"),
        key=None if fields.value("key") is None else fields.hex32("key"),
        key_file=fields.text_or_none("key_file"),
    )


def _read_token(fields: Fields) -> CapToken | None:
    if fields.value("cap_token") is None:
        return None
    return CapToken.decode(fields.base64("cap_token"))


def read_stream(found: Value, where: str) -> StreamEntry:
    """One entry of `streams`; its reader key is not verified yet."""
    required = frozenset({"name", "label", "event_types", "reader_key"})
    fields = Fields(found, where, required, frozenset({"event_bytes_max"}))
    bound = EVENT_BYTES_LIMIT
    if fields.value("event_bytes_max") is not None:
        bound = fields.uint("event_bytes_max")
    types = [
        text_of(item, f"{where}/event_types/{index}")
        for index, item in enumerate(fields.items("event_types"))
    ]
    return StreamEntry(
        name=fields.text("name"),
        label=Label(fields.hex32("label")),
        event_types=tuple(types),
        reader_key=ReaderKeyRecord.decode(fields.base64("reader_key")),
        event_bytes_max=bound,
    )


def _render_stream(entry: StreamEntry) -> dict[str, Value]:
    found: dict[str, Value] = {
        "name": entry.name,
        "label": entry.label.hex(),
        "event_types": [*entry.event_types],
        "reader_key": _base64(entry.reader_key.encode()),
    }
    if entry.event_bytes_max != EVENT_BYTES_LIMIT:
        found["event_bytes_max"] = entry.event_bytes_max
    return found


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
