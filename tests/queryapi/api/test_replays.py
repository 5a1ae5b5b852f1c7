"""Replays and what outlives an answer: whose log is meant, what is recorded, who still sees it."""

from __future__ import annotations

import json
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from hub import canonical_json
from hub.canonical_json import JsonError, Value
from queryapi import services
from queryapi.contract.codes import QueryCode
from queryapi.contract.digest import ResultDigest, compare
from queryapi.models import Execution, Replay
from recorder.models import ApiToken, AuthoredEvent, Stream
from tests.queryapi.api.conftest import (
    Call,
    Callers,
    asked,
    bundle,
    call,
    callers,
    name,
    read_token,
    shared_hub,
    web,
)
from tests.queryapi.api.test_submit import question
from tests.support import query_desk
from tests.support.web_bundle import WebBundle

__all__ = ["asked", "bundle", "call", "callers", "name", "read_token", "shared_hub", "web"]
pytestmark = pytest.mark.django_db
LEASE = timedelta(minutes=1)


@pytest.fixture
def done(call: Call, callers: Callers, asked: WebBundle, name: str) -> Execution:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    return query_desk.complete(asked, taken["result_id"])


def body(done: Execution, **changes: Value) -> Any:
    """A replay whose coverage differs."""
    descriptor = json.loads(done.descriptor)
    descriptor["meta"]["coverage"][0].update(changes)
    return {"descriptor": descriptor, "result_digest": json.loads(done.digest)}


def replayed(call: Call, who: str, done: Execution) -> Replay:
    """A replay that was answered with the same digest."""
    taken = call(who, "POST", "replay", body(done)).json()
    replay = Replay.objects.get(pk=taken["replay_id"])
    assert services.start_replay(replay, "w-1", LEASE)
    digest = ResultDigest.decode(canonical_json.parse(done.digest))
    assert services.complete_replay(replay, "w-1", digest, compare(digest, digest))
    return replay


@pytest.mark.parametrize("label", ["unknown", "closed", "same"])
def test_the_log_of_another_hub_is_taken_and_left_to_fail_where_it_is_run(
    call: Call, callers: Callers, done: Execution, label: str
) -> None:
    """The caller may read the stream of that name here; whether its log is there, the run says."""
    labels: dict[str, dict[str, Value]] = {
        "unknown": {"label": "7f" * 32},
        "closed": {"label": Stream.objects.get(name="record/app/elsewhere").label},
        "same": {},
    }
    changed = body(done, hub_id="0c" * 32, **labels[label])
    taken = call(callers.bob, "POST", "replay", changed)
    assert taken.status_code == 202, taken.content
    refused = call(callers.stranger, "POST", "replay", changed)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "forbidden_scope")


def test_a_label_of_this_hub_under_another_name_tells_nothing_of_what_there_is(
    call: Call, callers: Callers, done: Execution
) -> None:
    closed = Stream.objects.get(name="record/app/elsewhere").label
    told = [
        call(callers.bob, "POST", "replay", body(done, label=label)).json()
        for label in (closed, "7f" * 32)
    ]
    assert told[0]["error_code"] == "forbidden_scope"
    assert {**told[0], "request_id": ""} == {**told[1], "request_id": ""}
    assert not Replay.objects.exists()


def test_a_replay_is_recorded_with_how_it_compared(
    call: Call, callers: Callers, done: Execution
) -> None:
    replay = replayed(call, callers.bob, done)
    event = AuthoredEvent.objects.get(event_type="query.replayed")
    assert (event.stream, event.subject_id) == ("record/query/audit/executions", "b0" * 32)
    said = json.loads(event.payload_text)
    assert (said["replay_id"], said["result_id"]) == (str(replay.pk), done.pk)
    assert (said["outcome"], said["equal"]) == ("completed", True)
    assert said["local_digest"] == said["their_digest"] == json.loads(done.digest)
    assert not AuthoredEvent.objects.filter(event_type="query.audit.v1").exists()


def test_a_replay_of_a_sensitive_stream_is_an_access_of_whoever_replays(
    call: Call, callers: Callers, done: Execution, name: str
) -> None:
    Stream.objects.filter(name=name).update(sensitivity="high")
    replay = replayed(call, callers.bob, done)
    said = json.loads(AuthoredEvent.objects.get(event_type="query.audit.v1").payload_text)
    assert (said["requester_identity"], said["resource_identifier"]) == ("b0" * 32, name)
    assert said["result_digest"] == sha256(done.digest.encode()).hexdigest()
    assert said["metadata"]["replay_id"] == str(replay.pk)
    assert said["request_time"] == int(replay.created_at.timestamp() * 1000)


def test_a_right_that_is_withdrawn_takes_list_and_replays_with_it(
    call: Call, callers: Callers, done: Execution, name: str
) -> None:
    replay = replayed(call, callers.alice, done)
    other = "record/app/elsewhere"
    alice = ApiToken.objects.get(name="alice")
    alice.streams.add(Stream.objects.get(name=other))
    kept = call(callers.alice, "POST", "submit", question(other)).json()["result_id"]
    both = call(callers.alice, "GET", "list").json()["queries"]
    assert [one["result_id"] for one in both] == [kept, done.pk]
    assert call(callers.alice, "GET", f"replay/{replay.pk}").status_code == 200
    alice.streams.remove(Stream.objects.get(name=name))
    left = call(callers.alice, "GET", "list?limit=1").json()
    assert ([one["result_id"] for one in left["queries"]], left["next"]) == ([kept], None)
    gone = call(callers.alice, "GET", f"replay/{replay.pk}")
    assert (gone.status_code, gone.json()["error_code"]) == (404, "query_not_found")
    assert call(callers.admin, "GET", f"replay/{replay.pk}").status_code == 200


def test_the_deepest_question_about_a_sensitive_stream_is_answered_and_audited(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    """The descriptor nests as deep as an event may; the record of access holds its text."""
    Stream.objects.filter(name=name).update(sensitivity="high")
    value = canonical_json.parse("[" * 60 + "]" * 60)
    predicate: Value = {"path": "payload.n", "op": "eq", "value": value}
    source = question(name, filter={"payload": [predicate]})
    with pytest.raises(JsonError):
        canonical_json.encode([source])  # One level more is too much for any payload.
    taken = call(callers.alice, "POST", "submit", source)
    assert taken.status_code == 202, taken.content
    query_desk.complete(asked, taken.json()["result_id"])
    said = json.loads(AuthoredEvent.objects.get(event_type="query.audit.v1").payload_text)
    assert isinstance(said["query_parameters"], str)
    assert json.loads(said["query_parameters"])["filter"]["payload"] == [predicate]


def test_the_result_of_a_failed_query_is_a_conflict_whatever_ended_it(
    call: Call, callers: Callers, name: str
) -> None:
    for code in (QueryCode.INTERNAL_ERROR, QueryCode.COVERAGE_PRUNED, QueryCode.CANCELLED):
        taken = call(callers.alice, "POST", "submit", question(name)).json()
        execution = Execution.objects.get(pk=taken["result_id"])
        services.fail(execution, code, "as it was")
        for path in ("result/{}", "result/{}/rows.json", "evidence/{}", "result/{}/download"):
            answer = call(callers.alice, "GET", path.format(execution.pk))
            assert (answer.status_code, answer.json()["error_code"]) == (409, code.value)


def test_an_id_whose_rows_are_gone_still_names_its_query(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    source = question(name, query_id="q-kept")
    first = call(callers.alice, "POST", "submit", source).json()
    done = query_desk.complete(asked, first["result_id"])
    again = call(callers.alice, "POST", "submit", source, Prefer="wait=1")
    assert (again.status_code, again.json()["page"]["total"]) == (200, 12)
    services.forget_rows(done)
    again = call(callers.alice, "POST", "submit", source, Prefer="wait=1")
    assert (again.status_code, again.json()) == (202, {**first, "status": "completed"})
