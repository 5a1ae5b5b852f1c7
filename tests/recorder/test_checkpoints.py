"""Manifests are recorded once each; one that comes late while events wait is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from hub.models import Finding
from hub.server.config import HubConfig
from hub.types import ManifestId
from recorder import checkpoints, records
from recorder.checkpoints import LateWatch, Schedule
from recorder.streams import CHANGES, CHECKPOINTS
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub
from tests.support.office import Office, opened

NEVER = 10**11
SCHEDULE = Schedule(interval_s=300, messages=10_000, grace_s=60)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    """Makes manifests only when asked."""
    config = HubConfig(
        data_dir=tmp_path / "hub",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
        checkpoint_interval_s=NEVER,
        checkpoint_messages=NEVER,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def office(hub: LiveHub, tmp_path: Path, db: None) -> Iterator[Office]:
    with opened(hub, tmp_path / "office") as made:
        made.found()
        yield made


def publish(office: Office, schedule: Schedule = SCHEDULE) -> int:
    count = checkpoints.publish(office.authority, schedule)
    office.run()
    return count


def test_every_manifest_is_published_once_and_in_order(office: Office) -> None:
    made = []
    for number in range(3):
        office.do("stream.create", name=f"record/app/s{number}")
        made.append(office.hub.control("checkpoint")["manifest_id"])
    assert publish(office) == 3
    assert publish(office) == 0
    told = office.read(CHECKPOINTS)
    assert [one.payload["manifest_id"] for one in told] == made
    assert {one.event.event_type for one in told} == {"checkpoint.published"}
    last = told[-1].payload
    manifest = office.authority.client.manifest(ManifestId(bytes.fromhex(made[-1])))
    assert last["previous"] == made[-2]
    assert last["hub_pk"] == manifest.hub_pk.hex()
    [changes] = [one for one in last["streams"] if one["name"] == CHANGES]
    found = manifest.checkpoint(office.authority.label(CHANGES))
    assert found is not None
    assert (changes["upto_seq"], changes["mmr_root"]) == (found.upto_seq, found.mmr_root.hex())


def test_a_stop_between_two_of_them_publishes_the_rest(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        office.hub.control("checkpoint")

    class StoppedError(Exception):
        pass

    real = records.keep_event
    calls = 0

    def stopping(**arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoppedError
        return real(**arguments)

    monkeypatch.setattr(records, "keep_event", stopping)
    with pytest.raises(StoppedError):
        publish(office)
    office.restart()
    assert publish(office) == 2
    assert len(office.read(CHECKPOINTS)) == 3


def test_a_manifest_in_time_is_no_finding(office: Office) -> None:
    office.hub.control("checkpoint")
    office.do("stream.create", name="record/app/orders")
    office.hub.control("checkpoint")
    publish(office)
    assert not LateWatch(schedule=SCHEDULE).look(office.authority)
    assert not Finding.objects.exists()


def later(office: Office, seconds: int) -> None:
    """The author's clock moves; the hub has made no manifest since."""
    now = timezone.now() + timedelta(seconds=seconds)
    office._open = replace(office.authority, now=lambda: now)


def test_a_manifest_that_does_not_come_is_a_warning_once(office: Office) -> None:
    office.hub.control("checkpoint")
    publish(office)
    office.do("stream.create", name="record/app/orders")
    watch = LateWatch(schedule=SCHEDULE)
    later(office, 350)
    assert not watch.look(office.authority), "within the grace"
    later(office, 400)
    assert watch.look(office.authority)
    assert watch.look(office.authority)
    finding = Finding.objects.get()
    assert (finding.code, finding.severity) == ("checkpoint_late", "warning")
    assert office.hub.control("status")["last_manifest_id"] in finding.object


def test_housekeeping_alone_is_never_late(office: Office) -> None:
    office.hub.control("checkpoint")
    publish(office)  # writes on record/infrastructure/checkpoints after the manifest
    assert office.hub.control("status")["uncheckpointed"] > 0
    later(office, 10_000)
    assert not LateWatch(schedule=SCHEDULE).look(office.authority)


def test_too_many_uncovered_messages_are_late_after_the_grace(office: Office) -> None:
    watch = LateWatch(schedule=Schedule(interval_s=NEVER, messages=3, grace_s=60))
    assert not watch.look(office.authority)
    later(office, 61)
    assert watch.look(office.authority)
    assert Finding.objects.get().object == "the first manifest"


def test_a_manifest_that_came_late_while_nobody_looked_is_found_when_published(
    office: Office,
) -> None:
    office.hub.control("checkpoint")
    office.do("stream.create", name="record/app/orders")
    # The hub's clock cannot be moved here, so the schedule is.
    office.hub.control("checkpoint")
    publish(office, Schedule(interval_s=-2000, messages=NEVER, grace_s=-2000))
    assert Finding.objects.filter(code="checkpoint_late").count() == 1
