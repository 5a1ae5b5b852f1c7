from __future__ import annotations

from pathlib import Path

import pytest

from queryapi.contract.codes import QueryError
from tests.spark_jobs.query.conftest import Ask
from tests.support import query_means, query_vectors
from tests.support.query_lake import write_lake
from tests.support.query_vectors import Case


@pytest.fixture(scope="module", params=[3, 100])
def corpus_lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lake")
    for stream, coverage in query_vectors.corpus_coverage().items():
        rows = [row for row in query_vectors.corpus_rows() if row.stream == stream]
        if rows:
            entries = query_vectors.corpus_entries(stream)
            write_lake(lake, coverage.label, rows, segment_rows=request.param, entries=entries)
    return lake


def _cases(name: str) -> pytest.MarkDecorator:
    found = query_vectors.cases(name)
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


@_cases("answers")
def test_spark_gives_the_published_answer_byte_for_byte(
    case: Case, corpus_lake: Path, ask: Ask
) -> None:
    descriptor = query_vectors.pinned(case["source"])
    answered = ask(corpus_lake, descriptor, means=query_means.corpus_means(corpus_lake))
    assert answered.rows.decode() == case["rows_canonical"]
    assert answered.outcome.row_count == case["row_count"]
    assert answered.outcome.rows_hash == case["rows_hash"]
    assert answered.evidence.decode() == case["evidence_canonical"]
    assert answered.outcome.evidence_hash == case["evidence_hash"]
    assert answered.outcome.unreadable_count == case["unreadable_count"]


@_cases("fail")
def test_spark_fails_at_the_published_offender(case: Case, corpus_lake: Path, ask: Ask) -> None:
    with pytest.raises(QueryError) as failed:
        ask(corpus_lake, query_vectors.pinned(case["source"]))
    assert failed.value.error_code == case["error_code"]
    assert failed.value.message.startswith(f"{case['first_offender']}: ")
