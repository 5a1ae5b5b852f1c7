"""The engine against the evaluator in plain Python, on random questions over random events."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.codes import QueryError
from queryapi.contract.descriptor import Descriptor, EvidencePolicy, Mode
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.contract.evaluate import Answer, evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.selftest.questions import Asker
from recorder.event import UnixMillis
from recorder.projection import Row
from tests.spark_jobs.query.conftest import Ask
from tests.support.query_lake import write_lake
from tests.support.query_log import QuestionedLog
from tests.support.query_rows import coverage_of, random_rows

MODES: list[Value] = [
    {"mode": "full"},
    {"mode": "spot", "sample_rate": Decimal("0.4")},
    {"mode": "spot", "sample_rate": 1},
]
STREAMS = ["record/app/a", "record/app/b", "record/security/empty"]


def random_question(rng: random.Random, rows: list[Row], number: int) -> Descriptor:
    """A question about a part of the log, with no evidence."""
    times = [row.hub_commit_time for row in rows]
    source = canonical_json.encode(Asker(rng).question(STREAMS, [*times, times[0] + 500]))
    asked = read_submitted(source, query_id=f"q-{number}").asked_by("ab" * 32, UnixMillis(0))
    coverage = [coverage_of(rows, name) for name in asked.scope]
    if rng.random() < 0.3:  # An older coverage than what the lake holds by now.
        older = [row for row in rows if row.hub_commit_seq <= 70]
        coverage = [coverage_of(older, name) for name in asked.scope]
    return replace(asked.pin(coverage), evidence=EvidencePolicy(mode=Mode.NONE))


def test_two_engines_give_the_same_bytes_however_the_work_is_cut(
    rng: random.Random, tmp_path: Path, ask: Ask
) -> None:
    answered, failed = compare(rng, tmp_path, ask, 40)
    assert answered > 20, (answered, failed)
    assert failed > 0, (answered, failed)


@pytest.mark.full
def test_two_engines_give_the_same_bytes_a_thousand_times(
    rng: random.Random, tmp_path: Path, ask: Ask
) -> None:
    answered, failed = compare(rng, tmp_path, ask, 1000)
    assert answered > 500, (answered, failed)


def attempt(descriptor: Descriptor, rows: list[Row]) -> Answer | QueryError:
    try:
        return evaluate(descriptor, rows)
    except QueryError as failure:
        return failure


def compare(rng: random.Random, tmp_path: Path, ask: Ask, questions: int) -> tuple[int, int]:
    """How many were answered alike, and how many failed alike."""
    counts = dict(zip(STREAMS, (150, 90, 0), strict=True))
    rows = [row for name, count in counts.items() for row in random_rows(rng, name, count)]
    lakes = []
    for segment_rows in (7, 40, 1000):
        lake = tmp_path / f"lake-{segment_rows}"
        for stream in STREAMS[:2]:
            own = [row for row in rows if row.stream == stream]
            label = coverage_of(rows, stream).label
            write_lake(lake, label, own, segment_rows=segment_rows, live=rng.randrange(3))
        lakes.append(lake)
    answered = failed = 0
    for number in range(questions):
        descriptor = random_question(rng, rows, number)
        told = descriptor.canonical().decode()
        lake, tasks = rng.choice(lakes), rng.choice((None, 1, 2, 5))
        expected = attempt(descriptor, rows)
        if isinstance(expected, QueryError):
            with pytest.raises(QueryError) as ours:
                ask(lake, descriptor, tasks=tasks)
            assert ours.value.message == expected.message, told
            failed += 1
            continue
        found = ask(lake, descriptor, tasks=tasks)
        assert found.rows.decode() == rows_bytes(expected.rows).decode(), told
        assert found.outcome.rows_hash == expected.rows_hash
        assert found.outcome.unreadable_count == expected.unreadable_count, told
        assert [*found.folder.each_row()] == [*expected.rows]
        answered += 1
    return answered, failed


def test_two_engines_give_the_same_evidence(rng: random.Random, tmp_path: Path, ask: Ask) -> None:
    log = QuestionedLog(tmp_path, STREAMS)
    log.fill(rng, STREAMS[0], 60)
    log.fill(rng, STREAMS[1], 40)
    for name, segment_rows in ((STREAMS[0], 25), (STREAMS[1], 100)):
        log.ingest(name, segment_rows=segment_rows)
    log.record_seals(STREAMS[0])
    rows, means = log.all_rows(), log.means()
    times = [row.hub_commit_time for row in rows]
    compared = 0
    for number in range(14):
        source = Asker(rng).question(STREAMS, [*times, times[0] + 500])
        source["evidence"] = rng.choice(MODES)
        descriptor = log.pinned(source, number)
        expected = attempt(descriptor, rows)
        if isinstance(expected, QueryError):
            continue
        told = descriptor.canonical().decode()
        found = ask(log.lake, descriptor, tasks=rng.choice((None, 1, 3)), means=means)
        assert found.rows == rows_bytes(expected.rows), told
        assert found.evidence.decode() == expected.evidence.decode(), told
        assert found.outcome.evidence_hash == expected.evidence_hash
        assert found.outcome.unreadable_count == expected.unreadable_count, told
        compared += 1
    assert compared > 5
    log.close()
