"""Summaries that were read before are held within a bound, and never instead of what lies there."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from recorder.event import UnixMillis
from recorder.lake.folder import LakeFolder
from recorder.projection import Row
from spark_jobs import query_summary
from spark_jobs.query_held import HeldTables
from tests.spark_jobs.query.conftest import Ask
from tests.support.query_lake import write_lake
from tests.support.query_rows import coverage_of, random_rows

STREAM = "record/app/held"
BY_TYPE: dict[str, Value] = {
    "aggregate": {"group_by": ["event_type"], "metrics": ["count", "max(event_time)"]}
}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    rng = random.Random(5)
    return [
        replace(row, event_type=rng.choice(["a", "b", "c"])) if row.error is None else row
        for row in random_rows(rng, STREAM, 600)
    ]


@pytest.fixture
def groups_files(rows: list[Row], tmp_path: Path) -> list[Path]:
    label = coverage_of(rows, STREAM).label
    manifest = write_lake(tmp_path / "lake", label, rows, segment_rows=150)
    folder = LakeFolder.of(tmp_path / "lake", label)
    return [folder.path(one.groups) for one in manifest.segments if one.groups is not None]


def pinned(rows: list[Row]) -> Descriptor:
    text = canonical_json.encode({"scope": [STREAM], "evidence": {"mode": "none"}, **BY_TYPE})
    asked = read_submitted(text, query_id="q-1").asked_by("ab" * 32, UnixMillis(0))
    return asked.pin([coverage_of(rows, STREAM)])


def table(rows: int) -> pa.Table:
    return pa.table({"n": pa.array([1] * rows, pa.int64())})


def test_those_not_asked_for_longest_go_first() -> None:
    held = HeldTables(8 * 40)
    for name in "abcd":
        held.put(name, table(10))
    assert held.get("a") is not None
    held.put("e", table(10))
    assert [name for name in "abcde" if held.get(name) is not None] == ["a", "c", "d", "e"]
    assert held.bytes == 8 * 40
    held.put("e", table(10))
    assert held.bytes == 8 * 40, "the same key counts once"


def test_a_table_that_would_push_out_the_others_is_not_held() -> None:
    held = HeldTables(8 * 40)
    held.put("small", table(1))
    held.put("large", table(11))
    assert held.get("large") is None
    assert held.get("small") is not None


def _grow(path: Path) -> None:
    found = pq.read_table(path, partitioning=None)
    events = found.schema.get_field_index("events")
    more = pc.add(found["events"], pa.scalar(1, pa.int64()))
    pq.write_table(found.set_column(events, found.schema.field(events), more), path)


def test_what_lies_there_now_is_what_answers(
    rows: list[Row], groups_files: list[Path], tmp_path: Path, ask: Ask
) -> None:
    descriptor = pinned(rows)
    expected = rows_bytes(evaluate(descriptor, rows).rows)
    assert ask(tmp_path / "lake", descriptor).rows == expected
    _grow(groups_files[0])
    assert ask(tmp_path / "lake", descriptor).rows != expected


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_file_that_was_held_and_is_damaged_now_fails_the_question(
    rows: list[Row],
    groups_files: list[Path],
    tmp_path: Path,
    ask: Ask,
    spoil: Callable[[Path], object],
) -> None:
    descriptor = pinned(rows)
    assert ask(tmp_path / "lake", descriptor).rows
    spoil(groups_files[1])
    with pytest.raises(QueryError, match="the lake is damaged: ") as refused:
        ask(tmp_path / "lake", descriptor)
    assert refused.value.error_code is QueryCode.EXECUTION_FAILED
    assert str(tmp_path) not in refused.value.message


def test_many_threads_read_the_same_as_one(
    rows: list[Row],
    groups_files: list[Path],
    tmp_path: Path,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(groups_files) > 2
    monkeypatch.setattr(query_summary, "_LARGE_ROWS", 1)
    descriptor = pinned(rows)
    expected = rows_bytes(evaluate(descriptor, rows).rows)
    assert ask(tmp_path / "lake", descriptor).rows == expected
