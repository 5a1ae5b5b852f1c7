from __future__ import annotations

import json
from decimal import Decimal

import pytest

from hub.canonical_json import Value
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import DESCRIPTOR_BYTES_MAX, Descriptor
from queryapi.contract.descriptor_reader import read_recorded, read_submitted
from recorder.event import UnixMillis
from tests.support import query_vectors
from tests.support.query_vectors import Case

LEAST: dict[str, Value] = {
    "scope": ["record/app/http"],
    "evidence": {"mode": "none"},
    "projection": ["origin"],
}


def read(**changes: object) -> Descriptor:
    return read_submitted(json.dumps(LEAST | changes).encode(), query_id="q-1")


def refused(source: bytes) -> tuple[QueryCode, list[str]]:
    with pytest.raises(QueryError) as refusal:
        read_submitted(source, query_id="q-1")
    return refusal.value.error_code, [one.pointer for one in refusal.value.details]


def test_every_flaw_is_told_at_once() -> None:
    source = json.dumps({"scope": 1, "limit": 2, "evidence": {}, "projection": ["a", "origin"]})
    code, pointers = refused(source.encode())
    assert code is QueryCode.INVALID_QUERY_DESCRIPTOR
    assert pointers == ["/limit"]  # What has unknown keys is not read any further.
    source = json.dumps({"scope": 1, "evidence": {}, "projection": ["a", "origin"]})
    assert refused(source.encode())[1] == ["/scope", "/projection/0", "/evidence/mode"]


@pytest.mark.parametrize(
    ("text", "code", "pointers"),
    [
        ("", QueryCode.INVALID_JSON, []),
        ('{"scope":', QueryCode.INVALID_JSON, []),
        ("\udcff", QueryCode.INVALID_JSON, []),
        ('{"scope":[],"scope":[]}', QueryCode.INVALID_QUERY_DESCRIPTOR, ["/scope"]),
        ('{"meta":{"a":NaN}}', QueryCode.INVALID_QUERY_DESCRIPTOR, ["/meta/a"]),
        ('{"meta":{"a":[1e401]}}', QueryCode.INVALID_QUERY_DESCRIPTOR, ["/meta/a/0"]),
        ('{"meta":{"a/b":"\\ud800"}}', QueryCode.INVALID_QUERY_DESCRIPTOR, ["/meta/a~1b"]),
        ('{"meta":' + "[" * 65, QueryCode.INVALID_QUERY_DESCRIPTOR, ["/meta" + "/0" * 63]),
        ("[" * 100_000, QueryCode.INVALID_QUERY_DESCRIPTOR, ["/0" * 64]),
        ("null", QueryCode.INVALID_QUERY_DESCRIPTOR, [""]),
        ('"x"', QueryCode.INVALID_QUERY_DESCRIPTOR, [""]),
    ],
)
def test_text_that_is_no_descriptor_has_a_clear_code(
    text: str, code: QueryCode, pointers: list[str]
) -> None:
    assert refused(text.encode(errors="surrogateescape")) == (code, pointers)


def test_a_descriptor_of_ten_megabytes_is_refused_before_it_is_read() -> None:
    assert refused(b"{" * 10_000_000) == (QueryCode.INVALID_QUERY_DESCRIPTOR, [""])


def test_a_hundred_thousand_event_types_are_refused() -> None:
    source = json.dumps(LEAST | {"filter": {"event_type": [str(n) for n in range(30_000)]}})
    assert refused(source.encode())[1] == ["/filter/event_type"]
    source = json.dumps(LEAST | {"filter": {"event_type": [str(n) for n in range(100_000)]}})
    assert refused(source.encode())[1] == [""]


def test_numbers_that_grow_in_canonical_form_count_in_that_form() -> None:
    numbers = ",".join(["1e400"] * 1000)
    source = json.dumps(LEAST)[:-1] + f', "meta": {{"n": [{numbers}]}}}}'
    assert len(source) < DESCRIPTOR_BYTES_MAX
    assert refused(source.encode()) == (QueryCode.INVALID_QUERY_DESCRIPTOR, [""])


def test_a_number_of_any_size_is_an_operand() -> None:
    predicate = {"path": "payload.n", "op": "eq", "value": 2**70}
    assert read(filter={"payload": [predicate]}).filter.payload[0].value == 2**70


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"projection": 0}, ["/projection"]),
        ({"projection": [1]}, ["/projection/0"]),
        ({"projection": "origin"}, ["/projection"]),
        ({"filter": {"event_type": [1]}}, ["/filter/event_type"]),
        ({"filter": {"time": {"from": 1}}}, ["/filter/time/from"]),
        ({"filter": {"payload": [1]}}, ["/filter/payload/0"]),
        ({"filter": {"payload": [{}]}}, ["/filter/payload/0/path", "/filter/payload/0/op"]),
        ({"filter": {"payload": [{"path": "payload", "op": "exists", "value": None, "x": 1}]}},
         ["/filter/payload/0/x", "/filter/payload/0/value"]),
        ({"filter": {"payload": {}}}, ["/filter/payload"]),
        ({"aggregate": {"metrics": [1]}, "projection": None}, ["/aggregate/metrics/0"]),
        ({"aggregate": {"metrics": ["min()"]}, "projection": None}, ["/aggregate/metrics/0"]),
        ({"aggregate": {"metrics": ["min(origin"]}, "projection": None}, ["/aggregate/metrics/0"]),
        ({"aggregate": {"metrics": ["count"], "group_by": 0}, "projection": None},
         ["/aggregate/group_by"]),
        ({"aggregate": {"metrics": ["count"], "group_by": ["x"] * 65}, "projection": None},
         ["/aggregate/group_by"]),
        ({"aggregate": {"metrics": ["count"]}, "projection": []}, ["/projection"]),
        ({"evidence": None}, ["/evidence"]),
        ({"evidence": {"mode": "spot", "sample_rate": True}}, ["/evidence/sample_rate"]),
        ({"meta": {"origin_hub": "AB"}}, ["/meta/origin_hub"]),
        ({"meta": {"origin_hub": 1}}, ["/meta/origin_hub"]),
        ({"query_id": 1}, ["/query_id"]),
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_where_it_stands(
    changes: dict[str, object], pointers: list[str]
) -> None:
    assert refused(json.dumps(LEAST | changes).encode())[1] == pointers


def test_a_metric_may_name_a_path_with_brackets_in_it() -> None:
    found = read(aggregate={"metrics": ["min(payload.a)(b)"]}, projection=None)
    assert found.aggregate is not None
    metric = found.aggregate.metrics[0]
    assert metric.field is not None
    assert (metric.name, metric.field.path) == ("min(payload.a)(b)", ("a)(b",))


def test_what_the_client_says_of_the_time_of_asking_is_kept() -> None:
    told = read(meta={"requested_at": "noon"}).asked_by("ab" * 32, UnixMillis(0))
    untold = read(meta={"requested_at": None}).asked_by("ab" * 32, UnixMillis(0))
    assert told.meta["requested_at"] == "noon"
    assert untold.meta["requested_at"] == "1970-01-01T00:00:00.000Z"


def test_the_same_words_of_another_principal_are_another_question() -> None:
    asked = [read().asked_by(who * 32, UnixMillis(0)) for who in ("ab", "cd")]
    assert asked[0].question() != asked[1].question()


def test_a_sample_rate_stays_exact() -> None:
    source = json.dumps(LEAST)[:-1] + ',"evidence":{"mode":"spot","sample_rate":1e-1}}'
    source = source.replace('"evidence": {"mode": "none"}, ', "")
    assert read_submitted(source.encode(), query_id="q-1").evidence.sample_rate == Decimal("0.1")


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        ('"to_seq":12', '"to_seq":-1', "/meta/coverage/0/to_seq"),
        ('"from_seq":1', '"from_seq":0', "/meta/coverage/0/from_seq"),
        ('"from_seq":1', '"from_seq":14', "/meta/coverage/0/from_seq"),
        ('"to_seq":12', '"to_seq":true', "/meta/coverage/0/to_seq"),
        ('"to_seq":12', '"to_seq":12,"more":1', "/meta/coverage/0/more"),
        ('"label":"7', '"label":"x', "/meta/coverage/0/label"),
        ('"stream":"record/app/http"', '"stream":1', "/meta/coverage/0/stream"),
        ('"stream":"record/app/http"', '"stream":"record/app/https"', "/meta/coverage"),
        ('"mmr_root":"b', '"mmr_root":null,"x":"', "/meta/coverage/0/x"),
        ('"principal_id":"6', '"principal_id":"X', "/meta/principal_id"),
        ('"query_id":"q-00000000000000000000000000000001"', '"query_id":null', "/query_id"),
        ('"version":1', '"version":1,"aggregate":null', ""),
        ('"from":null', '"from":"2026-03-01T09:00:00Z"', "/filter"),
        ('"projection":["subject_id"]', '"projection":["*"]', "/projection"),
    ],
)
def test_a_recorded_descriptor_must_be_in_its_only_spelling(
    old: str, new: str, pointer: str
) -> None:
    source = query_vectors.load("normalize")["cases"][0]["descriptor_canonical"]
    assert old in source
    with pytest.raises(QueryError) as refusal:
        read_recorded(source.replace(old, new).encode())
    assert refusal.value.error_code is QueryCode.INVALID_QUERY_DESCRIPTOR
    assert pointer in [one.pointer for one in refusal.value.details]


def test_a_recorded_coverage_is_a_list_sorted_by_stream() -> None:
    case = next(c for c in query_vectors.cases("normalize") if "sorted" in c["name"])
    recorded: Case = json.loads(case["descriptor_canonical"])
    wrong: list[object] = [None, {}, recorded["meta"]["coverage"][::-1]]
    for coverage in wrong:
        recorded["meta"]["coverage"] = coverage
        with pytest.raises(QueryError) as refusal:
            read_recorded(json.dumps(recorded).encode())
        assert refusal.value.details[0].pointer == "/meta/coverage"


def test_a_recorded_descriptor_of_any_size_is_refused_before_it_is_read() -> None:
    with pytest.raises(QueryError):
        read_recorded(b"{" * 10_000_000)
