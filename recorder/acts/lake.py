"""Acts for which the worker is asked: seal live segments, audit a range [architecture: the lake].

Each is done when its job is written down; how far the job is, its own row says.
"""

from __future__ import annotations

from dataclasses import dataclass

from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.streams import find_stream
from recorder.acts.verb import Result, Verb
from recorder.models import Act, LakeJob
from recorder.streams import check_name

SEAL = "seal"
AUDIT = "audit"
SEQ_MAX = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class SealArgs:
    streams: tuple[str, ...]  # none means all


class Seal(Verb[SealArgs]):
    """Seal what is live, whatever its age."""

    name = "lake.seal"
    event_type = "lake.seal_asked"

    def check(self, found: object) -> SealArgs:
        given = Arguments(found)
        args = SealArgs(streams=given.texts("streams"))
        given.close()
        for name in args.streams:
            check_name(name)
        return args

    def plan(self, args: SealArgs) -> None:
        for name in args.streams:
            find_stream(name)

    def apply(self, args: SealArgs, act: Act, authority: Authority) -> Result:
        job = LakeJob.objects.create(
            id=act.id, kind=SEAL, args={"streams": list(args.streams)}, created_at=authority.now()
        )
        return {"job_id": str(job.id), "streams": list(args.streams)}

    def payload(self, args: SealArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("job_id", "streams")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditArgs:
    streams: tuple[str, ...]  # none means all
    from_seq: int  # 0 for where the lake begins; a range is of one stream
    to_seq: int  # 0 for where it ends
    from_hub: bool


class Audit(Verb[AuditArgs]):
    """Compare the lake with the log again; the verdict is an event of its own."""

    name = "lake.audit"
    event_type = "lake.audit_asked"

    def check(self, found: object) -> AuditArgs:
        given = Arguments(found)
        args = AuditArgs(
            streams=given.texts("streams"),
            from_seq=given.integer("from_seq", low=0, high=SEQ_MAX, default=0),
            to_seq=given.integer("to_seq", low=0, high=SEQ_MAX, default=0),
            from_hub=given.flag("from_hub"),
        )
        if (args.from_seq or args.to_seq) and len(args.streams) != 1:
            given.flaw("a range is of one stream", "streams")
        if args.to_seq and args.to_seq < args.from_seq:
            given.flaw("before from_seq", "to_seq")
        given.close()
        for name in args.streams:
            check_name(name)
        return args

    def plan(self, args: AuditArgs) -> None:
        for name in args.streams:
            find_stream(name)

    def apply(self, args: AuditArgs, act: Act, authority: Authority) -> Result:
        job = LakeJob.objects.create(
            id=act.id,
            kind=AUDIT,
            args={
                "streams": list(args.streams),
                "from_seq": args.from_seq,
                "to_seq": args.to_seq,
                "from_hub": args.from_hub,
                "actor": act.actor,
            },
            created_at=authority.now(),
        )
        return {"job_id": str(job.id), "streams": list(args.streams)}

    def payload(self, args: AuditArgs, act: Act) -> Result:
        return {
            "job_id": act.result["job_id"],
            "streams": list(args.streams),
            "from_seq": args.from_seq or None,
            "to_seq": args.to_seq or None,
            "source": "hub" if args.from_hub else "proofs",
        }
