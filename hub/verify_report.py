"""What a verification says: every check made, separate verdicts, the trusted keys [SSOT 7]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import ManifestId, PublicKey
from hub.wire.checkpoint import Checkpoint
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, decode_record, follow, hub_id_of
from hub.wire.trust import KeyStatus, TrustFile

T = TypeVar("T")


class Verdict(StrEnum):
    """What a check speaks about."""

    INTEGRITY = "integrity"  # well formed, canonical, signed by a trusted key
    BINDING = "binding"  # the objects belong together
    POSITION = "position"  # the leaf stands at that place under that root
    CONSISTENCY = "consistency"  # no two statements contradict each other
    COMPLETENESS = "completeness"  # nothing was left out of the range
    FRESHNESS = "freshness"  # the newest statement is not older than allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check that was made."""

    verdict: Verdict
    name: str
    ok: bool
    detail: str = ""


@dataclass(slots=True)
class Report:
    """All checks of one verification."""

    subject: str
    checks: list[Check] = field(default_factory=list)
    code: ErrorCode | None = None  # of the first failure

    def check(self, verdict: Verdict, name: str, judge: Callable[[], T]) -> T | None:
        """Make one check; a refusal is listed and does not end the verification."""
        try:
            found = judge()
        except VeenError as refusal:
            self.checks.append(Check(verdict=verdict, name=name, ok=False, detail=str(refusal)))
            self.code = self.code or refusal.code
            return None
        self.checks.append(Check(verdict=verdict, name=name, ok=True))
        return found

    def note(self, detail: str) -> None:
        """Say more about the check that was just made."""
        self.checks[-1] = replace(self.checks[-1], detail=detail)

    def verdicts(self) -> dict[str, str]:
        """`holds`, `fails` or `not checked` for each kind."""
        found: dict[str, str] = {}
        for verdict in Verdict:
            made = [check.ok for check in self.checks if check.verdict is verdict]
            found[verdict] = "not checked" if not made else "holds" if all(made) else "fails"
        return found

    def is_valid(self) -> bool:
        """Whether something was checked and nothing failed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def require(self) -> None:
        """Raise the first failure; what verified nothing is a failure too."""
        for check in self.checks:
            if not check.ok:
                raise ProofError(f"{check.name}: {check.detail}", self.code or ErrorCode.PROOF)
        if not self.checks:
            raise ProofError("nothing was checked")

    def to_json(self) -> dict[str, object]:
        """The report as one document."""
        return {
            "subject": self.subject,
            "valid": self.is_valid(),
            "verdicts": self.verdicts(),
            "checks": [
                {
                    "verdict": check.verdict.value,
                    "name": check.name,
                    "ok": check.ok,
                    "detail": check.detail,
                }
                for check in self.checks
            ],
        }


def merge(reports: Sequence[Report]) -> Report:
    """One report of several; each check says which one it belongs to."""
    if len(reports) == 1:
        return reports[0]
    merged = Report(f"{len(reports)} messages")
    for number, report in enumerate(reports, 1):
        merged.code = merged.code or report.code
        merged.checks += [
            replace(check, name=f"{report.subject} {number}: {check.name}")
            for check in report.checks
        ]
    return merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What the verifier trusts: keys in use, and ended keys up to their last manifest."""

    active: frozenset[PublicKey]
    ended: dict[PublicKey, ManifestId | None] = field(default_factory=dict)

    @classmethod
    def of_key(cls, hub_pk: PublicKey, rotations: Sequence[bytes] = ()) -> Pins:
        """A pinned key and the rotation records that lead away from it or to it."""
        records = [decode_record(data) for data in rotations]
        handovers = [one for one in records if isinstance(one, RotationRecord)]
        keys = [*predecessors(hub_pk, handovers), hub_pk]
        named = [one.hub_id for one in handovers if hub_pk in (one.old_pk, one.new_pk)]
        keys += follow(hub_pk, named[0] if named else hub_id_of(hub_pk), handovers)[1:]
        ends = {one.old_pk: one.manifest_id for one in handovers if one.old_pk in keys}
        return cls(active=frozenset({keys[-1]}), ended={key: ends[key] for key in keys[:-1]})

    @classmethod
    def of_trust_file(cls, trust: TrustFile) -> Pins:
        """The keys of a trust file whose signature was checked."""
        keys = [key for hub in trust.hubs for key in hub.keys]
        return cls(
            active=frozenset(key.pk for key in keys if key.status is KeyStatus.ACTIVE),
            ended={
                key.pk: key.last_manifest_id for key in keys if key.status is not KeyStatus.ACTIVE
            },
        )

    def signer(self, signed: Receipt | Checkpoint) -> PublicKey:
        """The trusted key that signed this, or V.TRUST."""
        for key in (*self.active, *self.ended):
            try:
                signed.verify(key)
            except VeenError:
                continue
            return key
        raise ProofError("signed by no key that is pinned here", ErrorCode.TRUST)


def predecessors(pinned: PublicKey, rotations: Sequence[RotationRecord]) -> list[PublicKey]:
    """Keys superseded before the pinned one, oldest first; each successor signed its record."""
    keys = [pinned]
    while offered := [one for one in rotations if one.new_pk == keys[0]]:
        offered[0].verify()
        if len(set(offered)) > 1 or offered[0].old_pk in keys:
            raise ProofError("one key took the log over twice", ErrorCode.EQUIVOCATION)
        keys.insert(0, offered[0].old_pk)
    return keys[:-1]
