"""Acts over HTTP: asked for, executed by an author, recorded, and seen to be done [SDR0 3.2.3]."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django import Settings as DjangoSettings

from hub.server.config import HubConfig
from recorder import api_admin
from recorder.models import Act, ApiToken, Producer, Stream
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub
from tests.support.office import Office, opened
from tests.support.web_bundle import bearer, producer, token

ACTS = "/api/admin/acts"


@pytest.fixture(scope="module")
def acts_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("acts") / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def office(
    acts_hub: LiveHub, tmp_path: Path, transactional_db: None, settings: DjangoSettings
) -> Iterator[Office]:
    settings.VEEN_AUTHOR_SOCKET = tmp_path / "author.sock"
    with opened(acts_hub, tmp_path) as made:
        made.found_changes()
        yield made


@pytest.fixture
def author(office: Office, monkeypatch: pytest.MonkeyPatch) -> Office:
    """An office whose author is at work the moment it is woken, in the thread that wakes it."""
    monkeypatch.setattr("recorder.services._wake", office.run)
    return office


def ask(web: Client, text: str, body: Any, status: int = 202) -> dict[str, Any]:
    answer = web.post(ACTS, json.dumps(body), "application/json", headers=bearer(text))
    assert answer.status_code == status, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_an_act_is_taken_then_done_and_recorded(web: Client, author: Office) -> None:
    text = token("admin", "ops")
    name = f"record/app/{uuid4().hex[:8]}"
    body = {"verb": "stream.create", "args": {"name": name}, "reason": "a new service"}
    taken = ask(web, text, body)
    assert taken["state"] == "pending"
    assert set(taken) == {"act_id", "state"}
    done = web.get(f"{ACTS}/{taken['act_id']}?wait=20", headers=bearer(text)).json()
    assert (done["state"], done["actor"], done["reason"]) == ("done", "token:ops", "a new service")
    assert Stream.objects.filter(name=name).exists()
    [read] = [one for one in author.read() if one.payload["act_id"] == taken["act_id"]]
    assert (read.event.event_type, read.event.subject_id) == ("stream.created", "token:ops")


def test_the_text_of_a_token_is_shown_once_and_stored_nowhere(web: Client, author: Office) -> None:
    text = token("admin")
    body = {"verb": "token.create", "args": {"role": "reader", "name": "audit", "all": True}}
    taken = ask(web, text, body)
    made = taken["token"]
    web.get(f"{ACTS}/{taken['act_id']}?wait=20", headers=bearer(text))
    assert web.get("/api/record/manifests/x", headers=bearer(made)).status_code == 404
    for path in (f"{ACTS}/{taken['act_id']}", ACTS, "/api/admin/tokens"):
        assert made not in web.get(path, headers=bearer(text)).content.decode()


def test_a_checkpoint_on_demand_covers_every_stream(web: Client, author: Office) -> None:
    text = token("admin")
    answer = web.post(
        "/api/record/checkpoints", {"reason": "drill"}, "application/json", headers=bearer(text)
    )
    assert answer.status_code == 201, answer.content
    found = answer.json()
    assert set(found) == {"manifest_id", "created_at", "streams"}
    [changes] = [one for one in found["streams"] if one["name"] == "record/infrastructure/changes"]
    assert set(changes) == {"name", "upto_seq", "mmr_root"}
    assert changes["upto_seq"] >= 1
    assert author.read()[-1].event.event_type == "checkpoint.made"
    for body in (b"{}", b""):
        answer = web.generic(
            "POST",
            "/api/record/checkpoints",
            body,
            content_type="application/json",
            headers=bearer(text),
        )
        assert answer.status_code == 201


def test_without_an_author_a_checkpoint_is_promised_and_not_pretended(
    web: Client, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_admin, "CHECKPOINT_WAIT_S", 0.0)
    answer = web.post(
        "/api/record/checkpoints", {}, "application/json", headers=bearer(token("admin"))
    )
    assert (answer.status_code, answer.json()["error_code"]) == (503, "hub_unavailable")
    assert Act.objects.filter(verb="checkpoint.now", state="pending").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/verb"]),
        ({"verb": 5, "args": []}, ["/verb", "/args"]),
        ({"verb": "stream.create", "reason": 1}, ["/reason"]),
        ({"verb": "stream.create", "what": 1}, ["/what"]),
        ({"verb": "stream.explode"}, ["/verb"]),
        ({"verb": "stream.create_reserved"}, ["/verb"]),
        ({"verb": "stream.create", "args": {"nom": "x"}}, ["/args/name"]),
        ([], [""]),
        ("x", [""]),
    ],
)
def test_a_senseless_act_is_refused_with_its_places(
    web: Client, body: Any, pointers: list[str]
) -> None:
    found = ask(web, token("admin"), body, 400)
    assert found["error_code"] == "invalid_parameter"
    assert [one["pointer"] for one in found["details"]] == pointers
    assert not Act.objects.exists()


@pytest.mark.django_db
def test_what_a_policy_forbids_is_forbidden_and_leaves_no_act(web: Client) -> None:
    body = {"verb": "stream.create", "args": {"name": "record/query/own"}}
    assert ask(web, token("admin"), body, 403)["error_code"] == "forbidden"
    assert not Act.objects.exists()


@pytest.mark.django_db
def test_an_unknown_act_and_a_wrong_wait_are_refused(web: Client) -> None:
    text = token("admin")
    answer = web.get(f"{ACTS}/{uuid4()}", headers=bearer(text))
    assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found")
    assert web.get(f"{ACTS}/nonsense", headers=bearer(text)).status_code == 404
    for wait in ("x", "-1", "31", "1.5", "9" * 400):
        answer = web.get(f"{ACTS}/{uuid4()}", {"wait": wait}, headers=bearer(text))
        assert (answer.status_code, answer.json()["error_code"]) == (400, "invalid_parameter")


def _fill(count: int) -> None:
    now = timezone.now()
    for number in range(count):
        Stream.objects.create(
            name=f"record/app/s{number:02}", label=f"{number:064x}", label_class="log",
            sensitivity="low", retention_hint=315_360_000, event_bytes_max=100, created_at=now,
        )  # fmt: skip
        producer(f"p{number}", f"record/app/s{number:02}")
        Act.objects.create(verb="stream.create", args={}, actor="token:x", created_at=now)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "key", "count"),
    [
        ("streams", "name", 7),
        ("producers", "id", 7),
        ("acts", "act_id", 7),
        ("tokens", "token_id", 3),
        ("readers", "name", 0),
    ],
)
def test_a_list_comes_in_pages_that_miss_nothing(
    web: Client, name: str, key: str, count: int
) -> None:
    _fill(7)
    text = token("admin")
    for number in range(2):
        token("reader", f"r{number}", streams=("record/app/s01",))
    seen: list[Any] = []
    after: Any = None
    while True:
        query = {"limit": 2} | ({} if after is None else {"after": after})
        found = web.get(f"/api/admin/{name}", query, headers=bearer(text)).json()
        seen += [one[key] for one in found[name]]
        after = found["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == count
    whole = web.get(f"/api/admin/{name}", headers=bearer(text)).json()[name]
    assert [one[key] for one in whole] == seen


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["streams", "producers", "acts", "tokens", "readers"])
def test_a_list_costs_the_same_queries_for_any_length(
    web: Client, name: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    text = token("admin")
    ApiToken.objects.update(last_used_at=timezone.now())
    queries = {"streams": 5, "producers": 3, "acts": 2, "tokens": 3, "readers": 2}
    _fill(1)
    with django_assert_num_queries(queries[name]):
        web.get(f"/api/admin/{name}", headers=bearer(text))
    Producer.objects.all().delete()
    Stream.objects.all().delete()
    _fill(40)
    with django_assert_num_queries(queries[name]):
        web.get(f"/api/admin/{name}", headers=bearer(text))


@pytest.mark.django_db
def test_a_wrong_page_is_refused(web: Client) -> None:
    text = token("admin")
    wrong: list[dict[str, str]] = [
        {"after": "x"}, {"after": "\0"}, {"limit": "0"}, {"limit": "1001"}, {"offset": "5"},
    ]  # fmt: skip
    for name in ("streams", "producers", "tokens", "acts"):
        for query in wrong:
            answer = web.get(f"/api/admin/{name}", query, headers=bearer(text))
            assert (answer.status_code, name, query) == (400, name, query)
            assert answer.json()["error_code"] == "invalid_parameter"
