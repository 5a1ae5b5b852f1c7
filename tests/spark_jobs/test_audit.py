"""An audit finds every field that was changed, and what the lake says of itself does not help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import LeafHash, MmrRoot, PublicKey, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from recorder.lake import compaction
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.manifest import Segment
from recorder.lake.segments import SegmentContent, read_file, write_segment
from spark_jobs.audit import AuditResult, audit
from spark_jobs.ingest import ingest
from spark_jobs.session import INGEST_POOL
from spark_jobs.tasks import CancelledError, JobControl
from tests.spark_jobs.test_ingest import NOW, plan_for
from tests.spark_jobs.test_reopen import place_of
from tests.support.lying_log import LyingFiles
from tests.support.recorded_log import RecordedLog, RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = RecordedStream("record/app/web")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RecordedLog]:
    log = RecordedLog(tmp_path / "hub")
    stream = STREAM
    stream.client_seq = 0
    log.commit([*stream.events(12), stream.message(b"odd"), *stream.events(7)])
    yield log
    log.close()


@pytest.fixture
def lake(spark: SparkSession, log: RecordedLog) -> Segment:
    """One sealed segment of all events."""
    plan = plan_for(log, STREAM)
    old = ingest(spark, plan).manifest
    with plan.folder.locked():
        new = compaction.seal(plan.folder, old, now_ms=NOW, is_forced=True)
        [segment] = plan.folder.publish(old, new, now_ms=NOW).segments
    return segment


def audited(
    spark: SparkSession, log: RecordedLog, seqs: tuple[int, int] | None = None, **options: object
) -> AuditResult:
    plan = plan_for(log, STREAM)
    return audit(spark, place_of(plan, log), plan.hub_pk, seqs, **options)  # type: ignore[arg-type]


def replaced(
    log: RecordedLog,
    segment: Segment,
    change: Callable[[pa.Table, pa.Table], tuple[pa.Table, pa.Table]],
) -> None:
    """A lake rewritten by someone who also makes the manifest agree with it."""
    folder = plan_for(log, STREAM).folder
    rows, proofs = change(
        read_file(folder, segment.rows, ROWS), read_file(folder, segment.proofs, PROOFS)
    )
    content = SegmentContent(
        rows=rows,
        proofs=proofs,
        upto_root=MmrRoot(bytes.fromhex(segment.upto_root)),
        key_ids=segment.key_ids,
    )
    forged = write_segment(folder, content, segment.state)
    manifest = folder.read()
    assert manifest is not None
    folder.publish(manifest, replace(manifest, segments=(forged,)), now_ms=NOW)


def with_value(table: pa.Table, name: str, number: int, value: object) -> pa.Table:
    values = table[name].to_pylist()
    values[number] = value
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(name), pa.array(values, table[name].type))


@pytest.mark.parametrize("from_hub", [False, True], ids=["proofs", "hub"])
def test_an_honest_lake_is_equal_for_every_range(
    spark: SparkSession, log: RecordedLog, lake: Segment, *, from_hub: bool
) -> None:
    for seqs in (None, (1, 1), (5, 16), (20, 20)):
        result = audited(spark, log, seqs, from_hub=from_hub)
        assert result.is_equal, result.differences
        assert (result.first, result.last) == (seqs or (1, 20))
        assert result.upto_root == log.rows(STREAM)[result.last - 1].mmr_root.hex()


OTHER = {
    "subject_id": "mallory", "principal_id": "00" * 32, "event_type": "x", "event_time": 7,
    "origin": "elsewhere", "payload_text": '{"n":1}', "error": "sealed", "hub_commit_time": 1000,
    "receipt_id": "rcpt-00", "leaf_hash": bytes(32), "mmr_root": bytes(32), "hub_id": "11" * 32,
    "stream": "record/app/other", "origin_seq": 4,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OTHER if name != "hub_commit_time"])
def test_every_field_that_was_changed_is_named(
    spark: SparkSession, log: RecordedLog, lake: Segment, name: str
) -> None:
    replaced(log, lake, lambda rows, proofs: (with_value(rows, name, 4, OTHER[name]), proofs))
    result = audited(spark, log)
    assert not result.is_equal
    assert (5, name) in [(one.seq, one.what) for one in result.differences]
    if name == "payload_text":
        assert "p_n" in {one.what for one in result.differences}
    outside = audited(spark, log, (6, 20))
    assert outside.count == 0, outside.differences


def test_a_row_whose_message_was_changed_with_it_is_found(
    spark: SparkSession, log: RecordedLog, lake: Segment
) -> None:
    """A forged receipt planted in the lake, beside a message of the forger's own."""
    forger = RecordedStream(STREAM.name, secrets=list(STREAM.secrets))
    forger.key = SigningKey.generate()
    message = forger.event(subject_id="mallory")
    genuine = log.rows(STREAM)[4]
    receipt = Receipt.sign(
        SigningKey.generate(), STREAM.label, StreamSeq(5), LeafHash(message.leaf),
        genuine.mmr_root, UnixSeconds(genuine.hub_commit_time // 1000),
    )  # fmt: skip

    def change(rows: pa.Table, proofs: pa.Table) -> tuple[pa.Table, pa.Table]:
        proofs = with_value(proofs, "msg", 4, message.data)
        return rows, with_value(proofs, "receipt", 4, receipt.encode())

    replaced(log, lake, change)
    result = audited(spark, log)
    assert "V.TRUST" in result.differences[0].log
    assert audited(spark, log, from_hub=True).is_equal  # the rows themselves are genuine


@pytest.mark.parametrize("kind", ["rows", "proofs", "keys", "groups"])
def test_a_flipped_bit_in_any_file_is_found(
    spark: SparkSession, log: RecordedLog, lake: Segment, kind: str
) -> None:
    path = plan_for(log, STREAM).folder.path(getattr(lake, kind))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    result = audited(spark, log)
    assert not result.is_equal
    named = " ".join(f"{one.what} {one.log}" for one in result.differences)
    assert path.name in named or "the entry at" in named


def test_a_key_copy_that_says_something_else_is_found(
    spark: SparkSession, log: RecordedLog, lake: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.keys is not None
    folder = plan_for(log, STREAM).folder
    table = pq.read_table(folder.path(lake.keys), partitioning=None)
    forged = with_value(table, "hub_commit_seq", 0, 19)
    monkeypatch.setattr("recorder.lake.segments.keys_table", lambda _: forged)
    replaced(log, lake, lambda rows, proofs: (rows, proofs))
    assert [one.what for one in audited(spark, log).differences] == ["keys"]


def test_a_log_that_lies_is_not_called_equal(
    spark: SparkSession, log: RecordedLog, lake: Segment
) -> None:
    plan = plan_for(log, STREAM)
    liar = LyingFiles(data_dir=log.root, lie="another message")
    place = replace(place_of(plan, log), source=liar)
    assert not audit(spark, place, plan.hub_pk, from_hub=True).is_equal
    with pytest.raises(VeenError) as refusal:
        audit(spark, place, PublicKey(SigningKey.generate().public))
    assert refusal.value.code is ErrorCode.TRUST


def test_a_range_that_is_not_held_and_a_key_that_is_gone_are_refused(
    spark: SparkSession, log: RecordedLog, lake: Segment
) -> None:
    for seqs in ((0, 4), (4, 21), (5, 4)):
        with pytest.raises(VeenError) as refusal:
            audited(spark, log, seqs)
        assert refusal.value.code is ErrorCode.NOTFOUND
    plan = plan_for(log, STREAM, secrets=())
    with pytest.raises(VeenError) as refusal:
        audit(spark, place_of(plan, log), plan.hub_pk)
    assert refusal.value.code is ErrorCode.KEYSTORE


def test_a_key_that_came_later_does_not_make_a_difference(
    spark: SparkSession, log: RecordedLog, lake: Segment
) -> None:
    STREAM.secrets.insert(0, (2, RecordedStream("record/app/other").secrets[0][1]))
    try:
        assert audited(spark, log).is_equal
    finally:
        STREAM.secrets.pop(0)


def test_an_audit_shows_progress_and_can_be_cancelled(
    spark: SparkSession, log: RecordedLog, lake: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.audit.PART_EVENTS", 1)
    seen: list[tuple[int, int]] = []
    control = JobControl(
        pool=INGEST_POOL, on_progress=lambda done, total: seen.append((done, total))
    )
    assert audited(spark, log, control=control).is_equal
    assert seen
    assert {total for _, total in seen} == {20}
    with pytest.raises(CancelledError):
        audited(spark, log, control=JobControl(pool=INGEST_POOL, is_cancelled=lambda: True))
    assert audited(spark, log).is_equal
