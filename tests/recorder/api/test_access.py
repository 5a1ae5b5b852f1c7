"""Who opens what: every route, every role, every cell [SDR0 3.2.3]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from recorder import api_admin
from recorder.models import ApiToken
from tests.support.web_bundle import WebBundle, bearer, producer, token

pytestmark = pytest.mark.django_db

ALLOWED: dict[tuple[str, str], set[str]] = {
    ("GET", "/api/record/replay"): {"reader", "admin"},
    ("GET", "/api/record/streams"): {"producer", "reader", "admin"},
    ("GET", "/api/record/manifests/latest"): {"reader", "admin"},
    ("POST", "/api/record/checkpoints"): {"admin"},
    ("GET", "/api/admin/acts"): {"admin"},
    ("POST", "/api/admin/acts"): {"admin"},
    ("GET", f"/api/admin/acts/{UUID(int=0)}"): {"admin"},
    ("GET", "/api/admin/streams"): {"admin"},
    ("GET", "/api/admin/producers"): {"admin"},
    ("GET", "/api/admin/tokens"): {"admin"},
    ("GET", "/api/admin/readers"): {"admin"},
    ("GET", "/api/admin/findings"): {"admin"},
    ("POST", "/api/query/submit"): {"reader", "admin"},
    ("GET", "/api/query/status/r-1"): {"reader", "admin"},
    ("GET", "/api/query/result/r-1"): {"reader", "admin"},
    ("GET", "/api/query/result/r-1/rows.json"): {"reader", "admin"},
    ("GET", "/api/query/result/r-1/download"): {"reader", "admin"},
    ("GET", "/api/query/evidence/r-1"): {"reader", "admin"},
    ("GET", "/api/query/descriptor/q-1"): {"reader", "admin"},
    ("POST", "/api/query/cancel/r-1"): {"reader", "admin"},
    ("GET", "/api/query/list"): {"reader", "admin"},
    ("POST", "/api/query/replay"): {"reader", "admin"},
    ("GET", f"/api/query/replay/{UUID(int=2)}"): {"reader", "admin"},
    ("GET", "/api/admin/lake-jobs"): {"admin"},
    ("GET", f"/api/admin/lake-jobs/{UUID(int=1)}"): {"admin"},
    ("POST", f"/api/admin/lake-jobs/{UUID(int=1)}/cancel"): {"admin"},
}
OPEN = {"/api/schema", "/api/docs"}  # they say nothing about anybody
FORWARDED = {"/api/record/events"}  # the gateway judges the token


@pytest.fixture(autouse=True)
def _nobody_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may ask is the question here, not what comes of it."""
    monkeypatch.setattr(api_admin, "CHECKPOINT_WAIT_S", 0.0)


@pytest.fixture
def tokens(bundle: WebBundle, name: str) -> dict[str, str]:
    bundle.stream(name, "a.b")
    bundle.record(name, 1)
    bundle.log.checkpoint()
    producer("billing", name)
    return {
        "producer": token("producer", producer_name="billing"),
        "reader": token("reader", streams=(name,)),
        "admin": token("admin"),
    }


def ask(web: Client, method: str, path: str, text: str | None, name: str = "") -> Any:
    query = {"stream": name} if path.endswith("replay") else {}
    headers = {} if text is None else bearer(text)
    return web.generic(
        method,
        path,
        b"{}" if method == "POST" else b"",
        content_type="application/json",
        query_params=query,
        headers=headers,
    )


@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED))
@pytest.mark.parametrize("role", ["producer", "reader", "admin"])
def test_a_role_opens_its_routes_and_no_others(  # noqa: PLR0917
    web: Client, tokens: dict[str, str], name: str, method: str, path: str, role: str
) -> None:
    answer = ask(web, method, path, tokens[role], name)
    if role in ALLOWED[method, path]:
        assert answer.status_code not in (401, 403), answer.getvalue()
    else:
        assert answer.status_code == 403
        assert answer.json()["error_code"] == "forbidden"


@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED))
@pytest.mark.parametrize("given", ["none", "wrong", "empty", "scheme", "spaces", "long", "bytes"])
def test_without_a_valid_token_nothing_opens(
    web: Client, tokens: dict[str, str], method: str, path: str, given: str
) -> None:
    text = tokens["admin"]
    header: dict[str, str] = {
        "none": {},
        "wrong": {"Authorization": f"Bearer {text}x"},
        "empty": {"Authorization": "Bearer "},
        "scheme": {"Authorization": f"Basic {text}"},
        "spaces": {"Authorization": f"Bearer {text} {text}"},
        "long": {"Authorization": "Bearer " + "x" * 4000},
        "bytes": {"Authorization": "Bearer \xff\xfe"},
    }[given]  # fmt: skip
    answer = web.generic(method, path, headers=header)
    assert answer.status_code == 401
    assert answer.json()["error_code"] == "unauthorized"
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_token_in_the_query_string_is_not_one(web: Client, tokens: dict[str, str]) -> None:
    for key in ("token", "access_token", "Authorization"):
        answer = web.get("/api/record/streams", {key: tokens["admin"]})
        assert answer.status_code == 401


def test_a_session_of_the_console_opens_no_route_of_the_api(
    tokens: dict[str, str], admin_client: Client
) -> None:
    assert admin_client.get("/api/record/streams").status_code == 401


def test_a_revoked_token_opens_nothing_from_then_on(web: Client, tokens: dict[str, str]) -> None:
    assert ask(web, "GET", "/api/record/streams", tokens["admin"]).status_code == 200
    ApiToken.objects.filter(role="admin").update(revoked_at=timezone.now())
    assert ask(web, "GET", "/api/record/streams", tokens["admin"]).status_code == 401


def test_using_a_token_is_noted_without_a_write_for_each_request(
    web: Client, tokens: dict[str, str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    before = timezone.now()
    ask(web, "GET", "/api/record/manifests/latest", tokens["reader"])
    row = ApiToken.objects.get(role="reader")
    assert row.last_used_at is not None
    assert row.last_used_at >= before
    with django_assert_num_queries(1):  # the lookup alone
        ask(web, "GET", "/api/record/manifests/latest", tokens["reader"])
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    ask(web, "GET", "/api/record/manifests/latest", tokens["reader"])
    row.refresh_from_db()
    assert row.last_used_at >= before


def _routes(patterns: Any, prefix: str = "") -> list[str]:
    found = []
    for one in patterns:
        path = prefix + str(one.pattern)
        if isinstance(one, URLPattern):
            found.append("/" + path)
        else:
            found += _routes(one.url_patterns, path)
    return found


def test_the_matrix_knows_every_route() -> None:
    routes = {one for one in _routes(get_resolver().url_patterns) if one.startswith("/api/")}
    names = {
        "latest": "<str:manifest_id>", "r-1": "<str:result_id>", "q-1": "<str:query_id>",
        str(UUID(int=0)): "<uuid:act_id>", str(UUID(int=1)): "<uuid:job_id>",
        str(UUID(int=2)): "<uuid:replay_id>",
    }  # fmt: skip
    shown = {"/".join(names.get(part, part) for part in one.split("/")) for _, one in ALLOWED}
    bare = {one for one in routes if not one.startswith("/api/v1/")}
    assert bare == shown | OPEN | FORWARDED
    assert {one.replace("/v1/", "/", 1) for one in routes - bare} == bare - OPEN
