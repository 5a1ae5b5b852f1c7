"""What the gateway is told: streams, producers and tokens, and the producers' keys [architecture].

`gateway/config.json` is published by the author process, {"ver", "serial", "hub_url", "hub_pk",
"hub_id", "recorder_admin_pk", "streams": [{name, label, event_types, event_bytes_max, reader_key}],
"producers": [{name, principal, cap_token, streams}], "tokens": [{id, sha256, producer}],
"other_tokens"?: SHA-256 of the tokens in force that may not record, so that they are told so,
"retiring"?: producers whose key was rotated and that send what they took, nothing new};
`secrets/gateway.keys` is {"ver", "producers": {principal: seed}}. Hashes and keys are hex.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from hub import canonical_json, label
from hub.canonical_json import Value
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import DhKey, HubId, Label, PublicKey
from hub.wire import readerkey
from hub.wire.captoken import CapToken
from hub.wire.readerkey import ReaderKeyRecord
from recorder.json_fields import Fields, hex32_of, text_of
from recorder.streams import StreamConfig, StreamMap

VER: Final = 1
_NONE: Final[frozenset[str]] = frozenset()
_KEYS: Final = frozenset(
    {
        "ver", "serial", "hub_url", "hub_pk", "hub_id", "recorder_admin_pk", "streams",
        "producers", "tokens",
    }
)  # fmt: skip
_OPTIONAL: Final = frozenset({"other_tokens", "retiring"})
_STREAM: Final = frozenset({"name", "label", "event_types", "event_bytes_max", "reader_key"})
_PRODUCER: Final = frozenset({"name", "principal", "cap_token", "streams"})
_TOKEN: Final = frozenset({"id", "sha256", "producer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where events of a stream go, and to which key they are sealed."""

    label: Label
    reader_pk: DhKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A producer whose key the gateway holds."""

    name: str
    principal: PublicKey
    cap_token: CapToken
    streams: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """One published state; a value that exists is whole and its signatures hold."""

    serial: int
    hub_url: str
    hub_pk: PublicKey
    hub_id: HubId
    map: StreamMap
    targets: dict[str, Target]
    names: dict[Label, str]  # of all streams, also those that no event type maps to any more
    producers: dict[str, Held]
    tokens: dict[bytes, str]  # SHA-256 of the token -> name of its one producer
    other_tokens: frozenset[bytes] = frozenset()  # of readers and administrators
    retiring: tuple[Held, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read `config.json`, or raise a VeenError that says where it is wrong."""
        fields = Fields(canonical_json.parse(data), "", _KEYS, _OPTIONAL)
        if fields.value("ver") != VER:
            raise WireError("/ver: unknown version of a gateway configuration")
        admin = PublicKey(fields.hex32("recorder_admin_pk"))
        configs: list[StreamConfig] = []
        targets: dict[str, Target] = {}
        for index, item in enumerate(fields.items("streams")):
            config, target = _read_stream(item, f"/streams/{index}", admin)
            configs.append(config)
            targets[config.name] = target
        producers = [
            _read_producer(item, f"/producers/{index}")
            for index, item in enumerate(fields.items("producers"))
        ]
        by_name = {one.name: one for one in producers}
        if len(by_name) != len(producers):
            raise WireError("/producers: a name stands there twice")
        return cls(
            serial=fields.uint("serial"),
            hub_url=fields.text("hub_url"),
            hub_pk=PublicKey(fields.hex32("hub_pk")),
            hub_id=HubId(fields.hex32("hub_id")),
            map=StreamMap.of(configs),
            targets=targets,
            names={target.label: name for name, target in targets.items()},
            producers=by_name,
            tokens=dict(
                _read_token(item, f"/tokens/{index}")
                for index, item in enumerate(fields.items("tokens"))
            ),
            other_tokens=frozenset(
                hex32_of(item, f"/other_tokens/{index}")
                for index, item in enumerate(_optional(fields, "other_tokens"))
            ),
            retiring=tuple(
                _read_producer(item, f"/retiring/{index}")
                for index, item in enumerate(_optional(fields, "retiring"))
            ),
        )


def producer_folder(gateway: Path, name: str) -> Path:
    """All keys that a producer ever has share one folder; its name may hold any character."""
    return gateway / "producers" / sha256(name.encode()).hexdigest()[:32]


def _optional(fields: Fields, key: str) -> list[Value]:
    return [] if fields.value(key) is None else fields.items(key)


def _read_stream(found: Value, where: str, admin: PublicKey) -> tuple[StreamConfig, Target]:
    fields = Fields(found, where, _STREAM, _NONE)
    config = StreamConfig(
        name=fields.text("name"),
        event_bytes_max=fields.uint("event_bytes_max"),
        event_types=_texts(fields, "event_types", where),
    )
    record = readerkey.accept(
        None,
        ReaderKeyRecord.decode(fields.base64("reader_key")),
        stream_id=label.stream_id(config.name),
        recorder_admin_pk=admin,
    )
    return config, Target(label=Label(fields.hex32("label")), reader_pk=record.reader_pk)


def _read_producer(found: Value, where: str) -> Held:
    fields = Fields(found, where, _PRODUCER, _NONE)
    held = Held(
        name=fields.text("name"),
        principal=PublicKey(fields.hex32("principal")),
        cap_token=CapToken.decode(fields.base64("cap_token")),
        streams=frozenset(_texts(fields, "streams", where)),
    )
    if held.cap_token.subject_pk != held.principal:
        raise VeenError(ErrorCode.CAP, f"{where}/cap_token: is of another key")
    return held


def _read_token(found: Value, where: str) -> tuple[bytes, str]:
    fields = Fields(found, where, _TOKEN, _NONE)
    fields.text("id")
    return fields.hex32("sha256"), fields.text("producer")


def _texts(fields: Fields, key: str, where: str) -> tuple[str, ...]:
    return tuple(
        text_of(item, f"{where}/{key}/{index}") for index, item in enumerate(fields.items(key))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayKeys:
    """The producers' signing keys; never printed."""

    keys: dict[PublicKey, SigningKey] = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read `gateway.keys`."""
        fields = Fields(canonical_json.parse(data), "", frozenset({"ver", "producers"}), _NONE)
        if fields.value("ver") != VER:
            raise WireError("/ver: unknown version of a key file")
        found = fields.value("producers")
        if not isinstance(found, dict):
            raise WireError("/producers: expected an object")
        seeds = Fields(found, "/producers", _NONE, frozenset(found))
        keys = {}
        for principal in found:
            key = SigningKey(seeds.hex32(principal))
            if key.public.hex() != principal:
                raise VeenError(ErrorCode.KEYSTORE, f"/producers/{principal[:8]}: of another key")
            keys[key.public] = key
        return cls(keys=keys)
