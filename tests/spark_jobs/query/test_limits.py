from __future__ import annotations

import random
from pathlib import Path

import pytest

from queryapi.contract.codes import QueryCode, QueryError
from recorder.lake.folder import LakeFolder
from recorder.projection import Row
from spark_jobs.query_job import QueryLimits
from tests.spark_jobs.query.conftest import Ask
from tests.spark_jobs.query.test_plan import STREAM, question
from tests.support.query_lake import write_lake
from tests.support.query_rows import coverage_of, random_rows


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return random_rows(random.Random(5), STREAM, 50)


@pytest.fixture
def lake(rows: list[Row], tmp_path: Path) -> Path:
    write_lake(tmp_path / "lake", coverage_of(rows, STREAM).label, rows, segment_rows=10)
    return tmp_path / "lake"


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_result_beyond_its_limits_fails_and_is_never_cut(
    lake: Path, rows: list[Row], ask: Ask, tasks: int
) -> None:
    selection = question(rows)
    groups = question(
        rows,
        projection=None,
        aggregate={"group_by": ["hub_commit_seq"], "metrics": ["count"]},
    )
    for asked in (selection, groups):
        whole = ask(lake, asked, tasks=tasks, limits=QueryLimits(rows_max=50))
        size = len(whole.rows)
        assert whole.outcome.row_count == 50
        for limits in (QueryLimits(rows_max=49), QueryLimits(bytes_max=size - 10)):
            with pytest.raises(QueryError) as failed:
                ask(lake, asked, tasks=tasks, limits=limits)
            assert failed.value.error_code is QueryCode.RESULT_TOO_LARGE


def test_pages_are_slices_of_the_hashed_bytes(lake: Path, rows: list[Row], ask: Ask) -> None:
    answered = ask(lake, question(rows, projection=["hub_commit_seq", "payload"]))
    whole = [*answered.folder.each_row()]
    assert answered.folder.row_count() == 50
    for offset, limit in ((0, 50), (0, 1), (7, 5), (49, 100), (50, 1), (1000, 1)):
        expected = b"[" + b",".join(whole[offset : offset + limit]) + b"]"
        assert answered.folder.page(offset, limit) == expected


def test_a_missing_or_broken_file_fails_the_query_with_a_clear_code(
    lake: Path, rows: list[Row], ask: Ask
) -> None:
    label = coverage_of(rows, STREAM).label
    folder = LakeFolder.of(lake, label)
    manifest = folder.read()
    assert manifest is not None
    path = folder.path(manifest.segments[2].rows)
    content = path.read_bytes()
    for damage in (content[: len(content) // 2], b"PAR1" + bytes(500), b"", None):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(QueryError, match="the lake is damaged") as failed:
            ask(lake, question(rows))
        assert failed.value.error_code is QueryCode.EXECUTION_FAILED
        path.touch()
    path.write_bytes(content)
    assert ask(lake, question(rows)).outcome.row_count == 50
