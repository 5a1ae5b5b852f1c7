"""Acts on event types: map them to a stream, move them by a recorded migration [SDR0 3.2.2]."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hub.errors import ErrorCode, VeenError
from recorder.acts import capabilities, reader_keys
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.producers import find_producer
from recorder.acts.publishing import publish_gateway, publish_readers
from recorder.acts.streams import (
    check_own_name,
    config_of,
    create,
    find_stream,
    settle_class,
    stream_map,
)
from recorder.acts.verb import Result, Verb
from recorder.event import check_event_type
from recorder.json_fields import Fields
from recorder.models import Act, EventType, Stream
from recorder.streams import Migration, MigrationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MapArgs:
    stream: str
    event_types: tuple[str, ...]


class MapTypes(Verb[MapArgs]):
    """New event types of a stream; one that has a stream already is moved by a migration."""

    name = "stream.map"
    event_type = "stream.mapped"

    def check(self, found: object) -> MapArgs:
        given = Arguments(found)
        args = MapArgs(stream=given.text("stream"), event_types=given.some_texts("event_types"))
        given.close()
        check_own_name(args.stream)
        for event_type in args.event_types:
            check_event_type(event_type)
        return args

    def plan(self, args: MapArgs) -> None:
        find_stream(args.stream)
        streams = stream_map()
        for event_type in args.event_types:
            owner = streams.stream_of(event_type)
            if owner is not None and owner.name != args.stream:
                detail = f"{event_type} maps to {owner.name}; a migration moves it"
                raise VeenError(ErrorCode.POLICY, detail)

    def apply(self, args: MapArgs, act: Act, authority: Authority) -> Result:
        del act, authority
        stream = find_stream(args.stream)
        for event_type in args.event_types:
            EventType.objects.get_or_create(event_type=event_type, defaults={"stream": stream})
        return {"stream": stream.name, "event_types": list(args.event_types)}

    def settle(self, args: MapArgs, act: Act, authority: Authority) -> Result:
        del args, act
        publish_gateway(authority)
        return {}

    def payload(self, args: MapArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("stream", "event_types")}

    def recorded(self, event_type: str, found: Result) -> MapArgs:
        del event_type
        told = Fields.among(found)
        return MapArgs(stream=told.text("stream"), event_types=told.texts("event_types"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateArgs:
    kind: MigrationKind
    source: str
    moves: tuple[tuple[str, tuple[str, ...]], ...]  # of a rename: the target, with all it had


class Migrate(Verb[MigrateArgs]):
    """A rename or a split: event types go elsewhere from now on, what was recorded stays.

    A rename makes its target when it does not exist, set up like the source. Producers whose key
    the gateway holds get the targets too; the others are named, for their key is not here.
    """

    name = "stream.migrate"
    event_type = MigrationKind.RENAMED  # or SPLIT: see `event`
    needs_reason = True

    def check(self, found: object) -> MigrateArgs:
        given = Arguments(found)
        kind = given.choice("kind", ("rename", "split"))
        source = given.text("from")
        if kind == "rename":
            moves: tuple[tuple[str, tuple[str, ...]], ...] = ((given.text("to"), ()),)
        else:
            moves = tuple(_read_moves(given))
        given.close()
        for name in (source, *(name for name, _ in moves)):
            check_own_name(name)
        args = MigrateArgs(
            kind=MigrationKind.RENAMED if kind == "rename" else MigrationKind.SPLIT,
            source=source,
            moves=moves,
        )
        Migration(kind=args.kind, source=source, moves=dict(moves), reason="asked for")
        return args

    def plan(self, args: MigrateArgs) -> None:
        find_stream(args.source)
        streams = stream_map()
        target = args.moves[0][0]
        if args.kind is MigrationKind.RENAMED and target not in streams.streams:
            made = replace(streams.streams[args.source], name=target, event_types=())
            streams = replace(streams, streams={**streams.streams, target: made})
        streams.apply(self._migration(args, "planned"))

    def _migration(self, args: MigrateArgs, reason: str) -> Migration:
        if args.kind is MigrationKind.RENAMED:
            source = config_of(find_stream(args.source))
            return Migration.rename(source, args.moves[0][0], reason=reason)
        return Migration(kind=args.kind, source=args.source, moves=dict(args.moves), reason=reason)

    def apply(self, args: MigrateArgs, act: Act, authority: Authority) -> Result:
        source = find_stream(args.source)
        migration = self._migration(args, act.reason)
        created = [
            self._like(source, name, authority).name
            for name in migration.moves
            if not Stream.objects.filter(name=name).exists()
        ]
        for name, event_types in migration.moves.items():
            EventType.objects.filter(event_type__in=event_types).update(stream=name)
        followed, left_behind = capabilities.follow(source, list(migration.moves), authority)
        return {
            "migration": migration.to_payload(),
            "created": list(created),
            "producers_extended": list(followed),
            "producers_to_rotate": list(left_behind),
        }

    def _like(self, source: Stream, name: str, authority: Authority) -> Stream:
        config = replace(config_of(source), name=name, event_types=())
        return create(config, reader_keys.readers_of(source), authority)

    def settle(self, args: MigrateArgs, act: Act, authority: Authority) -> Result:
        del args
        for name in act.result["created"]:
            settle_class(find_stream(name), authority)
        for name in act.result["producers_extended"]:
            capabilities.authorize(find_producer(name), authority)
        publish_readers(authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: MigrateArgs, act: Act) -> Result:
        del args
        found: Result = act.result["migration"]
        return found

    def event(self, args: MigrateArgs, act: Act) -> tuple[str, Result]:
        """Exactly a Migration, which readers of the log parse as such."""
        return args.kind, self.payload(args, act)

    def recorded(self, event_type: str, found: Result) -> MigrateArgs:
        migration = Migration.from_payload(event_type, found)
        moves = tuple(migration.moves.items())
        if migration.kind is MigrationKind.RENAMED:
            moves = ((moves[0][0], ()),)
        return MigrateArgs(kind=migration.kind, source=migration.source, moves=moves)


def _read_moves(given: Arguments) -> list[tuple[str, tuple[str, ...]]]:
    moves = []
    for name, item in sorted(given.inner("moves").items()):
        if isinstance(item, list) and item and all(isinstance(one, str) for one in item):
            moves.append((name, tuple(sorted(set(item)))))
        else:
            given.flaw("not a list of event types", "moves", name)
    if not moves:
        given.flaw("names its targets and what moves to each", "moves")
    return moves
