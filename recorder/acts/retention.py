"""Acts on retention: keep payloads longer, or drop those whose time is over [SDR0 3.2.2]."""

from __future__ import annotations

from dataclasses import dataclass

from hub.errors import ErrorCode, VeenError
from hub.types import UINT64_MAX, Label
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.streams import RETENTION_MAX, check_own_name, find_stream, settle_class
from recorder.acts.verb import Result, Verb
from recorder.json_fields import Fields
from recorder.models import Act, Stream
from recorder.streams import StreamConfig, check_name

PRUNE_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetArgs:
    stream: str
    retention_hint: int


class SetRetention(Verb[SetArgs]):
    """A record stream is kept for long_term at least, and no hint is ever shortened."""

    name = "retention.set"
    event_type = "retention.changed"

    def check(self, found: object) -> SetArgs:
        given = Arguments(found)
        args = SetArgs(
            stream=given.text("stream"),
            retention_hint=given.integer("retention_hint", low=0, high=RETENTION_MAX),
        )
        given.close()
        check_own_name(args.stream)
        StreamConfig(name=args.stream, retention_hint=args.retention_hint)
        return args

    def plan(self, args: SetArgs) -> None:
        if find_stream(args.stream).retention_hint > args.retention_hint:
            raise VeenError(ErrorCode.POLICY, "a retention_hint is never shortened")

    def apply(self, args: SetArgs, act: Act, authority: Authority) -> Result:
        del act, authority
        stream = find_stream(args.stream)
        before = stream.retention_hint
        stream.retention_hint = args.retention_hint
        stream.save(update_fields=["retention_hint"])
        return {"stream": stream.name, "before": before, "after": args.retention_hint}

    def settle(self, args: SetArgs, act: Act, authority: Authority) -> Result:
        del act
        settle_class(find_stream(args.stream), authority)
        return {}

    def payload(self, args: SetArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("stream", "before", "after")}

    def recorded(self, event_type: str, found: Result) -> SetArgs:
        del event_type
        told = Fields.among(found)
        return SetArgs(stream=told.text("stream"), retention_hint=told.uint("after"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneArgs:
    stream: str
    before_seq: int


class Prune(Verb[PruneArgs]):
    """Payload bytes before a sequence go; receipts and proofs stay. The hub guards the hint."""

    name = "retention.prune"
    event_type = "retention.pruned"
    needs_reason = True
    may_be_refused = True

    def check(self, found: object) -> PruneArgs:
        given = Arguments(found)
        args = PruneArgs(
            stream=given.text("stream"),
            before_seq=given.integer("before_seq", low=2, high=UINT64_MAX),
        )
        given.close()
        check_name(args.stream)
        return args

    def plan(self, args: PruneArgs) -> None:
        find_stream(args.stream)

    def apply(self, args: PruneArgs, act: Act, authority: Authority) -> Result:
        del act, authority
        return {"stream": args.stream, "before_seq": args.before_seq}

    def settle(self, args: PruneArgs, act: Act, authority: Authority) -> Result:
        stream = find_stream(args.stream)
        head = authority.client.head(Label(bytes.fromhex(stream.label)))
        if args.before_seq > head.stream_seq + 1:
            raise VeenError(ErrorCode.POLICY, f"the stream ends at {head.stream_seq}")
        if _is_pruned(stream, args.before_seq - 1, authority):
            return {"first_held": args.before_seq}
        done = authority.ask_hub(
            "prune",
            timeout_s=PRUNE_TIMEOUT_S,
            label=stream.label,
            before_seq=args.before_seq,
            reason=act.reason,
        )
        return {name: done[name] for name in ("first_held", "freed_bytes")}

    def payload(self, args: PruneArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("stream", "before_seq", "first_held")}


def _is_pruned(stream: Stream, seq: int, authority: Authority) -> bool:
    query: dict[str, str | int | None] = {"from": seq, "to": seq}
    try:
        authority.client.get("/stream", label=stream.label, **query)
    except VeenError as refusal:
        if refusal.code is not ErrorCode.PRUNED:
            raise
        return True
    return False
