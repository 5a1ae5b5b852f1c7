"""A key that is granted later opens what was sealed, in a new snapshot, and the log is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.errors import ErrorCode, VeenError
from recorder.lake import compaction
from recorder.lake.manifest import SegmentState
from spark_jobs.chunk import StreamPlace, StreamSecret
from spark_jobs.ingest import IngestPlan, ingest
from spark_jobs.reopen import may_open_more, reopen
from tests.spark_jobs.test_ingest import NOW, check_lake, plan_for
from tests.support.recorded_log import RecordedLog, RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RecordedLog]:
    log = RecordedLog(tmp_path / "hub")
    yield log
    log.close()


@pytest.fixture
def stream() -> RecordedStream:
    return RecordedStream("record/app/web")


def place_of(plan: IngestPlan, log: RecordedLog) -> StreamPlace:
    return StreamPlace(
        lake=plan.lake,
        stream=plan.stream,
        label=plan.label,
        hub_id=log.core.identity.hub_id,
        source=plan.source,
        secrets=plan.secrets,
    )


def test_sealed_rows_are_opened_once_the_key_is_there(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(6))
    first_key = tuple(StreamSecret(key_id=n, secret=s.secret) for n, s in stream.secrets)
    stream.rotate_key()
    log.commit(stream.events(5))
    plan = plan_for(log, stream, secrets=first_key)
    old = ingest(spark, plan).manifest
    with plan.folder.locked():
        sealed = compaction.seal(plan.folder, old, now_ms=NOW, is_forced=True)
        old = plan.folder.publish(old, replace(sealed, owed=()), now_ms=NOW)
    log.commit(stream.events(2))
    old = ingest(spark, plan).manifest
    assert [one.summary.errors for one in old.segments] == [{"sealed": 5}, {"sealed": 2}]
    assert may_open_more(old, [1]) == ()

    whole = plan_for(log, stream)
    new = reopen(spark, place_of(whole, log), now_ms=NOW)
    assert new is not None
    assert new.snapshot == old.snapshot + 1
    assert [one.summary.errors for one in new.segments] == [{}, {}]
    assert [one.key_ids for one in new.segments] == [(1, 2), (1, 2)]
    assert [one.state for one in new.segments] == [SegmentState.SEALED, SegmentState.LIVE]
    [owed] = new.owed
    said = json.loads(owed.payload)
    assert owed.event_type == "lake.resealed"
    assert said["files"] == new.segments[0].hashes()
    assert said["replaces"][0]["files"] == old.segments[0].hashes()
    assert "2" in said["reason"]
    check_lake(log, stream)
    assert reopen(spark, place_of(whole, log), now_ms=NOW) == new


def test_a_key_that_opens_nothing_changes_no_file_and_is_not_tried_twice(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(4))
    old = ingest(spark, plan_for(log, stream, secrets=())).manifest
    wrong = (StreamSecret(key_id=9, secret=bytes(range(32))),)
    place = replace(place_of(plan_for(log, stream), log), secrets=wrong)
    new = reopen(spark, place, now_ms=NOW)
    assert new is not None
    assert [one.files for one in new.segments] == [one.files for one in old.segments]
    assert new.owed == ()
    assert may_open_more(new, [9]) == ()


def test_a_changed_proofs_file_is_refused(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(4))
    plan = plan_for(log, stream, secrets=())
    old = ingest(spark, plan).manifest
    path = plan.folder.path(old.segments[0].proofs)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(VeenError) as refusal:
        reopen(spark, place_of(plan_for(log, stream), log), now_ms=NOW)
    assert refusal.value.code is ErrorCode.DAMAGE
    assert plan.folder.read() == old
