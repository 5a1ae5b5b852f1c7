"""Acts on streams: create one, change its class, give it a new key [SDR0 3.2.2]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from hub.errors import ErrorCode, VeenError
from recorder.acts import reader_keys
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.publishing import publish_gateway, publish_readers
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.json_fields import Fields
from recorder.models import Act, EventType, Reader, Stream
from recorder.streams import (
    EVENT_BYTES_LIMIT,
    EVENT_BYTES_MAX_DEFAULT,
    LONG_TERM,
    Sensitivity,
    StreamConfig,
    StreamMap,
    check_name,
    is_reserved,
)

HOUSEKEEPING_CLASS: Final = "housekeeping"
RETENTION_MAX: Final = 2**53 - 1


def find_stream(name: str) -> Stream:
    """A stream by name, or not_found."""
    stream = Stream.objects.filter(name=name).first()
    if stream is None:
        raise RecordError(RecordCode.NOT_FOUND, f"there is no stream {name}")
    return stream


def check_own_name(name: str) -> None:
    """Raise unless administrators, not the product itself, say how this stream is set up."""
    check_name(name)
    if is_reserved(name):
        raise VeenError(ErrorCode.POLICY, f"{name} is written by the product's services only")


def config_of(stream: Stream) -> StreamConfig:
    """A row as the value that the rules are written for."""
    return StreamConfig(
        name=stream.name,
        label_class=stream.label_class,
        sensitivity=Sensitivity(stream.sensitivity),
        retention_hint=stream.retention_hint,
        event_bytes_max=stream.event_bytes_max,
        event_types=tuple(one.event_type for one in stream.event_types.all()),
    )


def stream_map() -> StreamMap:
    """All streams as they are now."""
    return StreamMap.of(
        config_of(stream) for stream in Stream.objects.prefetch_related("event_types")
    )


def check_new(config: StreamConfig) -> None:
    """Raise when the name is taken, or an event type has its stream already."""
    streams = stream_map()
    if config.name in streams.streams:
        raise VeenError(ErrorCode.POLICY, f"the stream {config.name} exists")
    StreamMap.of([*streams.streams.values(), config])


def create(config: StreamConfig, readers: list[Reader], authority: Authority) -> Stream:
    """The rows of a stream with its first key."""
    stream = Stream.objects.create(
        name=config.name,
        label=authority.label(config.name).hex(),
        label_class=config.label_class,
        sensitivity=config.sensitivity,
        retention_hint=config.retention_hint,
        event_bytes_max=config.event_bytes_max,
        created_at=authority.now(),
    )
    EventType.objects.bulk_create(
        [EventType(event_type=event_type, stream=stream) for event_type in config.event_types]
    )
    reader_keys.add_key(stream, readers, authority)
    return stream


def settle_class(stream: Stream, authority: Authority) -> None:
    """Have the hub know class, sensitivity and retention; it records each change of them."""
    wanted: dict[str, Any] = {
        "label": stream.label,
        "class": stream.label_class,
        "sensitivity": stream.sensitivity,
        "retention_hint": stream.retention_hint,
    }
    if wanted not in authority.ask_hub("label_classes")["classes"]:
        authority.ask_hub("label_class", **wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateArgs:
    config: StreamConfig
    readers: tuple[str, ...]


class CreateStream(Verb[CreateArgs]):
    name = "stream.create"
    event_type = "stream.created"

    def check(self, found: object) -> CreateArgs:
        given = Arguments(found)
        name = given.text("name")
        label_class = given.text("class", "log")
        sensitivity = given.choice("sensitivity", tuple(Sensitivity), Sensitivity.MEDIUM)
        hint = given.integer("retention_hint", low=0, high=RETENTION_MAX, default=LONG_TERM)
        bound = given.integer(
            "event_bytes_max", low=1, high=EVENT_BYTES_LIMIT, default=EVENT_BYTES_MAX_DEFAULT
        )
        event_types = given.texts("event_types")
        readers = given.texts("readers")
        given.close()
        self.check_name(name, label_class)
        config = StreamConfig(
            name=name,
            label_class=label_class,
            sensitivity=Sensitivity(sensitivity),
            retention_hint=hint,
            event_bytes_max=bound,
            event_types=event_types,
        )
        return CreateArgs(config=config, readers=readers)

    def check_name(self, name: str, label_class: str) -> None:
        """Which names and classes this verb is for."""
        check_own_name(name)
        if label_class == HOUSEKEEPING_CLASS:
            # Its messages never cause a manifest by time: nobody else's may rest uncovered.
            raise VeenError(ErrorCode.POLICY, "the class housekeeping is the product's own")

    def plan(self, args: CreateArgs) -> None:
        check_new(args.config)
        active_readers(args.readers)

    def apply(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        del act
        stream = create(args.config, active_readers(args.readers), authority)
        record = reader_keys.newest_record(stream)
        return {
            "stream": stream.name,
            "label": stream.label,
            "key_id": record.key_id,
            "reader_pk": record.reader_pk.hex(),
        }

    def settle(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        del act
        settle_class(find_stream(args.config.name), authority)
        publish_readers(authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: CreateArgs, act: Act) -> Result:
        config = args.config
        return {
            "stream": config.name,
            "label": act.result["label"],
            "class": config.label_class,
            "sensitivity": config.sensitivity.value,
            "retention_hint": config.retention_hint,
            "event_bytes_max": config.event_bytes_max,
            "event_types": list(config.event_types),
            "readers": list(args.readers),
            "key_id": act.result["key_id"],
            "reader_pk": act.result["reader_pk"],
        }

    def recorded(self, event_type: str, found: Result) -> CreateArgs:
        del event_type
        told = Fields.among(found)
        config = StreamConfig(
            name=told.text("stream"),
            label_class=told.text("class"),
            sensitivity=Sensitivity(told.text("sensitivity")),
            retention_hint=told.uint("retention_hint"),
            event_bytes_max=told.uint("event_bytes_max"),
            event_types=told.texts("event_types"),
        )
        return CreateArgs(config=config, readers=told.texts("readers"))


class CreateReservedStream(CreateStream):
    """The streams that the product's own services write to; made by the author at its start."""

    name = "stream.create_reserved"
    is_public = False

    def check_name(self, name: str, label_class: str) -> None:
        del label_class
        check_name(name)
        assert is_reserved(name), name


def active_readers(names: tuple[str, ...]) -> list[Reader]:
    """Readers by name, or not_found; a revoked one is not given anything new."""
    found = {one.name: one for one in Reader.objects.filter(name__in=names)}
    for name in names:
        if name not in found:
            raise RecordError(RecordCode.NOT_FOUND, f"there is no reader {name}")
        if found[name].revoked_at is not None:
            raise VeenError(ErrorCode.POLICY, f"the reader {name} is revoked")
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArgs:
    stream: str
    label_class: str | None
    sensitivity: str | None
    event_bytes_max: int | None


class ChangeClass(Verb[ClassArgs]):
    """Class, sensitivity and size bound; retention has an act of its own."""

    name = "stream.class"
    event_type = "stream.classified"
    fields: ClassVar = ("label_class", "sensitivity", "event_bytes_max")

    def check(self, found: object) -> ClassArgs:
        given = Arguments(found)
        stream = given.text("stream")
        label_class = given.text("class", "")
        sensitivity = given.choice("sensitivity", ("", *Sensitivity), "")
        bound = given.integer("event_bytes_max", low=1, high=EVENT_BYTES_LIMIT, default=0)
        if not (label_class or sensitivity or bound):
            given.flaw("nothing to change")
        given.close()
        CreateStream().check_name(stream, label_class)
        StreamConfig(name=stream, label_class=label_class or "log")
        return ClassArgs(
            stream=stream,
            label_class=label_class or None,
            sensitivity=sensitivity or None,
            event_bytes_max=bound or None,
        )

    def plan(self, args: ClassArgs) -> None:
        find_stream(args.stream)

    def apply(self, args: ClassArgs, act: Act, authority: Authority) -> Result:
        del act, authority
        stream = find_stream(args.stream)
        before: Result = {name: getattr(stream, name) for name in self.fields}
        for name in self.fields:
            value = getattr(args, name)
            if value is not None:
                setattr(stream, name, value)
        stream.save(update_fields=self.fields)
        after: Result = {name: getattr(stream, name) for name in self.fields}
        return {"stream": stream.name, "before": before, "after": after}

    def settle(self, args: ClassArgs, act: Act, authority: Authority) -> Result:
        del act
        settle_class(find_stream(args.stream), authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: ClassArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("stream", "before", "after")}

    def recorded(self, event_type: str, found: Result) -> ClassArgs:
        del event_type
        after = Fields.among(found).inner("after")
        return ClassArgs(
            stream=Fields.among(found).text("stream"),
            label_class=after.text("label_class"),
            sensitivity=after.text("sensitivity"),
            event_bytes_max=after.uint("event_bytes_max"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamArgs:
    stream: str


class RotateKey(Verb[StreamArgs]):
    """A new key pair; the old secrets still open what was sealed to them."""

    name = "stream.rotate_key"
    event_type = "stream.key_rotated"

    def check(self, found: object) -> StreamArgs:
        given = Arguments(found)
        stream = given.text("stream")
        given.close()
        check_name(stream)
        return StreamArgs(stream=stream)

    def plan(self, args: StreamArgs) -> None:
        find_stream(args.stream)

    def apply(self, args: StreamArgs, act: Act, authority: Authority) -> Result:
        del act
        return rotated(find_stream(args.stream), authority)

    def settle(self, args: StreamArgs, act: Act, authority: Authority) -> Result:
        del args, act
        publish_readers(authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: StreamArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("stream", "key_id", "reader_pk", "readers")}

    def recorded(self, event_type: str, found: Result) -> StreamArgs:
        del event_type
        return StreamArgs(stream=Fields.among(found).text("stream"))


def rotated(stream: Stream, authority: Authority) -> Result:
    """Add a key for everyone who opens the newest one; what changed, without secrets."""
    readers = reader_keys.readers_of(stream)
    record = reader_keys.add_key(stream, readers, authority)
    return {
        "stream": stream.name,
        "key_id": record.key_id,
        "reader_pk": record.reader_pk.hex(),
        "readers": [*sorted(reader.name for reader in readers)],
    }
