"""Acts on producers: one key per emitting service, append-only on named streams [SDR0 3.2.3]."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.limits import DEFAULT as LIMITS
from hub.types import PublicKey
from hub.wire.captoken import CapToken, Rate
from recorder import roles
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.bindings import all_bindings
from recorder.acts.capabilities import (
    BECAUSE_MAX,
    authorize,
    check_drained,
    issue,
    mark_revoked,
    revoke,
)
from recorder.acts.publishing import described, keep_seed, publish_gateway
from recorder.acts.streams import check_own_name, find_stream
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.json_fields import Fields
from recorder.models import Act, ApiToken, Producer, Stream

RATE_MAX: Final = 1_000_000


def find_producer(name: str) -> Producer:
    """The active producer of this name, or not_found."""
    producer = Producer.objects.filter(name=name, ended_at__isnull=True).first()
    if producer is None:
        raise RecordError(RecordCode.NOT_FOUND, f"there is no active producer {name}")
    return producer


def _store(
    *,
    name: str,
    principal: PublicKey,
    held: str,
    streams: Iterable[Stream],
    rate: Rate | None,
    authority: Authority,
) -> Producer:
    streams = list(streams)
    token = issue(principal, [stream.name for stream in streams], rate, authority)
    if Producer.objects.filter(principal=principal.hex()).exists():
        raise VeenError(ErrorCode.POLICY, "the key is, or was, a producer's; make a new one")
    producer = Producer.objects.create(
        name=name,
        principal=principal.hex(),
        held=held,
        cap_token=token.encode(),
        auth_ref=token.auth_ref().hex(),
        created_at=authority.now(),
    )
    producer.streams.set(streams)
    roles.check(all_bindings(authority))
    return producer


def _new_principal(given: bytes | None, authority: Authority) -> PublicKey:
    """The key a service made for itself, or one that only the gateway will hold."""
    if given is not None:
        return PublicKey(given)
    key = SigningKey.generate()
    keep_seed(key, authority)
    return key.public


def connection(producer: Producer, authority: Authority) -> Result:
    """What the connection file is made of, without the key."""
    facts = authority.facts
    streams = producer.streams.prefetch_related("event_types").order_by("name")
    return {
        "producer": producer.name,
        "principal": producer.principal,
        "held": producer.held,
        "cap_token": b64encode(bytes(producer.cap_token)).decode(),
        "auth_ref": producer.auth_ref,
        "streams": [described(stream) for stream in streams],
        "hub_url": facts.hub_url,
        "hub_pk": facts.hub_pk.hex(),
        "hub_id": facts.hub_id.hex(),
        "trust_pk": facts.trust_pk.hex(),
        "recorder_admin_pk": authority.recorder_admin.public.hex(),
        "web_url": facts.web_url,
        "gateway_url": facts.gateway_url,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AddArgs:
    name: str
    streams: tuple[str, ...]
    held: Producer.Held
    principal: bytes | None
    rate: Rate | None


class AddProducer(Verb[AddArgs]):
    name = "producer.add"
    event_type = "producer.added"

    def check(self, found: object) -> AddArgs:
        given = Arguments(found)
        held = given.choice("held", tuple(Producer.Held), Producer.Held.FILE)
        name = given.name("name")
        streams = given.some_texts("streams")
        principal = given.hex32_or_none("principal")
        per_sec = given.integer("rate_per_s", low=1, high=RATE_MAX, default=0)
        burst = given.integer("rate_burst", low=1, high=RATE_MAX, default=per_sec)
        if (held == Producer.Held.FILE) != (principal is not None):
            given.flaw("a file-held producer brings its public key, no other does", "principal")
        if len(streams) > LIMITS.cap_streams_max:
            given.flaw(f"more than {LIMITS.cap_streams_max} streams", "streams")
        given.close()
        for stream in streams:
            check_own_name(stream)
        return AddArgs(
            name=name,
            streams=streams,
            held=Producer.Held(held),
            principal=principal,
            rate=Rate(per_sec=per_sec, burst=burst) if per_sec else None,
        )

    def plan(self, args: AddArgs) -> None:
        for name in args.streams:
            find_stream(name)
        if Producer.objects.filter(name=args.name, ended_at__isnull=True).exists():
            detail = f"the producer {args.name} exists; `rotate` gives it a new key"
            raise VeenError(ErrorCode.POLICY, detail)

    def apply(self, args: AddArgs, act: Act, authority: Authority) -> Result:
        del act
        producer = _store(
            name=args.name,
            principal=_new_principal(args.principal, authority),
            held=args.held,
            streams=Stream.objects.filter(name__in=args.streams),
            rate=args.rate,
            authority=authority,
        )
        return connection(producer, authority)

    def settle(self, args: AddArgs, act: Act, authority: Authority) -> Result:
        del act
        authorize(find_producer(args.name), authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: AddArgs, act: Act) -> Result:
        rate: Result | None = None
        if args.rate is not None:
            rate = {"per_s": args.rate.per_sec, "burst": args.rate.burst}
        return {
            "producer": args.name,
            "held": args.held.value,
            "streams": list(args.streams),
            "principal": act.result["principal"],
            "auth_ref": act.result["auth_ref"],
            "rate": rate,
        }

    def recorded(self, event_type: str, found: Result) -> AddArgs:
        del event_type
        told = Fields.among(found)
        rate = None
        if told.value("rate") is not None:
            bucket = told.inner("rate")
            rate = Rate(per_sec=bucket.uint("per_s"), burst=bucket.uint("burst"))
        return AddArgs(
            name=told.text("producer"),
            streams=told.texts("streams"),
            held=Producer.Held(told.text("held")),
            principal=told.hex32("principal"),
            rate=rate,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateArgs:
    name: str
    principal: bytes | None
    keep_old: bool


class RotateProducer(Verb[RotateArgs]):
    """A new key and capability; the event links both keys, and then the old one is revoked."""

    name = "producer.rotate"
    event_type = "producer.rotated"

    def check(self, found: object) -> RotateArgs:
        given = Arguments(found)
        args = RotateArgs(
            name=given.name("name"),
            principal=given.hex32_or_none("principal"),
            keep_old=given.flag("keep_old"),
        )
        given.close()
        return args

    def plan(self, args: RotateArgs) -> None:
        producer = find_producer(args.name)
        if (producer.held == Producer.Held.FILE) != (args.principal is not None):
            detail = "a file-held producer brings its new public key, no other does"
            raise VeenError(ErrorCode.POLICY, detail)

    def apply(self, args: RotateArgs, act: Act, authority: Authority) -> Result:
        old = find_producer(args.name)
        streams = list(old.streams.all())
        old.ended_at = authority.now()
        old.ended_because = (act.reason or "rotated")[:BECAUSE_MAX]
        old.save(update_fields=["ended_at", "ended_because"])
        producer = _store(
            name=args.name,
            principal=_new_principal(args.principal, authority),
            held=old.held,
            streams=streams,
            rate=CapToken.decode(bytes(old.cap_token)).rate,
            authority=authority,
        )
        return {"old_principal": old.principal, **connection(producer, authority)}

    def settle(self, args: RotateArgs, act: Act, authority: Authority) -> Result:
        del act
        authorize(find_producer(args.name), authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: RotateArgs, act: Act) -> Result:
        return {
            "producer": args.name,
            "old_principal": act.result["old_principal"],
            "new_principal": act.result["principal"],
            "auth_ref": act.result["auth_ref"],
            "streams": [one["name"] for one in act.result["streams"]],
            "old_kept": args.keep_old,
        }

    def recorded(self, event_type: str, found: Result) -> RotateArgs:
        del event_type
        told = Fields.among(found)
        return RotateArgs(
            name=told.text("producer"),
            principal=told.hex32("new_principal"),
            keep_old=told.flag("old_kept"),
        )

    def mark_revoked(self, args: RotateArgs, act: Act, authority: Authority) -> None:
        if not args.keep_old:
            mark_revoked(Producer.objects.get(principal=act.result["old_principal"]), authority)

    def finish(self, args: RotateArgs, act: Act, authority: Authority) -> None:
        if args.keep_old:
            return
        old = Producer.objects.get(principal=act.result["old_principal"])
        if old.revoked_at is None:
            check_drained(old, authority)
            revoke(old, act.reason or "rotated", authority)
        publish_gateway(authority)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeArgs:
    name: str | None
    principal: bytes | None


class RevokeProducer(Verb[RevokeArgs]):
    """The hub refuses the key from now on; its API tokens end with it."""

    name = "producer.revoke"
    event_type = "producer.revoked"

    def check(self, found: object) -> RevokeArgs:
        given = Arguments(found)
        name = given.name("name", "")
        principal = given.hex32_or_none("principal")
        if (not name) == (principal is None):
            given.flaw("exactly one of name and principal")
        given.close()
        return RevokeArgs(name=name or None, principal=principal)

    def _find(self, args: RevokeArgs) -> Producer:
        if args.name is not None:
            return find_producer(args.name)
        assert args.principal is not None
        producer = Producer.objects.filter(principal=args.principal.hex()).first()
        if producer is None:
            raise RecordError(RecordCode.NOT_FOUND, "there is no producer with this key")
        if producer.revoked_at is not None:
            raise VeenError(ErrorCode.POLICY, "the key is revoked already")
        return producer

    def plan(self, args: RevokeArgs) -> None:
        self._find(args)

    def apply(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        producer = self._find(args)
        now = authority.now()
        tokens: list[str] = []
        if producer.ended_at is None:
            producer.ended_at = now
            producer.ended_because = (act.reason or "revoked")[:BECAUSE_MAX]
            producer.save(update_fields=["ended_at", "ended_because"])
            ended = ApiToken.objects.filter(producer_name=producer.name, revoked_at__isnull=True)
            tokens = [str(token.id) for token in ended]
            ended.update(revoked_at=now)
        return {
            "producer": producer.name,
            "principal": producer.principal,
            "auth_ref": producer.auth_ref,
            "tokens_revoked": list(tokens),
        }

    def settle(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        del args
        producer = Producer.objects.get(principal=act.result["principal"])
        if producer.revoked_at is None:
            revoke(producer, act.reason, authority)
        publish_gateway(authority)
        return {}

    def payload(self, args: RevokeArgs, act: Act) -> Result:
        del args
        return dict(act.result)

    def recorded(self, event_type: str, found: Result) -> RevokeArgs:
        del event_type
        return RevokeArgs(name=None, principal=Fields.among(found).hex32("principal"))

    def mark_revoked(self, args: RevokeArgs, act: Act, authority: Authority) -> None:
        del args
        mark_revoked(Producer.objects.get(principal=act.result["principal"]), authority)
