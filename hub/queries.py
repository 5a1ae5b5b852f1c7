"""Reads of the index for pages: bounded, and never touching the hub [SSOT 3.4]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, Sum

from hub.models import Finding, IndexState, LabelHead, ManifestRow

LABELS_SHOWN_MAX: Final = 200
LADDER_RUNGS_MAX: Final = 24
FINDINGS_SHOWN_MAX: Final = 20
STALE_AFTER: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state word of the log, and the sentence that explains it."""

    word: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that the overview page shows, read with a fixed number of queries."""

    verdict: Verdict
    as_of: datetime | None
    hub_pk: str
    hub_id: str
    label_count: int
    message_count: int
    heads: Sequence[LabelHead]
    manifests: Sequence[ManifestRow]  # oldest first
    findings: Sequence[Finding]

    @property
    def newest(self) -> ManifestRow | None:
        return self.manifests[-1] if self.manifests else None


def open_findings(state: IndexState | None) -> list[Finding]:
    """Findings nobody has acknowledged, and those the last look still saw; the worst first."""
    is_open = Q(acknowledged_by="")
    if state is not None and state.checked_at is not None:
        # An acknowledgement says "I know", not "it is gone": the word must not turn green by it.
        is_open |= Q(last_seen__gte=state.checked_at)
    found = Finding.objects.filter(is_open).order_by("severity", "-last_seen")
    return list(found[:FINDINGS_SHOWN_MAX])


def judge(
    *,
    state: IndexState | None,
    findings: Sequence[Finding],
    newest: ManifestRow | None,
    now: datetime,
) -> Verdict:
    """One word for the log; the worst that is known wins."""
    critical = sum(f.severity == Finding.Severity.CRITICAL for f in findings)
    if critical:
        count = "One critical finding is" if critical == 1 else f"{critical} critical findings are"
        return Verdict(word="DIVERGED", sentence=f"{count} open.")
    if state is None or state.checked_at is None:
        return Verdict(word="UNKNOWN", sentence="The hub has not been looked at yet.")
    if state.problem:
        return Verdict(word="UNREACHABLE", sentence=state.problem)
    if now - state.checked_at > STALE_AFTER:
        return Verdict(word="STALE", sentence="The last look at the hub is too long ago.")
    if newest is None:
        return Verdict(
            word="EMPTY",
            sentence="No checkpoint yet. `veen hub checkpoint` makes one after the first message.",
        )
    return Verdict(
        word="CONSISTENT",
        sentence=f"Every head extends checkpoint {newest.manifest_id[:8]} and all heads before.",
    )


def overview(now: datetime) -> Overview:
    """Six queries, whatever the size of the log."""
    state = IndexState.objects.filter(pk=1).first()
    findings = open_findings(state)
    manifests = list(ManifestRow.objects.filter(verified=True)[:LADDER_RUNGS_MAX])[::-1]
    newest = manifests[-1] if manifests else None
    return Overview(
        verdict=judge(state=state, findings=findings, newest=newest, now=now),
        as_of=state.checked_at if state else None,
        hub_pk=state.hub_pk if state else "",
        hub_id=state.hub_id if state else "",
        label_count=LabelHead.objects.count(),
        message_count=LabelHead.objects.aggregate(total=Sum("upto_seq"))["total"] or 0,
        heads=list(LabelHead.objects.order_by("-updated", "label")[:LABELS_SHOWN_MAX]),
        manifests=manifests,
        findings=findings,
    )
