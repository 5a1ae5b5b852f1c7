from __future__ import annotations

import json

import pytest
from pytest_django import Settings as DjangoSettings

from hub import canonical_json
from hub.canonical_json import Value
from queryapi import events, services
from queryapi.contract.codes import QueryCode
from queryapi.models import Execution, State
from recorder.lake.folder import LakeFolder
from recorder.models import AuthoredEvent
from tests.queryapi.api.conftest import Call, Callers
from tests.support import query_desk, query_vectors
from tests.support.web_bundle import WebBundle

pytestmark = pytest.mark.django_db


def question(name: str, **changes: Value) -> dict[str, Value]:
    return {
        "scope": [name],
        "evidence": {"mode": "none"},
        "projection": ["hub_commit_seq", "payload.n"],
        **changes,
    }


def test_a_query_is_recorded_before_anything_is_executed(
    call: Call, callers: Callers, name: str
) -> None:
    answer = call(callers.alice, "POST", "submit", question(name))
    assert answer.status_code == 202, answer.content
    taken = answer.json()
    assert taken["status"] == "pending"
    row = AuthoredEvent.objects.get(pk=events.submitted_key(taken["result_id"]))
    assert (row.stream, row.event_type) == ("record/query/requests", "query.submitted")
    assert row.identity == "query-engine"
    assert row.subject_id == "a1" * 32
    descriptor = json.loads(row.payload_text)
    assert descriptor["query_id"] == taken["query_id"]
    assert descriptor["meta"]["principal_id"] == "a1" * 32
    assert Execution.objects.get().descriptor == row.payload_text


def test_coverage_is_pinned_where_the_verified_heads_are(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    asked.record(name, 3)
    found = call(callers.alice, "GET", f"descriptor/{taken['query_id']}").json()
    last = asked.log.rows(asked.streams[name])[11]
    assert found["descriptor"]["meta"]["coverage"] == [
        {
            "stream": name,
            "label": asked.streams[name].label.hex(),
            "hub_id": asked.hub.hub_id.hex(),
            "from_seq": 1,
            "to_seq": 12,
            "mmr_root": last.mmr_root.hex(),
        }
    ]
    assert found["record_event"] is None
    query_desk.recorded(events.submitted_key(taken["result_id"]), 5)
    found = call(callers.alice, "GET", f"descriptor/{taken['query_id']}").json()
    assert found["record_event"]["stream"] == "record/query/requests"
    assert found["record_event"]["seq"] == 5


def test_a_damaged_lake_is_no_reason_to_refuse_a_question(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    """It is recorded, and its run names the damage."""
    asked.ingest(name)
    path = LakeFolder.of(asked.lake, asked.streams[name].label).manifest_path
    path.write_bytes(path.read_bytes()[:-9])
    assert call(callers.alice, "POST", "submit", question(name)).status_code == 202
    path.unlink()
    path.mkdir()
    assert call(callers.alice, "POST", "submit", question(name)).status_code == 202


@pytest.mark.parametrize("case", query_vectors.cases("refuse"), ids=query_vectors.names("refuse"))
def test_a_flawed_descriptor_is_refused_and_leaves_nothing(
    call: Call, callers: Callers, case: query_vectors.Case
) -> None:
    answer = call(callers.alice, "POST", "submit", case["source"])
    assert answer.status_code == 400
    found = answer.json()
    assert found["error_code"] == case["error_code"]
    assert [one["pointer"] for one in found["details"]] == [case["pointer"]]
    assert found["request_id"]
    assert not Execution.objects.exists()
    assert not AuthoredEvent.objects.exists()


@pytest.mark.parametrize(
    "scope",
    [
        "record/app/nowhere", "record/app/*", "*", "record/app/", "record/app/../app/x", "",
        "Record/app/x", "record/\u0430pp/x", "record/app/x\u0000", "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_unknown_and_what_is_closed_look_alike(
    call: Call, callers: Callers, name: str, scope: str
) -> None:
    closed = call(callers.stranger, "POST", "submit", question(name))
    unknown = call(callers.stranger, "POST", "submit", question(scope))
    assert closed.status_code == unknown.status_code == 403
    left, right = closed.json(), unknown.json()
    assert {**left, "request_id": ""} == {**right, "request_id": ""}
    assert left["error_code"] == "forbidden_scope"
    assert not Execution.objects.exists()


def test_another_hub_s_stream_is_not_to_be_had_before_one_is_imported(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    other = question(name, meta={"origin_hub": "00" * 32})
    own = question(name, meta={"origin_hub": asked.hub.hub_id.hex()})
    assert call(callers.alice, "POST", "submit", other).json()["error_code"] == "forbidden_scope"
    assert call(callers.alice, "POST", "submit", own).status_code == 202


def test_the_same_id_and_question_gives_the_first_answer_and_nothing_new(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    source = question(name, query_id="q-mine")
    first = call(callers.alice, "POST", "submit", source).json()
    asked.record(name, 2)
    again = call(callers.alice, "POST", "submit", source)
    assert (again.status_code, again.json()) == (202, first)
    query_desk.complete(asked, first["result_id"])
    answered = call(callers.alice, "POST", "submit", source)
    assert answered.status_code == 200
    assert answered.json()["result_digest"]["row_count"] == 12
    assert Execution.objects.count() == 1
    assert AuthoredEvent.objects.filter(event_type="query.submitted").count() == 1


def test_an_id_that_stands_for_another_question_is_a_conflict(
    call: Call, callers: Callers, name: str
) -> None:
    call(callers.alice, "POST", "submit", question(name, query_id="q-1"))
    other = question(name, query_id="q-1", projection=["origin"])
    for who, source in (
        (callers.alice, other),
        (callers.bob, question(name, query_id="q-1")),
        (callers.admin, question(name, query_id="q-1")),
    ):
        answer = call(who, "POST", "submit", source)
        assert (answer.status_code, answer.json()["error_code"]) == (409, "duplicate_query_id")


def test_too_many_unfinished_queries_are_refused_with_a_time_to_come_back(
    call: Call,
    callers: Callers,
    name: str,
    settings: DjangoSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    object.__setattr__(settings.VEEN, "query_waiting_max", 2)
    try:
        for _ in range(2):
            assert call(callers.alice, "POST", "submit", question(name)).status_code == 202
        refused = call(callers.alice, "POST", "submit", question(name))
        assert (refused.status_code, refused.json()["error_code"]) == (429, "rate_limited")
        assert int(refused["Retry-After"]) > 0
        assert call(callers.bob, "POST", "submit", question(name)).status_code == 202
    finally:
        object.__setattr__(settings.VEEN, "query_waiting_max", 200)


def test_too_many_queries_in_a_minute_are_refused_replays_included(
    call: Call, callers: Callers, asked: WebBundle, name: str, settings: DjangoSettings
) -> None:
    object.__setattr__(settings.VEEN, "query_rate_max", 2)
    try:
        taken = call(callers.alice, "POST", "submit", question(name)).json()
        done = query_desk.complete(asked, taken["result_id"])
        body = f'{{"descriptor":{done.descriptor},"result_digest":{done.digest}}}'.encode()
        assert call(callers.alice, "POST", "replay", body).status_code == 202
        for path, source in (("submit", canonical_json.encode(question(name))), ("replay", body)):
            refused = call(callers.alice, "POST", path, source)
            assert (refused.status_code, refused.json()["error_code"]) == (429, "rate_limited")
            assert int(refused["Retry-After"]) > 0
        assert call(callers.bob, "POST", "submit", question(name)).status_code == 202
    finally:
        object.__setattr__(settings.VEEN, "query_rate_max", 600)


def test_other_media_types_and_other_roles_are_refused(
    call: Call, callers: Callers, name: str, web: object
) -> None:
    body = canonical_json.encode(question(name))
    answer = call(callers.alice, "POST", "submit", body)
    assert answer.status_code == 202
    plain = web.generic(  # type: ignore[attr-defined]
        "POST", "/api/query/submit", body, content_type="text/plain",
        headers={"Authorization": f"Bearer {callers.alice}"},
    )  # fmt: skip
    assert plain.status_code == 415
    nobody = web.generic(  # type: ignore[attr-defined]
        "POST", "/api/query/submit", body, content_type="application/json"
    )
    assert nobody.status_code == 401


def test_a_body_of_ten_megabytes_is_refused(call: Call, callers: Callers) -> None:
    answer = call(callers.alice, "POST", "submit", b"[" * 10_000_000)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "invalid_query_descriptor")


def test_the_same_routes_answer_under_v1(callers: Callers, name: str, web: object) -> None:
    answer = web.generic(  # type: ignore[attr-defined]
        "POST", "/api/v1/query/submit", canonical_json.encode(question(name)),
        content_type="application/json",
        headers={"Authorization": f"Bearer {callers.alice}", "Prefer": "respond-async"},
    )  # fmt: skip
    assert answer.status_code == 202


def test_a_cancelled_query_is_failed_for_good(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    execution = Execution.objects.get(pk=taken["result_id"])
    assert services.start(execution, "w", query_desk.LEASE)
    found = call(callers.alice, "POST", f"cancel/{taken['result_id']}").json()
    assert (found["status"], found["error_code"]) == ("failed", "cancelled")
    audit = AuthoredEvent.objects.get(event_type="query.executed")
    assert json.loads(audit.payload_text)["error_code"] == "cancelled"
    digest = query_desk.write_answer(asked.root / "x", asked, execution)
    timings = services.Timings(ingest_ms=0, run_ms=0)
    assert not services.keep_digest(execution, "w", digest, 0, timings)
    assert not services.complete(execution)
    assert not services.fail(execution, QueryCode.EXECUTION_FAILED, "late")
    assert not AuthoredEvent.objects.filter(event_type="query.result").exists()
    answer = call(callers.alice, "GET", f"result/{taken['result_id']}")
    assert (answer.status_code, answer.json()["error_code"]) == (409, "cancelled")


def test_what_is_recorded_can_no_longer_be_cancelled(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    query_desk.complete(asked, taken["result_id"])
    found = call(callers.alice, "POST", f"cancel/{taken['result_id']}").json()
    assert (found["status"], found["error_code"]) == (State.COMPLETED, None)
