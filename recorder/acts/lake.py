"""The act `lake.seal`: the worker is asked to seal live segments now [architecture: the lake]."""

from __future__ import annotations

from dataclasses import dataclass

from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.streams import find_stream
from recorder.acts.verb import Result, Verb
from recorder.models import Act, LakeJob
from recorder.streams import check_name

SEAL = "seal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealArgs:
    streams: tuple[str, ...]  # none means all


class Seal(Verb[SealArgs]):
    """Done when the job is written down; how far it is, the job itself says."""

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
