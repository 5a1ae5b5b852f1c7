from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from hub.canonical_json import Value
from hub.models import Finding
from queryapi import queries, services
from queryapi.contract.codes import QueryCode
from queryapi.models import Execution, Replay
from recorder.models import ApiToken, AuthoredEvent, Stream
from tests.queryapi.api.conftest import Call, Callers
from tests.queryapi.api.test_submit import question
from tests.support import query_desk
from tests.support.web_bundle import WebBundle

pytestmark = pytest.mark.django_db


@pytest.fixture
def done(call: Call, callers: Callers, asked: WebBundle, name: str) -> Execution:
    taken = call(callers.alice, "POST", "submit", question(name, evidence={"mode": "full"})).json()
    return query_desk.complete(asked, taken["result_id"])


def test_pages_are_slices_of_one_hashed_whole(
    call: Call, callers: Callers, done: Execution
) -> None:
    whole = call(callers.alice, "GET", f"result/{done.result_id}/rows.json").getvalue()
    digest = json.loads(done.digest)
    assert sha256(whole).hexdigest() == digest["rows_hash"]
    rows = json.loads(whole)
    collected = []
    for offset in range(0, 14, 5):
        found = call(
            callers.alice, "GET", f"result/{done.result_id}?offset={offset}&limit=5"
        ).json()
        assert found["result_digest"] == digest
        assert found["record_event"]["stream"] == "record/query/results"
        assert found["page"]["total"] == 12
        assert found["page"]["has_more"] is (offset + 5 < 12)
        collected += found["rows"]
    assert collected == rows


def test_a_page_links_to_the_next_as_long_as_there_is_one(
    call: Call, callers: Callers, done: Execution
) -> None:
    path: str | None = f"result/{done.result_id}?limit=5"
    sizes = []
    while path is not None:
        answer = call(callers.alice, "GET", path)
        sizes.append(len(answer.json()["rows"]))
        link = answer.headers.get("Link")
        path = None if link is None else link.partition("/api/query/")[2].partition(">")[0]
        assert link is None or link.endswith('>; rel="next"')
    assert sizes == [5, 5, 2]


@pytest.mark.parametrize("path", ["result/{}?limit=3", "result/{}/rows.json", "evidence/{}"])
def test_an_answer_may_be_kept_by_its_asker_and_carries_its_hash(
    call: Call, callers: Callers, done: Execution, path: str
) -> None:
    answer = call(callers.alice, "GET", path.format(done.result_id))
    body = answer.getvalue() if answer.streaming else answer.content
    assert answer["Cache-Control"] == "private, immutable"
    assert answer["Repr-Digest"] == f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def test_evidence_is_the_bytes_that_evidence_hash_covers(
    call: Call, callers: Callers, done: Execution
) -> None:
    found = call(callers.alice, "GET", f"evidence/{done.result_id}").getvalue()
    assert sha256(found).hexdigest() == json.loads(done.digest)["evidence_hash"]


@pytest.mark.parametrize("path", ["result/{}", "result/{}/rows.json", "evidence/{}",
                                  "result/{}/download?format=csv"])  # fmt: skip
def test_an_answer_that_is_held_is_not_sent_again(
    call: Call, callers: Callers, done: Execution, path: str
) -> None:
    first = call(callers.alice, "GET", path.format(done.result_id))
    assert first.status_code == 200
    for held in (first["ETag"], f'"other", W/{first["ETag"]}', "*"):
        again = call(callers.alice, "GET", path.format(done.result_id), **{"If-None-Match": held})
        assert (again.status_code, again.content) == (304, b"")


def test_a_result_that_is_not_ready_says_when_to_come_back(
    call: Call, callers: Callers, name: str
) -> None:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    for path in ("result/{}", "result/{}/rows.json", "evidence/{}", "result/{}/download"):
        answer = call(callers.alice, "GET", path.format(taken["result_id"]))
        assert (answer.status_code, answer.json()["error_code"]) == (409, "result_not_ready")
        assert int(answer["Retry-After"]) > 0


def test_a_failed_query_gives_its_code_and_message(call: Call, callers: Callers, name: str) -> None:
    taken = call(callers.alice, "POST", "submit", question(name)).json()
    execution = Execution.objects.get(pk=taken["result_id"])
    services.fail(execution, QueryCode.EVIDENCE_FAILED, f"{name} 7: signature does not verify")
    answer = call(callers.alice, "GET", f"result/{taken['result_id']}")
    assert (answer.status_code, answer.json()["error_code"]) == (409, "evidence_failed")
    status = call(callers.alice, "GET", f"status/{taken['result_id']}").json()
    assert status["status"] == "failed"
    assert status["message"] == f"{name} 7: signature does not verify"


PATHS = (
    "status/{r}", "result/{r}", "result/{r}/rows.json", "result/{r}/download", "evidence/{r}",
    "descriptor/{q}",
)  # fmt: skip


def test_others_answers_do_not_exist_for_a_reader(
    call: Call, callers: Callers, done: Execution
) -> None:
    guesses = {"r": "r-" + "00" * 32, "q": "q-guess"}
    for path in PATHS:
        real = path.format(r=done.result_id, q=done.query_id)
        for who in (callers.bob, callers.stranger):
            theirs, nothing = call(who, "GET", real), call(who, "GET", path.format(**guesses))
            assert theirs.status_code == nothing.status_code == 404
            assert theirs.json()["error_code"] == nothing.json()["error_code"] == "query_not_found"
            assert theirs.json()["message"] == nothing.json()["message"]
        assert call(callers.admin, "GET", real).status_code == 200
    assert call(callers.bob, "POST", f"cancel/{done.result_id}").status_code == 404


def test_whoever_lost_the_right_to_a_stream_lost_the_answers_about_it(
    call: Call, callers: Callers, done: Execution, name: str
) -> None:
    assert call(callers.alice, "GET", f"result/{done.result_id}").status_code == 200
    ApiToken.objects.get(name="alice").streams.remove(Stream.objects.get(name=name))
    for path in PATHS:
        real = path.format(r=done.result_id, q=done.query_id)
        assert call(callers.alice, "GET", real).status_code == 404


def test_a_list_is_one_s_own_newest_first_and_page_by_page(
    call: Call, callers: Callers, name: str
) -> None:
    ids = [call(callers.alice, "POST", "submit", question(name)).json()["result_id"]
           for _ in range(5)]  # fmt: skip
    call(callers.bob, "POST", "submit", question(name))
    seen, after = [], ""
    while True:
        found = call(callers.alice, "GET", f"list?limit=2{after}").json()
        seen += [one["result_id"] for one in found["queries"]]
        if found["next"] is None:
            break
        after = f"&after={found['next']}"
    assert seen == ids[::-1]
    assert len(call(callers.admin, "GET", "list").json()["queries"]) == 6
    assert call(callers.alice, "GET", "list?after=r-1").status_code == 404


@pytest.mark.parametrize("query", ["offset=-1", "limit=0", "limit=10001", "offset=x", "page=1",
                                   "offset=1&offset=2", "offset=99999999999999999999"])  # fmt: skip
def test_a_parameter_that_makes_no_sense_is_refused(
    call: Call, callers: Callers, done: Execution, query: str
) -> None:
    answer = call(callers.alice, "GET", f"result/{done.result_id}?{query}")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "invalid_parameter")


def download(call: Call, who: str, result_id: str, name: str) -> bytes:
    answer = call(who, "GET", f"result/{result_id}/download?format={name}")
    assert answer.status_code == 200, answer.content
    assert answer["Content-Disposition"] == f'attachment; filename="{result_id}.{name}"'
    assert json.loads(answer["Veen-Result-Digest"])["result_id"] == result_id
    return bytes(answer.getvalue())


def test_every_format_holds_the_same_rows(
    call: Call, callers: Callers, done: Execution, asked: WebBundle
) -> None:
    rows = json.loads(download(call, callers.alice, done.result_id, "json"))
    lines = download(call, callers.alice, done.result_id, "ndjson").splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = list(csv.DictReader(io.StringIO(
        download(call, callers.alice, done.result_id, "csv").decode(), newline="")))  # fmt: skip
    assert [{key: int(value) for key, value in row.items()} for row in table] == rows
    parquet = download(call, callers.alice, done.result_id, "parquet")
    found = pq.read_table(io.BytesIO(parquet))
    assert found.schema.metadata[b"veen.result_digest"] == done.digest.encode()
    assert found["hub_commit_seq"].to_pylist() == [row["hub_commit_seq"] for row in rows]
    assert found["payload.n"].to_pylist() == [str(row["payload.n"]) for row in rows]


def test_a_spreadsheet_executes_nothing(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    stream = asked.streams[name]
    evil = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "|x"]
    payloads: list[Value] = [*evil, -5, None, {"a": 1}, [1], 'quo"te,', True]
    asked.log.commit([stream.event("type.0", "s", one) for one in payloads])
    source = question(name, projection=["payload"], filter={"subject_id": "s"})
    taken = call(callers.alice, "POST", "submit", source).json()
    query_desk.complete(asked, taken["result_id"])
    text = download(call, callers.alice, taken["result_id"], "csv").decode()
    cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]
    assert cells[: len(evil)] == [f"'{one}" for one in evil]
    assert cells[len(evil) :] == ["-5", "", '{"a":1}', "[1]", 'quo"te,', "true"]


def test_rows_that_are_no_longer_kept_leave_digest_and_descriptor(
    call: Call, callers: Callers, done: Execution
) -> None:
    assert not queries.expired(timezone.now() - timedelta(days=1)).exists()
    assert [one.pk for one in queries.expired(timezone.now() + timedelta(days=1))] == [done.pk]
    services.forget_rows(done)
    answer = call(callers.alice, "GET", f"result/{done.result_id}")
    assert (answer.status_code, answer.json()["error_code"]) == (404, "query_not_found")
    assert call(callers.alice, "GET", f"status/{done.result_id}").json()["status"] == "completed"
    assert call(callers.alice, "GET", f"descriptor/{done.query_id}").status_code == 200


def test_access_to_a_sensitive_stream_is_recorded_as_such(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    Stream.objects.filter(name=name).update(sensitivity="high", label_class="personal-data")
    source = question(name, meta={"reason": "incident 17", "purpose_code": "audit"})
    taken = call(callers.alice, "POST", "submit", source).json()
    query_desk.complete(asked, taken["result_id"])
    row = AuthoredEvent.objects.get(event_type="query.audit.v1")
    assert row.stream == "record/query/audit/executions"
    found = json.loads(row.payload_text)
    assert found["requester_identity"] == "a1" * 32
    assert found["resource_identifier"] == name
    assert found["resource_class"] == "personal-data"
    assert found["purpose_code"] == "audit"
    digest = Execution.objects.get(pk=taken["result_id"]).digest
    assert found["result_digest"] == sha256(digest.encode()).hexdigest()
    assert found["query_parameters"]["projection"] == ["hub_commit_seq", "payload.n"]


def replayable(done: Execution) -> dict[str, Value]:
    return {"descriptor": json.loads(done.descriptor), "result_digest": json.loads(done.digest)}


def test_a_replay_is_taken_and_seen_by_its_asker_only(
    call: Call, callers: Callers, done: Execution
) -> None:
    taken = call(callers.bob, "POST", "replay", replayable(done))
    assert taken.status_code == 202, taken.content
    path = f"replay/{taken.json()['replay_id']}"
    found = call(callers.bob, "GET", path).json()
    assert (found["status"], found["local_digest"], found["equal"]) == ("pending", None, None)
    assert call(callers.alice, "GET", path).status_code == 404
    assert call(callers.bob, "GET", f"replay/{uuid4()}").status_code == 404


def test_a_replay_needs_the_right_to_all_it_reads_whoever_asked_first(
    call: Call, callers: Callers, done: Execution, name: str
) -> None:
    refused = call(callers.stranger, "POST", "replay", replayable(done))
    assert (refused.status_code, refused.json()["error_code"]) == (403, "forbidden_scope")
    body = replayable(done)
    text = json.dumps(body).replace(name, "record/app/nowhere")
    unknown = call(callers.stranger, "POST", "replay", text.encode())
    assert unknown.json()["error_code"] == "forbidden_scope"
    relabelled = json.dumps(body).replace('"label": "', '"label": "00', 1)
    assert call(callers.bob, "POST", "replay", relabelled.encode()).status_code == 400


def test_evidence_that_fails_in_a_replay_is_a_finding_too(
    call: Call, callers: Callers, done: Execution
) -> None:
    taken = call(callers.bob, "POST", "replay", replayable(done)).json()
    replay = Replay.objects.get(pk=taken["replay_id"])
    assert services.start_replay(replay, "w-1", timedelta(minutes=1))
    said = "record/app/x 7: the RECEIPT is of another MSG"
    assert services.fail_replay(replay, QueryCode.EVIDENCE_FAILED, said, holder="w-1")
    found = Finding.objects.get(code="evidence_failed")
    assert (found.severity, found.detail) == (Finding.Severity.CRITICAL, said)
    assert found.object == f"replay {taken['replay_id']}"
    path = f"replay/{taken['replay_id']}"
    assert call(callers.bob, "GET", path).json()["error_code"] == "evidence_failed"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"[]", ""), (b"{}", "/result_digest"), (b'{"more":1}', "/more"),
        (b'{"descriptor":1,"descriptor":1}', "/descriptor"), (b'{"a":NaN}', "/a"),
    ],
)  # fmt: skip
def test_a_replay_of_nothing_recorded_is_refused(
    call: Call, callers: Callers, body: bytes, pointer: str
) -> None:
    answer = call(callers.alice, "POST", "replay", body)
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == pointer


def test_flaws_of_a_replayed_descriptor_are_told_in_the_request(
    call: Call, callers: Callers, done: Execution
) -> None:
    body = replayable(done)
    assert isinstance(body["descriptor"], dict)
    body["descriptor"]["limit"] = 1
    answer = call(callers.alice, "POST", "replay", body)
    assert answer.json()["details"][0]["pointer"] == "/descriptor/limit"
