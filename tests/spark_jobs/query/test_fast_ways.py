"""Summaries, key copies and scans give the evaluator's bytes, and are really the way taken."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto.hashing import h
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.contract.evaluate import evaluate
from queryapi.contract.fields import Field, Kind
from queryapi.contract.rows import rows_bytes
from recorder.event import UnixMillis, format_time
from recorder.lake.columns import GROUP_FIELDS, GROUPINGS
from recorder.lake.folder import LakeFolder
from recorder.projection import Row
from spark_jobs.query_dictionary import compact, concat, decoded, distinct, encoded
from spark_jobs.query_groups import Codes
from spark_jobs.query_plan import deal, make_plan, open_coverage
from spark_jobs.query_summary import grouping_of, split
from spark_jobs.query_text import shown
from tests.spark_jobs.query.conftest import Ask
from tests.support.query_lake import write_lake
from tests.support.query_rows import coverage_of, random_rows

STREAMS = ["record/app/a", "record/app/b"]
SUBJECTS = [f"user:{number}" for number in range(6)]
METRICS = [
    f"{end}({field})"
    for end in ("min", "max")
    for field in ("event_time", "hub_commit_time", "hub_commit_seq")
]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """Few subjects and origins, so that every grouping of a segment is worth a summary."""
    rng = random.Random(11)
    found = []
    for name in STREAMS:
        for row in random_rows(rng, name, 600):
            if row.error is None:
                row = replace(  # noqa: PLW2901
                    row,
                    subject_id=rng.choice(SUBJECTS),
                    origin=rng.choice(["web", 'q"', ""]),
                    event_type=rng.choice(["login.ok", "login.no"]),
                    principal_id=h(b"principal %d" % rng.randrange(2)).hex(),
                )
            found.append(row)
    return found


@pytest.fixture(scope="module")
def lake(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    for name in STREAMS:
        own = [row for row in rows if row.stream == name]
        write_lake(root, coverage_of(rows, name).label, own, segment_rows=150)
    return root


def pinned(rows: list[Row], source: dict[str, Value]) -> Descriptor:
    text = canonical_json.encode({"scope": STREAMS, "evidence": {"mode": "none"}, **source})
    asked = read_submitted(text, query_id="q-1").asked_by("ab" * 32, UnixMillis(0))
    return asked.pin([coverage_of(rows, name) for name in STREAMS])


def random_filter(rng: random.Random, rows: list[Row]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if rng.random() < 0.4:
        found["subject_id"] = rng.choice([*SUBJECTS, "nobody"])
    if rng.random() < 0.3:
        found["event_type"] = ["login.ok"]
    if rng.random() < 0.2:
        found["origin"] = rng.choice(["web", 'q"', "", "none"])
    if rng.random() < 0.4:
        ends = sorted(rng.choice(rows).hub_commit_time for _ in range(2))
        found["time"] = {"from": format_time(ends[0]), "to": format_time(ends[1])}
    return found


def random_aggregate(rng: random.Random) -> dict[str, Value]:
    keys = rng.sample([*GROUP_FIELDS, "stream"], rng.randrange(4))
    metrics = ["count", *rng.sample(METRICS, rng.randrange(3))]
    return {"group_by": list[Value](keys), "metrics": list[Value](metrics)}


def test_summaries_and_scans_give_the_evaluator_s_bytes(
    rng: random.Random, rows: list[Row], lake: Path, ask: Ask
) -> None:
    told_in_all = 0
    for _ in range(40):
        source: dict[str, Value] = {
            "aggregate": random_aggregate(rng),
            "filter": random_filter(rng, rows),
        }
        descriptor = pinned(rows, source)
        assert descriptor.coverage is not None
        plan = make_plan(descriptor, open_coverage(lake, descriptor.coverage))
        told, _ = split(plan.chunks, grouping_of(descriptor))
        told_in_all += len(told)
        expected = evaluate(descriptor, rows)
        found = ask(lake, descriptor, tasks=rng.choice((None, 3)))
        said = descriptor.canonical().decode()
        assert found.rows.decode() == rows_bytes(expected.rows).decode(), said
        assert found.outcome.unreadable_count == expected.unreadable_count, said
    assert told_in_all > 20, "summaries were hardly asked"


def test_lookups_through_the_key_copy_give_the_evaluator_s_bytes(
    rng: random.Random, rows: list[Row], lake: Path, ask: Ask
) -> None:
    for _ in range(15):
        asked = {**random_filter(rng, rows), "subject_id": rng.choice([*SUBJECTS, "nobody"])}
        if rng.random() < 0.5:
            predicate: Value = {"path": "payload.status", "op": "ne", "value": 200}
            asked["payload"] = [predicate]
        descriptor = pinned(rows, {"projection": ["*"], "filter": asked})
        assert descriptor.coverage is not None
        plan = make_plan(descriptor, open_coverage(lake, descriptor.coverage))
        assert sum(chunk.probe is not None for chunk in plan.chunks) >= len(plan.chunks) - 2
        expected = evaluate(descriptor, rows)
        found = ask(lake, descriptor)
        assert found.rows.decode() == rows_bytes(expected.rows).decode(), descriptor.canonical()


def test_full_evidence_is_never_answered_from_a_summary(rows: list[Row]) -> None:
    source: dict[str, Value] = {"aggregate": {"metrics": ["count"]}, "evidence": {"mode": "full"}}
    assert grouping_of(pinned(rows, source)) is None
    spot: dict[str, Value] = {"mode": "spot", "sample_rate": 1}
    assert grouping_of(pinned(rows, {**source, "evidence": spot})) is None


def test_a_groups_file_of_one_row_group_still_answers(
    rows: list[Row], lake: Path, tmp_path: Path, ask: Ask
) -> None:
    """As segments had it before each grouping got its own."""
    for name in STREAMS:
        own = [row for row in rows if row.stream == name]
        label = coverage_of(rows, name).label
        manifest = write_lake(tmp_path, label, own, segment_rows=150)
        folder = LakeFolder.of(tmp_path, label)
        for segment in manifest.segments:
            if segment.groups is not None:
                path = folder.path(segment.groups)
                assert pq.read_metadata(path).num_row_groups == len(segment.summary.groupings)
                table = pq.read_table(path, partitioning=None)
                pq.write_table(table, path)
                assert pq.read_metadata(path).num_row_groups == 1
    for grouping in GROUPINGS:
        keys: list[Value] = list(grouping.split(","))
        source: dict[str, Value] = {
            "aggregate": {"group_by": keys, "metrics": ["count", "max(event_time)"]},
            "filter": {"event_type": ["login.ok"]} if "event_type" in keys else None,
        }
        descriptor = pinned(rows, source)
        new, old = ask(lake, descriptor), ask(tmp_path, descriptor)
        assert new.rows == old.rows == rows_bytes(evaluate(descriptor, rows).rows)


def test_codes_collapse_before_they_overflow() -> None:
    values = [f"v{number}" for number in range(40)]
    keys = [encoded(pa.array(values[shift:] + values[:shift])) for shift in range(20)]
    codes = Codes(keys, len(values))
    assert len(set(codes.values.to_pylist())) == len(values)
    for key, found in zip(keys, codes.keys(codes.values), strict=True):
        assert decoded(found).to_pylist() == decoded(key).to_pylist()


def test_dictionaries_say_what_plain_columns_say() -> None:
    plain = pa.array(["a", None, "b", "a"])
    one = encoded(plain)
    assert decoded(one).to_pylist() == plain.to_pylist()
    rest = compact(one.take(pa.array([1, 2])))
    assert rest.dictionary.to_pylist() == ["b"]
    assert rest.to_pylist() == [None, "b"]
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", "y", "x"]))
    assert distinct(twice).indices.to_pylist() == [0, 1, 0]
    assert concat([one, plain]).to_pylist() == 2 * plain.to_pylist()
    assert concat([one, rest]).to_pylist() == [*plain.to_pylist(), None, "b"]


def test_verified_work_is_cut_at_row_groups_where_there_are_enough(
    rows: list[Row], lake: Path
) -> None:
    descriptor = pinned(rows, {"projection": ["*"]})
    assert descriptor.coverage is not None
    chunk = make_plan(descriptor, open_coverage(lake, descriptor.coverage)).chunks[0]
    large = replace(chunk, segment_first=1, first=1, segment_last=1_000_000, last=1_000_000)
    runs = deal([large], cores=2, is_verified=True)
    starts = [one.first for run in runs for one in run]
    assert all((start - 1) % 32_768 == 0 for start in starts)
    assert 6 <= len(runs) <= 16
    small = replace(large, segment_last=4_000, last=4_000)
    assert len(deal([small], cores=2, is_verified=True)) == 8


def test_a_field_is_spelled_alike_as_dictionary_and_plain() -> None:
    texts = pa.array(["a", 'q"', None, "a", "\u0007"])
    for kind in (Kind.TEXT, Kind.JSON):
        field = Field(name="origin", kind=kind)
        assert shown(field, encoded(texts)).to_pylist() == shown(field, texts).to_pylist()
