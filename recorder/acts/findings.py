"""The act `finding.acknowledge`: somebody takes a finding over, and says why it may rest [SDR0]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.services import acknowledge_finding
from recorder.acts.arguments import Arguments
from recorder.acts.authority import Authority
from recorder.acts.verb import Result, Verb
from recorder.codes import RecordCode, RecordError
from recorder.json_fields import Fields
from recorder.models import Act

ID_MAX: Final = 2**53 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingArgs:
    finding_id: int


class AcknowledgeFinding(Verb[FindingArgs]):
    """Says "I know", not "it is gone"; once, and not to be undone."""

    name = "finding.acknowledge"
    event_type = "finding.acknowledged"
    needs_reason = True

    def check(self, found: object) -> FindingArgs:
        given = Arguments(found)
        finding_id = given.integer("finding_id", low=1, high=ID_MAX)
        given.close()
        return FindingArgs(finding_id=finding_id)

    def plan(self, args: FindingArgs) -> None:
        finding = Finding.objects.filter(pk=args.finding_id).first()
        if finding is None:
            raise RecordError(RecordCode.NOT_FOUND, f"there is no finding {args.finding_id}")
        if finding.acknowledged_by:
            detail = f"already acknowledged by {finding.acknowledged_by}"
            raise VeenError(ErrorCode.POLICY, detail)

    def apply(self, args: FindingArgs, act: Act, authority: Authority) -> Result:
        del authority
        finding = acknowledge_finding(args.finding_id, by=act.actor, reason=act.reason)
        return {
            "finding_id": finding.pk,
            "code": finding.code,
            "severity": finding.severity,
            "object": finding.object,
        }

    def payload(self, args: FindingArgs, act: Act) -> Result:
        del args
        return {name: act.result[name] for name in ("code", "severity", "object")}

    def recorded(self, event_type: str, found: Result) -> FindingArgs:
        del event_type
        told = Fields.among(found)
        row = Finding.objects.get(code=told.text("code"), object=told.text("object"))
        return FindingArgs(finding_id=row.pk)
