"""Acts on readers: who is given the secrets of which streams [wire: readers]."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from hub.errors import ErrorCode, VeenError
from hub.types import DhKey
from recorder.acts import reader_keys
from recorder.acts.arguments import Arguments
from recorder.acts.authority import ADMIN_READER, Authority
from recorder.acts.publishing import described, publish_gateway, publish_readers
from recorder.acts.streams import find_stream, rotated
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.json_fields import Fields
from recorder.models import Act, Reader, Stream
from recorder.streams import check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArgs:
    name: str
    dh_pk: DhKey
    streams: tuple[str, ...]
    all_streams: bool


class AddReader(Verb[AddArgs]):
    """Wraps every key of the streams to the reader; a known reader is given more streams."""

    name = "reader.add"
    event_type = "reader.added"

    def check(self, found: object) -> AddArgs:
        given = Arguments(found)
        args = AddArgs(
            name=given.name("name"),
            dh_pk=DhKey(given.hex32("dh_pk")),
            streams=given.texts("streams"),
            all_streams=given.flag("all"),
        )
        if args.all_streams == bool(args.streams):
            given.flaw("name streams, or say all", "streams")
        given.close()
        for name in args.streams:
            check_name(name)
        if args.name == ADMIN_READER:
            raise VeenError(ErrorCode.POLICY, f"{ADMIN_READER} reads everything already")
        return args

    def plan(self, args: AddArgs) -> None:
        for name in args.streams:
            find_stream(name)
        known = Reader.objects.filter(name=args.name).first()
        other = Reader.objects.filter(dh_pk=args.dh_pk.hex()).exclude(name=args.name).first()
        if other is not None:
            raise VeenError(ErrorCode.POLICY, f"the key is that of the reader {other.name}")
        if known is not None and known.dh_pk != args.dh_pk.hex():
            raise VeenError(ErrorCode.POLICY, f"the reader {args.name} has another key")
        if known is not None and known.revoked_at is not None:
            raise VeenError(ErrorCode.POLICY, f"the reader {args.name} is revoked")

    def apply(self, args: AddArgs, act: Act, authority: Authority) -> Result:
        del act
        reader, _ = Reader.objects.get_or_create(
            name=args.name, defaults={"dh_pk": args.dh_pk.hex(), "created_at": authority.now()}
        )
        streams = Stream.objects.order_by("name")
        if not args.all_streams:
            streams = streams.filter(name__in=args.streams)
        facts = authority.facts
        return {
            "reader": reader.name,
            "dh_pk": reader.dh_pk,
            "streams": [_granted(reader, stream, authority) for stream in streams],
            "hub_url": facts.hub_url,
            "hub_pk": facts.hub_pk.hex(),
            "hub_id": facts.hub_id.hex(),
            "trust_pk": facts.trust_pk.hex(),
            "recorder_admin_pk": authority.recorder_admin.public.hex(),
            "web_url": facts.web_url,
        }

    def payload(self, args: AddArgs, act: Act) -> Result:
        return {
            "reader": args.name,
            "dh_pk": args.dh_pk.hex(),
            "streams": [one["name"] for one in act.result["streams"]],
        }

    def recorded(self, event_type: str, found: Result) -> AddArgs:
        del event_type
        told = Fields.among(found)
        return AddArgs(
            name=told.text("reader"),
            dh_pk=DhKey(told.hex32("dh_pk")),
            streams=told.texts("streams"),
            all_streams=False,
        )


def _granted(reader: Reader, stream: Stream, authority: Authority) -> dict[str, Any]:
    wrapped = reader_keys.grant_all(reader, stream, authority)
    keys = [{"key_id": one.key_id, "wrapped": b64encode(one.encode()).decode()} for one in wrapped]
    return {**described(stream), "keys": keys}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeArgs:
    name: str
    keep_keys: bool


class RevokeReader(Verb[RevokeArgs]):
    """Nothing new is wrapped to the reader.

    What it was given it has for ever, so the streams it could open get new keys unless told not to.
    """

    name = "reader.revoke"
    event_type = "reader.revoked"

    def check(self, found: object) -> RevokeArgs:
        given = Arguments(found)
        args = RevokeArgs(name=given.name("name"), keep_keys=given.flag("keep_keys"))
        given.close()
        if args.name == ADMIN_READER:
            raise VeenError(ErrorCode.POLICY, f"{ADMIN_READER} cannot be revoked")
        return args

    def _find(self, args: RevokeArgs) -> Reader:
        reader = Reader.objects.filter(name=args.name, revoked_at__isnull=True).first()
        if reader is None:
            raise RecordError(RecordCode.NOT_FOUND, f"there is no active reader {args.name}")
        return reader

    def plan(self, args: RevokeArgs) -> None:
        self._find(args)

    def apply(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        del act
        reader = self._find(args)
        reader.revoked_at = authority.now()
        reader.save(update_fields=["revoked_at"])
        rotations: list[Any] = []
        if not args.keep_keys:
            streams = Stream.objects.filter(grants__reader=reader).distinct().order_by("name")
            rotations = [rotated(stream, authority) for stream in streams]
        return {"reader": reader.name, "dh_pk": reader.dh_pk, "rotated": rotations}

    def settle(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        del args, act
        publish_readers(authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: RevokeArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("reader", "dh_pk", "rotated")}

    def recorded(self, event_type: str, found: Result) -> RevokeArgs:
        del event_type
        return RevokeArgs(name=Fields.among(found).text("reader"), keep_keys=not found["rotated"])
