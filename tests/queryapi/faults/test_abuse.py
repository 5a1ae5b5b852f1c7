"""What a hostile caller sends is refused with a code, leaves nothing, and tells nothing."""

from __future__ import annotations

import json
import unicodedata

import pytest

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.models import Execution, Replay
from recorder.models import AuthoredEvent, Stream
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

FLAWED = "invalid_query_descriptor"


def spelled(text: str, name: str) -> bytes:
    """A descriptor whose filter is this text, as it is written."""
    start = '{"scope":["' + name + '"],"evidence":{"mode":"none"},"projection":["payload"],'
    start += '"filter":{"payload":[{"path":"payload.n","op":"eq","value":'
    return (start + text + "}]}}").encode(errors="surrogatepass")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("NaN", FLAWED), ("Infinity", FLAWED), ("-Infinity", FLAWED), ("1e401", FLAWED),
        ("-1e401", FLAWED), ("1e999999999999", FLAWED), ("1" + "0" * 401, FLAWED),
        ("1e-401", FLAWED), ('{"a":1,"a":1}', FLAWED), ('"\\ud800"', FLAWED),
        ('{"\\udfff":1}', FLAWED), ("[" * 62 + "]" * 62, FLAWED), ("[" * 5000 + "]" * 5000, FLAWED),
        ("01", "invalid_json"), ("'x'", "invalid_json"), ('"\ud800"', "invalid_json"),
        ("nul", "invalid_json"), ('"\x01"', "invalid_json"), ("1 //x", "invalid_json"),
    ],
)  # fmt: skip
def test_json_that_two_readers_would_read_differently_is_refused(
    call: Call, callers: Callers, name: str, text: str, code: str
) -> None:
    answer = call(callers.alice, "POST", "submit", spelled(text, name))
    assert (answer.status_code, answer.json()["error_code"]) == (400, code), answer.content
    assert not Execution.objects.exists()
    assert not AuthoredEvent.objects.exists()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (str(2**70), str(2**70)), ("1e400", "1" + "0" * 400), ("1e-400", None),
        ("1.0", "1"), ("-0", "0"), ('"\\ud83d\\ude00"', '"\U0001f600"'), ("0e9999", "0"),
    ],
)  # fmt: skip
def test_numbers_and_texts_of_any_size_are_kept_exactly(
    call: Call, callers: Callers, name: str, text: str, kept: str | None
) -> None:
    answer = call(callers.alice, "POST", "submit", spelled(text, name))
    assert answer.status_code == 202, answer.content
    recorded = Execution.objects.get().descriptor
    if kept is not None:
        assert f'"value":{kept}}}' in recorded


def test_ten_megabytes_and_a_hundred_thousand_types_are_refused(
    call: Call, callers: Callers, name: str
) -> None:
    types: list[Value] = [f"type.{n}" for n in range(100_000)]
    for source in (
        canonical_json.encode(question(name, filter={"event_type": types})),
        canonical_json.encode(question(name, meta={"note": "x" * 10_000_000})),
        b'{"scope":' + b" " * 10_000_000 + b"}",
    ):
        answer = call(callers.alice, "POST", "submit", source)
        assert (answer.status_code, answer.json()["error_code"]) == (400, FLAWED)
        replayed = call(callers.alice, "POST", "replay", source)
        assert (replayed.status_code, replayed.json()["error_code"]) == (400, FLAWED)
    few: list[Value] = list(types[:1001])
    answer = call(callers.alice, "POST", "submit", question(name, filter={"event_type": few}))
    assert answer.json()["details"][0]["pointer"] == "/filter/event_type"
    assert not Execution.objects.exists()


def look_alikes(name: str) -> list[str]:
    """Spellings that a lenient reader would take for the same stream."""
    prefix, _, last = name.rpartition("/")
    return [
        f"{name}/", f"/{name}", f"{prefix}//{last}", f"{prefix}/./{last}",
        f"{prefix}/x/../{last}", f"{prefix}/*", f"{prefix}/%", f"{prefix}/_{last[1:]}",
        name.upper(), name.title(), name.replace("a", "\u0430"), name.replace("/", "\uff0f"),
        name.replace("r", "\uff52"), f"{name}\u200b", f"{name}\u0000", f" {name}", f"{name}\n",
        name.replace("/", "\u2215"), f"{name}%00", f"{prefix}%2f{last}", f"{name}\u0301",
    ]  # fmt: skip


def test_a_scope_is_matched_code_point_by_code_point(
    call: Call, callers: Callers, name: str
) -> None:
    unknown = call(callers.alice, "POST", "submit", question("record/app/nowhere")).json()
    for scope in look_alikes(name):
        for who in (callers.alice, callers.admin):
            answer = call(who, "POST", "submit", question(scope))
            assert answer.status_code == 403, repr(scope)
            assert {**answer.json(), "request_id": ""} == {**unknown, "request_id": ""}
    assert not Execution.objects.exists()
    assert call(callers.alice, "POST", "submit", question(name)).status_code == 202


def test_normal_forms_of_one_name_are_two_names(
    call: Call, callers: Callers, asked: WebBundle
) -> None:
    composed = "record/app/stra\u00dfe-\u00e9"
    asked.stream(composed)
    decomposed = unicodedata.normalize("NFD", composed)
    assert call(callers.admin, "POST", "submit", question(composed)).status_code == 202
    assert call(callers.admin, "POST", "submit", question(decomposed)).status_code == 403


def test_one_closed_stream_among_open_ones_closes_the_whole_question(
    call: Call, callers: Callers, name: str
) -> None:
    source = question(name, scope=[name, "record/app/elsewhere"])
    assert call(callers.alice, "POST", "submit", source).json()["error_code"] == "forbidden_scope"
    assert call(callers.admin, "POST", "submit", source).status_code == 202


def test_a_replay_reads_nothing_that_its_caller_may_not_read(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    """A genuine descriptor of the administrator, and one forged to smuggle a stream in."""
    asked.record("record/app/elsewhere", 2)
    both = question(name, scope=[name, "record/app/elsewhere"])
    taken = call(callers.admin, "POST", "submit", both).json()
    done = query_desk.complete(asked, taken["result_id"])
    body = {"descriptor": json.loads(done.descriptor), "result_digest": json.loads(done.digest)}
    assert call(callers.alice, "POST", "replay", body).json()["error_code"] == "forbidden_scope"
    body["descriptor"]["scope"] = [name]  # the coverage still names both
    forged = call(callers.alice, "POST", "replay", body)
    assert (forged.status_code, forged.json()["error_code"]) == (400, FLAWED)
    assert forged.json()["details"][0]["pointer"] == "/descriptor/meta/coverage"
    alone = call(callers.alice, "POST", "submit", question(name)).json()
    own = query_desk.complete(asked, alone["result_id"])
    body = {"descriptor": json.loads(own.descriptor), "result_digest": json.loads(own.digest)}
    closed = Stream.objects.get(name="record/app/elsewhere")
    body["descriptor"]["meta"]["coverage"][0]["label"] = closed.label
    renamed = call(callers.alice, "POST", "replay", body)
    assert (renamed.status_code, renamed.json()["error_code"]) == (403, "forbidden_scope")
    assert not Replay.objects.exists()


@pytest.mark.parametrize("given", [
    {"coverage": []}, {"principal_id": "ad" * 32}, {"coverage": None, "principal_id": "ad" * 32},
])  # fmt: skip
def test_a_caller_cannot_write_what_the_server_writes(
    call: Call, callers: Callers, name: str, given: dict[str, Value]
) -> None:
    answer = call(callers.alice, "POST", "submit", question(name, meta=given))
    assert (answer.status_code, answer.json()["error_code"]) == (400, FLAWED)


@pytest.mark.parametrize("weaker", [
    {"mode": "none"}, {"mode": "spot", "sample_rate": 1}, {"mode": "spot", "sample_rate": 0.5},
])  # fmt: skip
def test_a_question_cannot_be_asked_again_to_prove_less(
    call: Call, callers: Callers, name: str, weaker: Value
) -> None:
    """Its id stands for the stronger one, and that one stays as it was recorded."""
    strong = question(name, query_id="q-strong", evidence={"mode": "full"})
    first = call(callers.alice, "POST", "submit", strong).json()
    weak = call(callers.alice, "POST", "submit", {**strong, "evidence": weaker})
    assert (weak.status_code, weak.json()["error_code"]) == (409, "duplicate_query_id")
    assert call(callers.alice, "POST", "submit", strong).json() == first
    assert '"evidence":{"mode":"full"}' in Execution.objects.get().descriptor


@pytest.mark.parametrize("evidence", [
    None, {}, [], "full", {"mode": None}, {"mode": "FULL"}, {"mode": "full "}, {"mode": ["full"]},
    {"mode": "f\uff55ll"}, {"mode": "full", "sample_rate": 0.1}, {"mode": "none", "sample_rate": 1},
    {"mode": "spot"}, {"mode": "spot", "sample_rate": 2}, {"mode": "spot", "sample_rate": -1},
    {"mode": "spot", "sample_rate": "1"}, {"mode": "full", "skip": True},
], ids=repr)  # fmt: skip
def test_evidence_that_is_not_plainly_said_is_not_guessed(
    call: Call, callers: Callers, name: str, evidence: Value
) -> None:
    """None of these becomes a weaker mode than its asker may have meant."""
    answer = call(callers.alice, "POST", "submit", question(name, evidence=evidence))
    assert (answer.status_code, answer.json()["error_code"]) == (400, FLAWED), answer.content
    assert answer.json()["details"][0]["pointer"].startswith("/evidence")
    assert not Execution.objects.exists()


def test_guessing_ids_tells_nothing_about_another_s_query_in_any_state(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    pending = call(callers.alice, "POST", "submit", question(name)).json()
    failed = call(callers.alice, "POST", "submit", question(name)).json()
    call(callers.alice, "POST", f"cancel/{failed['result_id']}")
    done = call(callers.alice, "POST", "submit", question(name)).json()
    query_desk.complete(asked, done["result_id"])
    paths = [
        ("GET", "status/{r}"), ("GET", "result/{r}"), ("GET", "result/{r}/rows.json"),
        ("GET", "result/{r}/download"), ("GET", "evidence/{r}"), ("GET", "descriptor/{q}"),
        ("POST", "cancel/{r}"),
    ]  # fmt: skip
    for method, path in paths:
        unknown = call(callers.bob, method, path.format(r="r-" + "00" * 32, q="q-none"))
        assert (unknown.status_code, unknown.json()["error_code"]) == (404, "query_not_found")
        expected = {**unknown.json(), "request_id": ""}
        for one in (pending, failed, done):
            real = path.format(r=one["result_id"], q=one["query_id"])
            answer = call(callers.bob, method, real)
            assert answer.status_code == 404
            assert {**answer.json(), "request_id": ""} == expected
            head = {key.lower() for key in answer.headers} - {"etag"}
            assert head == {key.lower() for key in unknown.headers}
    listed = call(callers.bob, "GET", "list").json()
    assert listed["queries"] == []
    after = call(callers.bob, "GET", f"list?after={done['result_id']}")
    none = call(callers.bob, "GET", f"list?after=r-{'00' * 32}")
    assert {**after.json(), "request_id": ""} == {**none.json(), "request_id": ""}
    status = call(callers.alice, "GET", f"status/{pending['result_id']}").json()["status"]
    assert status == "pending"


@pytest.mark.parametrize(
    "text", ["%00", "r-%00", "r-" + "A" * 64, "r-" + "0" * 4000, "%F0%9F%98%80"]
)
def test_what_cannot_be_an_id_is_like_an_id_that_nobody_has(
    call: Call, callers: Callers, text: str
) -> None:
    """A database that takes no NUL must not be asked about one."""
    paths = [("GET", "status/{}"), ("GET", "result/{}"), ("GET", "descriptor/{}"),
             ("POST", "cancel/{}"), ("GET", "evidence/{}"), ("GET", "list?after={}")]  # fmt: skip
    for method, path in paths:
        answer = call(callers.alice, method, path.format(text))
        assert (answer.status_code, answer.json()["error_code"]) == (404, "query_not_found"), path
