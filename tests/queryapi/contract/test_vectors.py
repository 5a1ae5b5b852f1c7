from __future__ import annotations

import pytest

from queryapi.contract.codes import QueryError
from queryapi.contract.descriptor_reader import read_recorded, read_submitted
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes, rows_hash
from tests.support import query_vectors
from tests.support.query_vectors import Case


def _cases(name: str) -> pytest.MarkDecorator:
    found = query_vectors.cases(name)
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


def test_every_vector_file_is_known() -> None:
    found = {path.stem for path in query_vectors.FOLDER.glob("*.json")}
    assert found == set(query_vectors.FILES)


@_cases("answers")
def test_an_answer_is_the_published_one_byte_for_byte(case: Case) -> None:
    descriptor = query_vectors.pinned(case["source"])
    answer = evaluate(descriptor, query_vectors.corpus_rows())
    assert descriptor.canonical().decode() == case["descriptor_canonical"]
    assert descriptor.result_id == case["result_id"]
    assert rows_bytes(answer.rows).decode() == case["rows_canonical"]
    assert len(answer.rows) == case["row_count"]
    assert answer.rows_hash == rows_hash(answer.rows) == case["rows_hash"]
    assert answer.evidence.decode() == case["evidence_canonical"]
    assert answer.evidence_hash == case["evidence_hash"]
    assert answer.unreadable_count == case["unreadable_count"]


@_cases("answers")
def test_a_recorded_descriptor_reads_back_as_itself(case: Case) -> None:
    source = case["descriptor_canonical"].encode()
    assert read_recorded(source) == query_vectors.pinned(case["source"])
    assert read_recorded(source).canonical() == source


@_cases("normalize")
def test_a_submitted_descriptor_is_recorded_as_published(case: Case) -> None:
    descriptor = query_vectors.pinned(case["source"])
    assert descriptor.canonical().decode() == case["descriptor_canonical"]


@_cases("refuse")
def test_a_flaw_is_refused_with_its_code_and_pointer(case: Case) -> None:
    with pytest.raises(QueryError) as refused:
        read_submitted(case["source"], query_id="q-1")
    assert refused.value.error_code == case["error_code"]
    assert refused.value.status == 400
    assert [one.pointer for one in refused.value.details] == [case["pointer"]]


@_cases("fail")
def test_a_sum_over_other_values_fails_at_the_first_offender(case: Case) -> None:
    with pytest.raises(QueryError) as failed:
        evaluate(query_vectors.pinned(case["source"]), query_vectors.corpus_rows())
    assert failed.value.error_code == case["error_code"]
    assert failed.value.message.startswith(f"{case['first_offender']}: ")
