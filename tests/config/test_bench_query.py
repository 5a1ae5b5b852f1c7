"""The questions of `veen bench query` mean the same to DuckDB and to the contract."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from config.bench_duckdb import Rival
from config.bench_lake import STREAM, BenchLake, make_lake, rows_of
from config.bench_questions import questions
from hub import canonical_json
from hub.errors import VeenError
from hub.types import HubId, LeafHash, MmrRoot, StreamSeq
from queryapi.contract.evaluate import evaluate
from recorder.event import UnixMillis
from recorder.projection import Row

EVENTS = 3_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> BenchLake:
    return make_lake(tmp_path_factory.mktemp("bench"), EVENTS)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [
        Row(
            stream=one["stream"],
            hub_commit_seq=StreamSeq(one["hub_commit_seq"]),
            hub_commit_time=UnixMillis(one["hub_commit_time"]),
            subject_id=one["subject_id"],
            principal_id=one["principal_id"],
            event_type=one["event_type"],
            event_time=UnixMillis(one["event_time"]),
            origin=one["origin"],
            payload_text=one["payload_text"],
            error=None,
            receipt_id=one["receipt_id"],
            leaf_hash=LeafHash(one["leaf_hash"]),
            mmr_root=MmrRoot(one["mmr_root"]),
            hub_id=HubId(bytes.fromhex(one["hub_id"])),
        )
        for one in rows_of(1, EVENTS).to_pylist()
    ]


def test_payloads_of_the_synthetic_lake_are_canonical(rows: list[Row]) -> None:
    for row in rows[:100]:
        assert row.payload_text is not None
        value = canonical_json.parse(row.payload_text)
        assert canonical_json.encode_text(value) == row.payload_text
    assert {row.stream for row in rows} == {STREAM}


def test_duckdb_and_the_contract_give_every_question_one_answer(
    lake: BenchLake, rows: list[Row]
) -> None:
    rival = Rival(lake.rows_files, threads=2)
    for question in questions(EVENTS):
        descriptor = question.descriptor(lake)
        expected = evaluate(descriptor, rows)
        assert expected.rows, question.name
        assert rival.reference(question, descriptor) == expected.rows_hash, question.name
        assert rival.answer(question, descriptor) == expected.rows_hash, question.name
        assert rival.fetch(question).num_rows == len(expected.rows), question.name
    rival.close()


def test_without_duckdb_the_bench_says_what_is_missing(
    lake: BenchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(VeenError, match=r"DuckDB, which is not installed here.*dev\.lock"):
        Rival(lake.rows_files, threads=2)


def test_a_lake_of_several_segments_has_every_sequence_once(tmp_path: Path) -> None:
    found = make_lake(tmp_path, 140_000)
    assert [(one.from_seq, one.to_seq) for one in found.manifest.segments] == [
        (1, 131_072), (131_073, 140_000),
    ]  # fmt: skip
