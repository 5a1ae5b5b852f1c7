"""Acts on API tokens: each is a producer's, a reader's or an administrator's [interfaces].

The text of a token is made where it is shown and never comes here: an act knows its hash.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from hub.errors import ErrorCode, VeenError
from recorder import roles
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.bindings import all_bindings
from recorder.acts.producers import find_producer
from recorder.acts.publishing import publish_gateway
from recorder.acts.streams import find_stream
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.json_fields import Fields
from recorder.models import Act, ApiToken, Producer, Stream
from recorder.streams import check_name


def principal_of(token_id: uuid.UUID) -> str:
    """Who a reader's or administrator's token is, where a query says who asked."""
    return hashlib.sha256(b"veen/api-token\0" + token_id.bytes).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateArgs:
    role: ApiToken.Role
    name: str
    producer: str
    streams: tuple[str, ...]
    all_streams: bool
    sha256: str


class CreateToken(Verb[CreateArgs]):
    name = "token.create"
    event_type = "token.created"

    def check(self, found: object) -> CreateArgs:
        given = Arguments(found)
        role = given.choice("role", tuple(ApiToken.Role))
        producer = given.name("producer", "")
        args = CreateArgs(
            role=ApiToken.Role(role) if role in set(ApiToken.Role) else ApiToken.Role.READER,
            name=given.name("name", producer or None),
            producer=producer,
            streams=given.texts("streams"),
            all_streams=given.flag("all"),
            sha256=given.hex32("sha256").hex(),
        )
        if (args.role is ApiToken.Role.PRODUCER) != bool(args.producer):
            given.flaw("a producer's token names its producer, no other does", "producer")
        is_reader = args.role is ApiToken.Role.READER
        if is_reader == (args.all_streams == bool(args.streams)):
            given.flaw("a reader's token names streams or says all, no other does", "streams")
        given.close()
        for name in args.streams:
            check_name(name)
        return args

    def plan(self, args: CreateArgs) -> None:
        for name in args.streams:
            find_stream(name)
        if args.producer and find_producer(args.producer).held != Producer.Held.GATEWAY:
            detail = f"{args.producer} holds its own key; tokens are for gateway-held producers"
            raise VeenError(ErrorCode.POLICY, detail)
        if ApiToken.objects.filter(sha256=args.sha256).exists():
            raise VeenError(ErrorCode.POLICY, "this token exists; make a new one")

    def apply(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        token = ApiToken.objects.create(
            id=act.id,
            name=args.name,
            role=args.role,
            sha256=args.sha256,
            producer_name=args.producer,
            all_streams=args.all_streams,
            principal_id="" if args.producer else principal_of(act.id),
            created_at=authority.now(),
        )
        token.streams.set(Stream.objects.filter(name__in=args.streams))
        roles.check(all_bindings(authority))
        return {"token_id": str(token.id), "principal_id": token.principal_id}

    def settle(self, args: CreateArgs, act: Act, authority: Authority) -> Result:
        del args, act
        publish_gateway(authority)
        return {}

    def payload(self, args: CreateArgs, act: Act) -> Result:
        return {
            "token_id": act.result["token_id"],
            "principal_id": act.result["principal_id"],
            "role": args.role.value,
            "name": args.name,
            "producer": args.producer or None,
            "streams": list(args.streams),
            "all": args.all_streams,
            "sha256": args.sha256,
        }

    def recorded(self, event_type: str, found: Result) -> CreateArgs:
        del event_type
        told = Fields.among(found)
        return CreateArgs(
            role=ApiToken.Role(told.text("role")),
            name=told.text("name"),
            producer=told.text_or_none("producer") or "",
            streams=told.texts("streams"),
            all_streams=told.flag("all"),
            sha256=told.hex32("sha256").hex(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeArgs:
    token_id: uuid.UUID


class RevokeToken(Verb[RevokeArgs]):
    name = "token.revoke"
    event_type = "token.revoked"

    def check(self, found: object) -> RevokeArgs:
        given = Arguments(found)
        text = given.text("token_id")
        try:
            token_id = uuid.UUID(text)
        except ValueError:
            token_id = uuid.UUID(int=0)
            if text:
                given.flaw("not a token id", "token_id")
        given.close()
        return RevokeArgs(token_id=token_id)

    def _find(self, args: RevokeArgs) -> ApiToken:
        token = ApiToken.objects.filter(pk=args.token_id, revoked_at__isnull=True).first()
        if token is None:
            raise RecordError(RecordCode.NOT_FOUND, "there is no such token in force")
        return token

    def plan(self, args: RevokeArgs) -> None:
        self._find(args)

    def apply(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        del act
        token = self._find(args)
        token.revoked_at = authority.now()
        token.save(update_fields=["revoked_at"])
        return {"token_id": str(token.id), "name": token.name, "role": token.role}

    def settle(self, args: RevokeArgs, act: Act, authority: Authority) -> Result:
        del args, act
        publish_gateway(authority)
        return {}

    def payload(self, args: RevokeArgs, act: Act) -> Result:
        del args
        return dict(act.result)

    def recorded(self, event_type: str, found: Result) -> RevokeArgs:
        del event_type
        return RevokeArgs(token_id=uuid.UUID(Fields.among(found).text("token_id")))
