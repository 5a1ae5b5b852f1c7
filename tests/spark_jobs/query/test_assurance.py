"""C20 within one zone, and C21 for the summaries of segments [assurance 1]."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.selftest.questions import Asker
from recorder.event import UnixMillis
from recorder.lake.folder import LakeFolder
from recorder.projection import Row
from spark_jobs.evidence_trust import Means
from tests.spark_jobs.query.conftest import Ask
from tests.spark_jobs.query.test_evidence import rewrite, set_value
from tests.support.query_lake import write_lake
from tests.support.query_log import QuestionedLog
from tests.support.query_rows import coverage_of, random_rows

STREAMS = ["record/app/a", "record/app/b"]
Scaled = Callable[[int, int], int]


def test_c20_a_mutated_event_gives_another_digest_and_full_names_it(
    rng: random.Random, tmp_path: Path, ask: Ask, scaled: Scaled
) -> None:
    """The same questions of two lakes that differ in one event, chosen anew for each."""
    log = QuestionedLog(tmp_path / "log", STREAMS)
    for name in STREAMS:
        log.fill(rng, name, 40)
        log.ingest(name, segment_rows=100)  # one live segment each: every event is opened again
    rows, seen = log.all_rows(), 0
    while seen < scaled(5, 300):
        source = selection(rng, rows)
        chosen = answered(log.pinned({**source, "evidence": {"mode": "none"}}), rows)
        if not chosen:
            continue
        victim = rng.choice(chosen)
        lake = Path(shutil.copytree(log.lake, tmp_path / "lake"))
        change = set_value("payload_text", victim.hub_commit_seq - 1, '{"mutated":true}')
        rewrite(lake, log.streams[victim.stream].label, 0, rows=change)
        check_seen(ask, log, lake, source, victim)
        shutil.rmtree(lake)
        seen += 1
    log.close()


def selection(rng: random.Random, rows: list[Row]) -> dict[str, Value]:
    """A random question whose rows show the payload of whatever matches."""
    times = [int(row.hub_commit_time) for row in rows]
    source = Asker(rng).question(STREAMS, times)
    source.pop("aggregate", None)
    return source | {"scope": [*STREAMS], "projection": ["hub_commit_seq", "stream", "payload"]}


def answered(descriptor: Descriptor, rows: list[Row]) -> list[Row]:
    """The readable events of an answer."""
    places = set()
    for text in evaluate(descriptor, rows).rows:
        found = canonical_json.parse(text, depth_max=72)
        assert isinstance(found, dict)
        places.add((found["stream"], found["hub_commit_seq"]))
    return [row for row in rows if row.error is None and (row.stream, row.hub_commit_seq) in places]


def check_seen(
    ask: Ask, log: QuestionedLog, lake: Path, source: dict[str, Value], victim: Row
) -> None:
    unverified = log.pinned({**source, "evidence": {"mode": "none"}})
    ours, theirs = ask(log.lake, unverified).outcome, ask(lake, unverified).outcome
    assert ours.rows_hash == evaluate(unverified, log.all_rows()).rows_hash
    assert ours.rows_hash != theirs.rows_hash
    full = log.pinned({**source, "evidence": {"mode": "full"}})
    with pytest.raises(QueryError) as failure:
        ask(lake, full, means=moved(log.means(), lake))
    assert failure.value.error_code is QueryCode.EVIDENCE_FAILED
    assert failure.value.message.startswith(f"{victim.stream} {victim.hub_commit_seq}: ")


def moved(means: Means, lake: Path) -> Means:
    places = {name: replace(place, lake=lake) for name, place in means.places.items()}
    return replace(means, places=places, records=None)


FOLDED: list[dict[str, Value]] = [
    {"metrics": ["count", "min(event_time)", "max(event_time)"]},
    {"metrics": ["count"], "group_by": ["event_type"]},
    {"metrics": ["count", "max(hub_commit_time)"], "group_by": ["stream", "origin"]},
]


def test_c21_summaries_of_any_cut_fold_to_what_the_rows_say(
    rng: random.Random, tmp_path: Path, ask: Ask, scaled: Scaled
) -> None:
    """Cut anywhere, sealed or not: one answer. And it really comes from the summaries."""
    rows = [row for name in STREAMS for row in random_rows(rng, name, 120)]
    blinded = 0
    for turn in range(scaled(4, 60)):
        lake = tmp_path / f"lake-{turn}"
        for name in STREAMS:
            own = [row for row in rows if row.stream == name]
            write_lake(lake, coverage_of(rows, name).label, own,
                       segment_rows=rng.randrange(1, 121), live=0)  # fmt: skip
        for number, aggregate in enumerate(FOLDED):
            asked = pinned(rows, aggregate, number)
            expected = rows_bytes(evaluate(asked, rows).rows)
            scanned = ask(lake, asked).rows
            assert scanned == expected, (turn, aggregate)
        blinded += blind(lake, rows)
        for number, aggregate in enumerate(FOLDED):
            asked = pinned(rows, aggregate, number)
            assert ask(lake, asked).rows == rows_bytes(evaluate(asked, rows).rows)
    assert blinded, "no summary was used"


def pinned(rows: list[Row], aggregate: Value, number: int) -> Descriptor:
    source = canonical_json.encode(
        {"scope": [*STREAMS], "aggregate": aggregate, "evidence": {"mode": "none"}}
    )
    asked = read_submitted(source, query_id=f"q-{number}").asked_by("ab" * 32, UnixMillis(0))
    return asked.pin([coverage_of(rows, name) for name in STREAMS])


def blind(lake: Path, rows: list[Row]) -> int:
    """Empty the rows of segments with all the summaries: whoever looked there would fall over."""
    count = 0
    for name in STREAMS:
        folder = LakeFolder.of(lake, coverage_of(rows, name).label)
        manifest = folder.read()
        assert manifest is not None
        for segment in manifest.segments:
            if {"event_type", "origin"} <= set(segment.summary.groupings):
                folder.path(segment.rows).write_bytes(b"")
                count += 1
    return count
