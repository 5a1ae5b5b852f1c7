from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto.hashing import h
from hub.types import HubId, MmrRoot
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from recorder.event import UnixMillis, format_time
from recorder.projection import Row
from spark_jobs.query_filter import probe_keys
from spark_jobs.query_plan import Plan, deal, make_plan, open_coverage
from spark_jobs.query_summary import grouping_of, split
from tests.support.query_lake import write_lake
from tests.support.query_rows import coverage_of, random_rows

STREAM = "record/app/a"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return random_rows(random.Random(5), STREAM, 100)


@pytest.fixture(scope="module")
def lake(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    write_lake(root, coverage_of(rows, STREAM).label, rows, segment_rows=20)
    return root


def question(rows: list[Row], **changes: Value) -> Descriptor:
    source: dict[str, Value] = {
        "scope": [STREAM],
        "evidence": {"mode": "none"},
        "projection": ["origin"],
        **changes,
    }
    asked = read_submitted(canonical_json.encode(source), query_id="q-1")
    return asked.asked_by("ab" * 32, UnixMillis(0)).pin([coverage_of(rows, STREAM)])


def plan_of(lake: Path, descriptor: Descriptor) -> Plan:
    assert descriptor.coverage is not None
    return make_plan(descriptor, open_coverage(lake, descriptor.coverage))


def test_segments_outside_the_window_are_not_opened(lake: Path, rows: list[Row]) -> None:
    inside = rows[45].hub_commit_time
    window: Value = {"time": {"from": format_time(inside), "to": format_time(inside)}}
    plan = plan_of(lake, question(rows, filter=window))
    assert [(chunk.first, chunk.last) for chunk in plan.chunks] == [(41, 60)]
    assert all(chunk.is_windowed for chunk in plan.chunks)


def test_a_subject_is_looked_up_in_the_key_copy_of_sealed_segments(
    lake: Path, rows: list[Row]
) -> None:
    plan = plan_of(lake, question(rows, filter={"subject_id": "user:1"}))
    *sealed, live = plan.chunks
    assert live.probe is None
    for chunk in sealed:
        assert chunk.probe is not None
        assert probe_keys(chunk.probe) == [
            row.hub_commit_seq
            for row in rows[chunk.first - 1 : chunk.last]
            if row.subject_id == "user:1"
        ]


def test_a_bucket_without_rows_is_not_opened(lake: Path, rows: list[Row]) -> None:
    plan = plan_of(lake, question(rows, filter={"subject_id": "nobody at all"}))
    probes = [chunk.probe for chunk in plan.chunks if chunk.probe is not None]
    assert any(probe.row_group == -1 for probe in probes)
    assert all(probe_keys(probe) == [] for probe in probes)


def test_full_evidence_does_not_rest_on_what_no_record_fixes(lake: Path, rows: list[Row]) -> None:
    asked = question(rows, filter={"subject_id": "user:1"}, evidence={"mode": "full"})
    plan = plan_of(lake, asked)
    assert all(chunk.probe is None and chunk.counts_unreadable for chunk in plan.chunks)
    assert plan.unreadable_count == 0


@pytest.mark.parametrize(
    ("changes", "grouping"),
    [
        ({"aggregate": {"metrics": ["count"]}}, ""),
        ({"aggregate": {"metrics": ["min(event_time)"], "group_by": ["origin"]}}, "origin"),
        ({"aggregate": {"metrics": ["count"], "group_by": ["stream", "origin"]},
          "filter": {"event_type": ["http.error"]}}, "event_type,origin"),
        ({"aggregate": {"metrics": ["count", "sum(payload.n)"]}}, None),
        ({"aggregate": {"metrics": ["count"], "group_by": ["payload.n"]}}, None),
        ({"aggregate": {"metrics": ["count"]}, "evidence": {"mode": "full"}}, None),
        ({"aggregate": {"metrics": ["count"]}, "filter": {"payload": [
            {"path": "payload.n", "op": "exists", "value": True}]}}, None),
    ],
)  # fmt: skip
def test_only_what_summaries_hold_is_answered_from_them(
    rows: list[Row], changes: dict[str, Value], grouping: str | None
) -> None:
    assert grouping_of(question(rows, projection=None, **changes)) == grouping


def test_a_live_segment_and_one_cut_by_the_window_are_scanned(lake: Path, rows: list[Row]) -> None:
    asked = question(
        rows,
        projection=None,
        aggregate={"metrics": ["count"], "group_by": ["origin"]},
        filter={"time": {"from": format_time(rows[30].hub_commit_time)}},
    )
    told, scanned = split(plan_of(lake, asked).chunks, "origin")
    assert [chunk.first for chunk in told] == [41, 61]
    assert [chunk.first for chunk in scanned] == [21, 81]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 50])
def test_dealing_keeps_every_row_once_and_in_order(lake: Path, rows: list[Row], tasks: int) -> None:
    runs = deal(plan_of(lake, question(rows)).chunks, cores=2, tasks=tasks)
    seqs = [seq for run in runs for one in run for seq in range(one.first, one.last + 1)]
    assert seqs == list(range(1, 101))
    assert len(runs) <= tasks


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"to_seq": 101}, QueryCode.COVERAGE_INCOMPLETE),
        ({"mmr_root": MmrRoot(h(b"other"))}, QueryCode.COVERAGE_MISMATCH),
        ({"to_seq": 99}, QueryCode.COVERAGE_MISMATCH),
        ({"hub_id": HubId(h(b"other"))}, QueryCode.COVERAGE_MISMATCH),
        ({"label": h(b"unknown")}, QueryCode.COVERAGE_INCOMPLETE),
    ],
)
def test_a_coverage_that_is_not_held_here_has_its_code(
    lake: Path, rows: list[Row], change: dict[str, object], code: QueryCode
) -> None:
    part = replace(coverage_of(rows, STREAM), **change)  # type: ignore[arg-type]
    with pytest.raises(QueryError) as refused:
        open_coverage(lake, [part])
    assert refused.value.error_code is code
    assert refused.value.message.startswith(f"{STREAM}: ")


def test_a_pruned_coverage_is_told_with_what_is_gone(tmp_path: Path, rows: list[Row]) -> None:
    part: Coverage = coverage_of(rows, STREAM)
    write_lake(tmp_path, part.label, rows[10:], segment_rows=50)
    with pytest.raises(QueryError) as refused:
        open_coverage(tmp_path, [part])
    assert refused.value.error_code is QueryCode.COVERAGE_PRUNED
    assert refused.value.message == f"{STREAM}: 1 to 10 were pruned"
