"""Recorder streams: names, bounds, and one stream for each event type [SDR0 2.2, 3.2.2]."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from hub import label
from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError, WireError
from hub.limits import DEFAULT
from recorder.codes import Detail, RecordCode, RecordError
from recorder.event import check_event_type

LONG_TERM: Final = 315_360_000  # seconds; shown as long_term, never shortened for a record stream
# What seals, pads and signs an event takes less than this beside its body.
ENVELOPE_BYTES: Final = 1024
EVENT_BYTES_LIMIT: Final = DEFAULT.msg_bytes_max - ENVELOPE_BYTES
EVENT_BYTES_MAX_DEFAULT: Final = 65_536

CHANGES: Final = "record/infrastructure/changes"
CHECKPOINTS: Final = "record/infrastructure/checkpoints"
LAKE: Final = "record/infrastructure/lake"
QUERY_PREFIX: Final = "record/query/"
# Messages on these never cause a manifest by time, so that an idle system comes to rest.
HOUSEKEEPING: Final = frozenset({CHECKPOINTS, LAKE})
_OWN: Final = HOUSEKEEPING | {CHANGES}  # written by the product's services only
_NAMESPACES: Final = tuple(
    f"record/{area}/" for area in ("app", "security", "infrastructure", "query")
)
_CLASS: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Sensitivity(StrEnum):
    """How much harm a leak would do; queries on `high` are audited."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def _refusal(detail: str) -> VeenError:
    return VeenError(ErrorCode.POLICY, detail)


def check_name(name: str) -> None:
    """Raise unless the name is a stream of the recorder."""
    label.check_stream_name(name)
    if not name.startswith(_NAMESPACES):
        raise _refusal(f"{name} is not under {', '.join(_NAMESPACES)}")


def is_reserved(name: str) -> bool:
    """Whether only the product's own services write there."""
    return name.startswith(QUERY_PREFIX) or name in _OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """One stream as an administrator sets it up; an existing value obeys every rule."""

    name: str
    label_class: str = "log"
    sensitivity: Sensitivity = Sensitivity.MEDIUM
    retention_hint: int = LONG_TERM
    event_bytes_max: int = EVENT_BYTES_MAX_DEFAULT  # of an event's CBOR body
    event_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not _CLASS.fullmatch(self.label_class):
            raise _refusal(f"{self.name}: class is not {_CLASS.pattern}")
        if self.retention_hint < LONG_TERM:
            raise _refusal(f"{self.name}: a record stream is kept for long_term")
        if not 1 <= self.event_bytes_max <= EVENT_BYTES_LIMIT:
            raise _refusal(f"{self.name}: event_bytes_max is not 1 to {EVENT_BYTES_LIMIT}")
        for event_type in self.event_types:
            check_event_type(event_type)
        if self.event_types != tuple(sorted(set(self.event_types))):
            object.__setattr__(self, "event_types", tuple(sorted(set(self.event_types))))

    @property
    def shown_retention(self) -> str:
        """`long_term`, or seconds."""
        return "long_term" if self.retention_hint == LONG_TERM else str(self.retention_hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMap:
    """All streams of a recorder; each event type belongs to exactly one of them."""

    streams: Mapping[str, StreamConfig]
    _by_type: Mapping[str, StreamConfig] = field(repr=False, compare=False)

    @classmethod
    def of(cls, configs: Iterable[StreamConfig]) -> Self:
        """Build the map, or raise P.POLICY naming every double."""
        streams: dict[str, StreamConfig] = {}
        owners: dict[str, list[StreamConfig]] = {}
        doubles = []
        for config in configs:
            if config.name in streams:
                doubles.append(f"stream {config.name}")
            streams[config.name] = config
            for event_type in config.event_types:
                owners.setdefault(event_type, []).append(config)
        for event_type, claims in owners.items():
            if len(claims) > 1:
                names = " and ".join(config.name for config in claims)
                doubles.append(f"event type {event_type} ({names})")
        if doubles:
            raise _refusal(f"mapped twice: {'; '.join(sorted(doubles))}")
        by_type = {event_type: claims[0] for event_type, claims in owners.items()}
        return cls(streams=dict(sorted(streams.items())), _by_type=by_type)

    def stream_of(self, event_type: str) -> StreamConfig | None:
        """The one stream of an event type."""
        return self._by_type.get(event_type)

    def route(
        self, event_type: str, *, asked: str | None, allowed: Collection[str], prefix: str = ""
    ) -> StreamConfig:
        """Where a producer's event goes; `asked` is the stream it named, `allowed` its own ones."""
        config = self._by_type.get(event_type)
        if config is None:
            flaw = Detail(pointer=f"{prefix}/event_type", reason="maps to no stream")
            message = f"no stream takes events of type {event_type}"
            raise RecordError(RecordCode.UNKNOWN_EVENT_TYPE, message, details=[flaw])
        # Before wrong_stream, whose answer names the right stream to whoever may write there.
        if config.name not in allowed:
            message = f"this producer may not write events of type {event_type}"
            flaw = Detail(pointer=f"{prefix}/event_type", reason="maps to a stream of others")
            raise RecordError(RecordCode.FORBIDDEN_STREAM, message, details=[flaw])
        if asked is not None and asked != config.name:
            flaw = Detail(pointer=f"{prefix}/stream", reason=f"the type maps to {config.name}")
            message = f"events of type {event_type} do not go there"
            raise RecordError(RecordCode.WRONG_STREAM, message, details=[flaw])
        return config

    def apply(self, migration: Migration) -> StreamMap:
        """The map after a migration, or P.POLICY; its streams must exist already."""
        unknown = {migration.source, *migration.moves} - self.streams.keys()
        if unknown:
            raise _refusal(f"no such stream: {', '.join(sorted(unknown))}")
        source = self.streams[migration.source]
        moved = {event_type for types in migration.moves.values() for event_type in types}
        foreign = moved - set(source.event_types)
        if foreign:
            raise _refusal(f"not mapped to {source.name}: {', '.join(sorted(foreign))}")
        kept = tuple(event_type for event_type in source.event_types if event_type not in moved)
        if kept and migration.kind is MigrationKind.RENAMED:
            raise _refusal(f"a rename moves every event type; left behind: {', '.join(kept)}")
        changed = {source.name: replace(source, event_types=kept)}
        for name, types in migration.moves.items():
            target = self.streams[name]
            changed[name] = replace(target, event_types=(*target.event_types, *types))
        return StreamMap.of({**self.streams, **changed}.values())


class MigrationKind(StrEnum):
    """The event types of migrations, recorded in `record/infrastructure/changes`."""

    RENAMED = "stream.renamed"
    SPLIT = "stream.split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Event types that go elsewhere from now on; what was recorded stays where it is, for ever."""

    kind: MigrationKind
    source: str
    moves: Mapping[str, tuple[str, ...]]  # target stream -> event types
    reason: str

    def __post_init__(self) -> None:
        for name in (self.source, *self.moves):
            check_name(name)
        if self.kind is MigrationKind.RENAMED and len(self.moves) != 1:
            raise _refusal("a rename has exactly one target")
        if self.kind is MigrationKind.SPLIT and not (self.moves and all(self.moves.values())):
            raise _refusal("a split names its targets and what moves to each")
        if self.source in self.moves:
            raise _refusal(f"{self.source} cannot be its own target")
        for event_type in [one for types in self.moves.values() for one in types]:
            check_event_type(event_type)
        if not self.reason.strip():
            raise _refusal("a migration needs a reason")

    @classmethod
    def rename(cls, source: StreamConfig, target: str, *, reason: str) -> Self:
        """Everything that went to `source` goes to `target`."""
        moves = {target: source.event_types}
        return cls(kind=MigrationKind.RENAMED, source=source.name, moves=moves, reason=reason)

    def to_payload(self) -> dict[str, Value]:
        """The payload of the migration event."""
        targets: list[Value] = [
            {"stream": name, "event_types": list(types)} for name, types in self.moves.items()
        ]
        return {"from": self.source, "to": targets, "reason": self.reason}

    @classmethod
    def from_payload(cls, event_type: str, payload: Value) -> Self:
        """Read a recorded migration, or raise E.FORMAT."""
        if event_type not in set(MigrationKind):
            raise WireError(f"{event_type} is no migration")
        source, targets, reason = _fields(payload, "from", "to", "reason")
        moves: dict[str, tuple[str, ...]] = {}
        for target in _list(targets):
            stream, types = _fields(target, "stream", "event_types")
            name = _text(stream)
            if name in moves:
                raise WireError(f"{name} is a target twice")
            moves[name] = tuple([_text(one) for one in _list(types)])
        return cls(
            kind=MigrationKind(event_type), source=_text(source), moves=moves, reason=_text(reason)
        )


def _fields(found: Value, *keys: str) -> list[Value]:
    if not isinstance(found, dict) or found.keys() != set(keys):
        raise WireError(f"expected an object with {', '.join(keys)}")
    return [found[key] for key in keys]


def _list(found: Value) -> list[Value]:
    if not isinstance(found, list):
        raise WireError("expected a list")
    return found


def _text(found: Value) -> str:
    if not isinstance(found, str):
        raise WireError("expected text")
    return found
