"""The lake holds what the one judge says of each entry, once, or nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.storage.prune import prune_label
from hub.types import Hash, PublicKey
from recorder.lake.columns import ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import SegmentState
from recorder.lake.reader import open_snapshot, read_proofs, read_rows
from spark_jobs import ingest as ingest_module
from spark_jobs.chunk import StreamSecret
from spark_jobs.ingest import IngestPlan, cut_range, ingest, ingest_many
from spark_jobs.sources import HubFiles
from tests.support.hubs import START_TS
from tests.support.recorded_log import RecordedLog, RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = START_TS * 1000
DAY_S = 86_400
STEPS = ("planned", "written", "settled", "published")


class StopError(Exception):
    """The machine stops here."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RecordedLog]:
    log = RecordedLog(tmp_path / "hub")
    yield log
    log.close()


@pytest.fixture
def stream() -> RecordedStream:
    return RecordedStream("record/app/web")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks also for a few events."""
    monkeypatch.setattr(ingest_module, "CHUNK_EVENTS_MIN", 5)


def plan_for(log: RecordedLog, stream: RecordedStream, **changes: object) -> IngestPlan:
    plan = IngestPlan(
        lake=log.root.parent / "lake",
        stream=stream.name,
        label=stream.label,
        source=HubFiles(data_dir=log.root),
        hub_pk=PublicKey(log.core.identity.key.public),
        now_ms=NOW,
        secrets=tuple(StreamSecret(key_id=n, secret=s.secret) for n, s in stream.secrets),
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def check_lake(log: RecordedLog, stream: RecordedStream, first: int = 1) -> None:
    """Every row and every proof of the lake is that of the log, and nothing else lies around."""
    snapshot = open_snapshot(log.root.parent / "lake", stream.label)
    assert snapshot is not None
    manifest = snapshot.manifest
    names = [name for name in ROWS.names if not name.startswith("origin_")]
    found = [
        row
        for batch in read_rows(snapshot, 1, manifest.upto_seq)
        for row in batch.select(names).to_pylist()
    ]
    expected = [
        {**asdict(row), "hub_id": row.hub_id.hex()} for row in log.rows(stream)[first - 1 :]
    ]
    assert found == expected
    proofs = [
        (row["receipt"], row["msg"])
        for batch in read_proofs(snapshot, 1, manifest.upto_seq)
        for row in batch.to_pylist()
    ]
    assert proofs == log.entries(stream)[first - 1 :]
    if expected:
        assert manifest.upto_root == log.rows(stream)[-1].mmr_root.hex()
    named = set(manifest.files())
    lying = {
        path.relative_to(snapshot.folder.root).as_posix()
        for path in snapshot.folder.root.glob("*/*")
    }
    assert lying == named
    for segment in manifest.segments:
        for one in segment.files:
            snapshot.folder.check(one)


def test_good_and_odd_events_become_rows_none_is_dropped(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    stranger = RecordedStream("record/app/other")
    stranger.label, stranger.key = stream.label, SigningKey.generate()
    log.commit([
        *stream.events(8),
        stream.message(b"not CBOR"),
        stream.message(b"", schema=Hash(h(b"another.schema"))),
        *stranger.events(3),
        *stream.events(8),
    ])  # fmt: skip
    result = ingest(spark, plan_for(log, stream))
    assert (result.events, result.head_seq, result.manifest.upto_seq) == (21, 21, 21)
    check_lake(log, stream)
    errors = [row.error for row in log.rows(stream) if row.error]
    assert errors == ["undecodable", "unknown_schema", "sealed", "sealed", "sealed"]


def test_what_is_new_is_added_and_what_is_there_is_not_touched(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    for count in (1, 7, 30, 2):
        log.commit(stream.events(count))
        before = LakeFolder.of(log.root.parent / "lake", stream.label).read()
        result = ingest(spark, plan_for(log, stream))
        assert result.events == count
        assert result.manifest.snapshot == (1 if before is None else before.snapshot + 1)
        again = ingest(spark, plan_for(log, stream))
        assert (again.events, again.manifest) == (0, result.manifest)
    check_lake(log, stream)


def test_a_run_may_end_before_the_head(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(20))
    assert ingest(spark, plan_for(log, stream, upto=13)).manifest.upto_seq == 13
    assert ingest(spark, plan_for(log, stream, upto=5)).events == 0
    assert ingest(spark, plan_for(log, stream, upto=999)).manifest.upto_seq == 20
    check_lake(log, stream)


def test_an_empty_stream_has_an_empty_lake(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    result = ingest(spark, plan_for(log, stream))
    assert (result.events, result.head_seq, result.manifest.segments) == (0, 0, ())
    assert ingest(spark, plan_for(log, stream)).manifest == result.manifest


def test_segments_are_of_one_commit_date(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    for day in range(3):
        log.clock.at = START_TS + day * DAY_S
        log.commit(stream.events(4))
    manifest = ingest(spark, plan_for(log, stream)).manifest
    assert [(one.date, one.from_seq, one.to_seq) for one in manifest.segments] == [
        ("2023-11-14", 1, 4), ("2023-11-15", 5, 8), ("2023-11-16", 9, 12),
    ]  # fmt: skip
    states = [one.state for one in manifest.segments]
    assert states == [SegmentState.SEALED, SegmentState.SEALED, SegmentState.LIVE]
    check_lake(log, stream)


def test_large_chunks_are_sealed_at_once_and_owe_their_event(
    spark: SparkSession,
    log: RecordedLog,
    stream: RecordedStream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log.commit(stream.events(3))
    ingest(spark, plan_for(log, stream))
    log.commit(stream.events(10_050), 1000)
    monkeypatch.setattr(ingest_module, "CHUNK_EVENTS_MIN", 20_000)
    manifest = ingest(spark, plan_for(log, stream)).manifest
    assert [one.state for one in manifest.segments] == [SegmentState.SEALED] * 2
    # What is live never stands before something sealed.
    assert [one.from_seq for one in manifest.segments] == [1, 4]
    assert {one.event_type for one in manifest.owed} == {"lake.sealed"}
    assert len({one.key for one in manifest.owed}) == 2


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("is_first", [True, False], ids=["first run", "later run"])
def test_a_stop_at_any_step_loses_and_doubles_nothing(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream, at: str, *, is_first: bool
) -> None:
    log.commit(stream.events(12))
    if not is_first:
        ingest(spark, plan_for(log, stream))
        log.commit(stream.events(15))

    def stop(name: str) -> None:
        if name == at:
            raise StopError

    before = plan_for(log, stream).folder.read()
    with pytest.raises(StopError):
        ingest(spark, plan_for(log, stream), step=stop)
    after = plan_for(log, stream).folder.read()
    assert (after == before) is (at != "published")
    log.commit(stream.events(4))
    ingest(spark, plan_for(log, stream))
    check_lake(log, stream)


def test_streams_of_one_job_stand_or_fall_by_themselves(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    other = RecordedStream("record/security/iam")
    log.commit([*stream.events(9), *other.events(11)])
    bad = plan_for(log, stream, hub_pk=PublicKey(SigningKey.generate().public))
    refused, good = ingest_many(spark, [bad, plan_for(log, other)])
    assert isinstance(refused, VeenError)
    assert refused.code is ErrorCode.TRUST
    assert not isinstance(good, VeenError)
    check_lake(log, other)
    assert plan_for(log, stream).folder.read() is None


def test_a_stream_that_is_being_written_is_left_alone(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(3))
    plan = plan_for(log, stream)
    with plan.folder.locked(), pytest.raises(VeenError) as refusal:
        ingest(spark, plan)
    assert refusal.value.code is ErrorCode.LOCKED
    assert ingest(spark, plan).events == 3


def test_rotations_of_the_hub_key_are_followed(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    first_pk = PublicKey(log.core.identity.key.public)
    log.commit(stream.events(7))
    log.core.rotate()
    # The head is still signed by the old key, which counts up to the manifest that ended it.
    plan = plan_for(log, stream, hub_pk=first_pk)
    assert ingest(spark, replace(plan, upto=5)).manifest.upto_seq == 5
    assert ingest(spark, plan).manifest.upto_seq == 7
    log.commit(stream.events(7))
    log.core.rotate()
    log.commit(stream.events(2))
    assert ingest(spark, plan).manifest.upto_seq == 16
    newest = plan_for(log, stream)
    assert newest.hub_pk != first_pk
    log.commit(stream.events(1))
    assert ingest(spark, newest).manifest.upto_seq == 17
    check_lake(log, stream)


def test_after_retention_the_lake_begins_where_payloads_are_held(
    spark: SparkSession, log: RecordedLog, stream: RecordedStream
) -> None:
    log.commit(stream.events(40))
    ingest(spark, plan_for(log, stream, upto=30))
    log.core.store.roll()
    asyncio.run(prune_label(log.core.store, stream.label, 13))
    log.commit(stream.events(5))
    rows_before = plan_for(log, stream).folder.read()
    assert rows_before is not None
    result = ingest(spark, plan_for(log, stream))
    first = result.manifest.first_seq
    assert 1 < first <= 13
    assert result.manifest.upto_seq == 45
    snapshot = open_snapshot(log.root.parent / "lake", stream.label)
    assert snapshot is not None
    seqs = [
        seq for batch in read_rows(snapshot, 1, 99) for seq in batch["hub_commit_seq"].to_pylist()
    ]
    assert seqs == list(range(first, 46))
    fresh = ingest(spark, plan_for(log, stream, lake=log.root.parent / "fresh"))
    assert (fresh.manifest.first_seq, fresh.manifest.upto_seq) == (first, 45)


@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_every_range_is_cut_into_parts_that_follow_each_other(parallelism: int) -> None:
    for first, count in ((1, 1), (5, 9), (1, 10), (3, 131_072), (1, 131_073), (7, 1_000_003)):
        parts = list(cut_range(first, first + count - 1, parallelism))
        assert parts[0][0] == first
        assert parts[-1][1] == first + count - 1
        assert all(b[0] == a[1] + 1 for a, b in pairwise(parts))
        sizes = [last - start + 1 for start, last in parts]
        assert max(sizes) <= 131_072
        assert max(sizes) - min(sizes) <= 1
