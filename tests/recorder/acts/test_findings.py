"""Findings are recorded when they come, and acknowledged by a recorded act with a reason."""

from __future__ import annotations

import pytest
from django.utils import timezone

from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.services import note_finding
from recorder.codes import RecordCode, RecordError
from recorder.findings import FindingScribe
from tests.support.office import ALICE, Office


def found(what: str = "lake record/app/orders") -> Finding:
    return note_finding(
        "lake.different", what, "at 7", severity=Finding.Severity.CRITICAL, now=timezone.now()
    )


def test_a_new_finding_is_recorded_once_however_often_it_is_seen(office: Office) -> None:
    finding = found()
    scribe = FindingScribe()
    assert scribe.look(office.authority) == 1
    found()  # seen again: the same row
    assert scribe.look(office.authority) == 0
    assert FindingScribe().look(office.authority) == 1  # an author that starts anew looks at all
    office.run()
    told = [one for one in office.read() if one.event.event_type == "finding.noted"]
    [mine] = [one for one in told if one.payload["object"] == finding.object]
    assert mine.payload["code"] == "lake.different"
    assert mine.payload["severity"] == "critical"
    assert mine.event.event_time == int(finding.first_seen.timestamp() * 1000)


def test_acknowledging_is_recorded_with_who_and_why(office: Office) -> None:
    finding = found()
    office.do("finding.acknowledge", "the drill of 09:00", finding_id=finding.pk)
    finding.refresh_from_db()
    assert (finding.acknowledged_by, finding.reason) == (ALICE, "the drill of 09:00")
    told = office.read()[-1]
    assert (told.event.event_type, told.event.subject_id) == ("finding.acknowledged", ALICE)
    assert (told.payload["code"], told.payload["object"]) == (finding.code, finding.object)
    assert told.payload["reason"] == "the drill of 09:00"


def test_it_is_done_once_and_with_a_reason(office: Office) -> None:
    finding = found()
    with pytest.raises(RecordError) as refusal:
        office.ask("finding.acknowledge", "  ", finding_id=finding.pk)
    assert refusal.value.error_code is RecordCode.INVALID_PARAMETER
    office.do("finding.acknowledge", finding_id=finding.pk)
    with pytest.raises(VeenError) as again:
        office.ask("finding.acknowledge", finding_id=finding.pk)
    assert again.value.code is ErrorCode.POLICY
    with pytest.raises(RecordError) as unknown:
        office.ask("finding.acknowledge", finding_id=finding.pk + 1000)
    assert unknown.value.error_code is RecordCode.NOT_FOUND
