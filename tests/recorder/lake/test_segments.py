"""Segments hold exactly the rows of the one judge, whatever is merged and read back."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub.errors import ErrorCode, VeenError
from recorder.lake.columns import GROUPINGS, ROWS, bucket_of
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import BUCKETS, SegmentState
from recorder.lake.reader import LakeSnapshot, first_at_or_after, read_proofs, read_rows
from recorder.lake.segments import date_of, merge_segments
from tests.support import lakes
from tests.support.recorded_log import RecordedLog, RecordedStream

DAY_S = 86_400


def expected_rows(log: RecordedLog, stream: RecordedStream) -> list[dict[str, object]]:
    rows = [asdict(row) for row in log.rows(stream)]
    return [{**row, "hub_id": row["hub_id"].hex()} for row in rows]


def found_rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    names = [name for name in ROWS.names if not name.startswith("origin_")]
    return [row for batch in batches for row in batch.select(names).to_pylist()]


def test_rows_and_proofs_come_back_in_order_for_every_range(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit([*stream.events(5), stream.message(b"not an event"), *stream.events(6)])
    parts = [lakes.segment(log, stream, folder, a, b) for a, b in ((1, 4), (5, 5), (6, 12))]
    snapshot = LakeSnapshot(folder=folder, manifest=lakes.manifest(log, stream, *parts))
    rows, entries = expected_rows(log, stream), log.entries(stream)
    assert [row["error"] for row in rows].count("undecodable") == 1
    for first in range(1, 13):
        for last in range(first, 14):
            found = found_rows(list(read_rows(snapshot, first, last)))
            assert found == rows[first - 1 : last], (first, last)
    proofs = [row for batch in read_proofs(snapshot, 3, 9) for row in batch.to_pylist()]
    assert [(one["receipt"], one["msg"]) for one in proofs] == entries[2:9]
    assert [one["hub_commit_seq"] for one in proofs] == list(range(3, 10))


def test_merging_gives_the_segment_that_would_have_been_written_at_once(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(40))
    parts = [lakes.segment(log, stream, folder, a, b) for a, b in ((1, 7), (8, 9), (10, 40))]
    merged = merge_segments(folder, parts, SegmentState.SEALED)
    assert merged == lakes.segment(log, stream, folder, 1, 40, SegmentState.SEALED)
    assert merged.keys is not None
    assert merged.groups is not None


def test_merging_a_file_that_was_changed_is_refused(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(4))
    parts = [lakes.segment(log, stream, folder, a, b) for a, b in ((1, 2), (3, 4))]
    path = folder.path(parts[1].proofs)
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2"))
    with pytest.raises(VeenError) as refusal:
        merge_segments(folder, parts, SegmentState.LIVE)
    assert refusal.value.code is ErrorCode.DAMAGE


def test_the_same_rows_always_give_the_same_file(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(20))
    one = lakes.segment(log, stream, folder, 1, 20)
    again = lakes.segment(log, stream, LakeFolder(folder.root / "again"), 1, 20)
    assert one == again


def test_the_key_copy_has_each_subject_in_its_bucket_once(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit([*stream.events(50, subjects=23), stream.message(b"")])
    segment = lakes.segment(log, stream, folder, 1, 51, SegmentState.SEALED)
    assert segment.keys is not None
    assert len(segment.keys.buckets) == BUCKETS
    with pq.ParquetFile(folder.path(segment.keys)) as file:
        filled = [number for number, count in enumerate(segment.keys.buckets) if count]
        assert file.num_row_groups == len(filled)
        groups = [file.read_row_group(number).to_pylist() for number in range(len(filled))]
    assert [len(group) for group in groups] == [one for one in segment.keys.buckets if one]
    for bucket, group in zip(filled, groups, strict=True):
        assert {bucket_of(row["subject_id"]) for row in group} == {bucket}
        order = [(row["subject_id"], row["hub_commit_seq"]) for row in group]
        assert order == sorted(order)
    found = {row["hub_commit_seq"]: row["subject_id"] for group in groups for row in group}
    expected = {row.hub_commit_seq: row.subject_id for row in log.rows(stream) if not row.error}
    assert found == expected


def test_groups_count_what_counting_the_rows_gives(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit([*stream.events(60), stream.message(b"")])
    segment = lakes.segment(log, stream, folder, 1, 61, SegmentState.SEALED)
    assert segment.groups is not None
    rows = [asdict(row) for row in log.rows(stream)]
    found = pq.read_table(folder.path(segment.groups), partitioning=None).to_pylist()
    assert {one["grouping"] for one in found} == set(segment.summary.groupings) == set(GROUPINGS)
    for one in found:
        fields = one["grouping"].split(",")
        group = [row for row in rows if all(row[name] == one[name] for name in fields)]
        assert one["events"] == len(group)
        for name in ("hub_commit_seq", "hub_commit_time", "event_time"):
            values = [row[name] for row in group if row[name] is not None]
            assert one[f"min_{name}"] == min(values, default=None)
            assert one[f"max_{name}"] == max(values, default=None)
    for grouping in segment.summary.groupings:
        assert sum(one["events"] for one in found if one["grouping"] == grouping) == 61
    assert segment.summary.errors == {"undecodable": 1}


def test_the_first_sequence_of_a_time_is_found_within_and_between_segments(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    start = int(log.clock.at)
    for step in range(10):
        log.commit(stream.events(2))
        log.clock.at = start + (step + 1) * 10
    parts = [lakes.segment(log, stream, folder, a, b) for a, b in ((1, 7), (8, 20))]
    snapshot = LakeSnapshot(folder=folder, manifest=lakes.manifest(log, stream, *parts))
    times = [row.hub_commit_time for row in log.rows(stream)]
    for at in range(start * 1000 - 5_000, start * 1000 + 105_000, 5_000):
        expected = next((seq for seq, one in enumerate(times, 1) if one >= at), 21)
        assert first_at_or_after(snapshot, at) == expected


def test_dates_are_utc() -> None:
    assert date_of(0) == "1970-01-01"
    assert date_of(DAY_S * 1000 - 1) == "1970-01-01"
    assert date_of(DAY_S * 1000) == "1970-01-02"
