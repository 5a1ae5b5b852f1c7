"""A checkpoint on demand is the hub's newest manifest; payloads go only when their time is over."""

from __future__ import annotations

import pytest

from hub.errors import ErrorCode, VeenError
from hub.types import ManifestId
from recorder.models import LakeJob
from recorder.streams import CHANGES
from tests.support.office import Office

ORDERS = "record/app/orders"


def test_a_checkpoint_names_every_stream_up_to_where_it_is_covered(office: Office) -> None:
    result = office.do("checkpoint.now")
    manifest = office.authority.client.manifest(ManifestId(bytes.fromhex(result["manifest_id"])))
    covered = {one["name"]: one["upto_seq"] for one in result["streams"]}
    assert covered[CHANGES] == office.read()[-1].seq - 1  # all but its own event
    assert len(result["streams"]) == len(manifest.checkpoints)
    told = office.read()[-1]
    assert told.event.event_type == "checkpoint.made"
    assert told.payload["manifest_id"] == result["manifest_id"]


def test_pruning_below_the_hint_is_refused_by_the_hub_and_recorded_by_nobody(
    office: Office,
) -> None:
    before = len(office.read())
    act = office.fails("retention.prune", stream=CHANGES, before_seq=2)
    assert (act.error_code, "retention_hint" in act.message) == ("P.POLICY", True)
    assert len(office.read()) == before
    label = office.authority.label(CHANGES).hex()
    assert office.authority.client.get("/stream", label=label).status == 200


def test_pruning_beyond_the_end_is_refused(office: Office) -> None:
    act = office.fails("retention.prune", stream=CHANGES, before_seq=10**9)
    assert (act.error_code, "ends at" in act.message) == ("P.POLICY", True)


def test_pruning_needs_a_reason(office: Office) -> None:
    with pytest.raises(VeenError) as refusal:
        office.ask("retention.prune", "", stream=CHANGES, before_seq=2)
    assert refusal.value.code is ErrorCode.FORMAT


def test_sealing_is_a_job_of_the_worker(office: Office) -> None:
    result = office.do("lake.seal", streams=[CHANGES])
    job = LakeJob.objects.get(pk=result["job_id"])
    assert (job.kind, job.state, job.args) == ("seal", "pending", {"streams": [CHANGES]})
    assert office.read()[-1].event.event_type == "lake.seal_asked"
