"""The description of the API: whole, committed, true, and readable offline [interfaces]."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from pytest_django.live_server_helper import LiveServer

from recorder import api_admin, api_docs
from recorder.api_operations import SENTENCES, Operation
from recorder.codes import RecordCode
from tests.support.web_bundle import WebBundle, bearer, producer, token

ROOT = Path(__file__).resolve().parents[3]
COMMITTED = ROOT / "docs" / "openapi.json"
OURS = ("/api/record/", "/api/admin/", "/api/query/")
PICTURES = os.environ.get("TEST_PICTURES")  # where to put a picture of the page
WORRIES = ("error", "warning")  # a remark, as on a field that wanted the focus, is none
CHROMIUM = next(
    (path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None
)


GENERATOR: Any = SchemaGenerator  # published without types


def generated() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(GENERATOR().get_schema(public=True)))
    return found


def test_the_committed_description_is_the_one_that_is_served() -> None:
    made = "python manage.py spectacular --format openapi-json --file docs/openapi.json"
    assert json.loads(COMMITTED.read_text()) == generated(), f"made by: {made}"


def test_the_description_is_served_to_everybody_as_json(client: Client) -> None:
    answer = client.get("/api/schema")
    assert answer["Content-Type"] == "application/json"
    assert answer.json()["paths"].keys() == generated()["paths"].keys()


def test_every_operation_says_its_refusals_and_has_examples() -> None:
    for path, methods in generated()["paths"].items():
        if not path.startswith(OURS):
            continue
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert {"405", "500"} <= operation["responses"].keys(), where
            if operation["security"] != [{}]:
                assert {"401", "403"} <= operation["responses"].keys(), where
            for status, response in operation["responses"].items():
                for content in response.get("content", {}).values():
                    assert content.get("examples") or content.get("example"), (where, status)
            if "requestBody" in operation:
                assert operation["requestBody"]["content"]["application/json"]["examples"], where


def test_examples_fit_their_own_schemas() -> None:
    jsonschema = pytest.importorskip("jsonschema_rs", reason="comes with schemathesis")
    schema = generated()
    components = {"components": schema["components"]}
    checked = 0
    for path, methods in schema["paths"].items():
        if not path.startswith(OURS):
            continue
        for operation in methods.values():
            contents = [
                content
                for part in (*operation["responses"].values(), operation.get("requestBody", {}))
                for content in part.get("content", {}).values()
            ]
            for content in contents:
                rule = _strict({**content["schema"], **components})
                for example in content.get("examples", {}).values():
                    jsonschema.validator_for(rule).validate(example["value"])
                    checked += 1
    assert checked > 50


def _strict(found: Any) -> Any:
    """OpenAPI 3.0's nullable and exclusiveMinimum in the words of JSON Schema."""
    if isinstance(found, list):
        return [_strict(one) for one in found]
    if not isinstance(found, dict):
        return found
    made = {key: _strict(value) for key, value in found.items() if key != "nullable"}
    if made.get("exclusiveMinimum") is True:
        made["exclusiveMinimum"] = made.pop("minimum")
    return {"anyOf": [made, {"type": "null"}]} if found.get("nullable") is True else made


def test_every_code_of_the_recorder_is_described_and_refused_somewhere() -> None:
    assert set(SENTENCES) == set(RecordCode)
    operations = [one for one in vars(api_docs).values() if isinstance(one, Operation)]
    named = {code for one in operations for code in one.errors}
    common = {
        RecordCode.INVALID_JSON, RecordCode.INVALID_PARAMETER, RecordCode.UNAUTHORIZED,
        RecordCode.FORBIDDEN, RecordCode.METHOD_NOT_ALLOWED, RecordCode.UNSUPPORTED_MEDIA_TYPE,
    }  # fmt: skip
    assert named | common == set(RecordCode)


# --- the description against the code -----------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.slow
@pytest.mark.parametrize("role", ["admin", "reader", "producer"])
def test_no_request_breaks_a_route_or_its_description(
    bundle: WebBundle, name: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """schemathesis: made-up requests, right and wrong ones; no 5xx but the documented 503."""
    monkeypatch.setattr(api_admin, "CHECKPOINT_WAIT_S", 0.0)
    bundle.stream(name, "a.b")
    bundle.record(name, 3)
    bundle.log.checkpoint()
    bundle.ingest(name)
    producer("billing", name)
    text = token(role, all_streams=role == "reader", producer_name="billing")
    schema: Any = schemathesis.openapi.from_dict(generated())
    schema.app = WSGIHandler()
    schema = schema.include(path_regex=r"^/api/(record|admin)/").exclude(path="/api/record/events")
    wanted = [
        schemathesis.checks.CHECKS.get_one(one)
        for one in (
            "status_code_conformance", "content_type_conformance", "response_schema_conformance",
            "response_headers_conformance", "unsupported_method",
        )
    ]  # fmt: skip
    seen: Counter[int] = Counter()

    def judge(case: Any) -> None:
        answer = case.call(headers=bearer(text))
        seen[answer.status_code] += 1
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
        case.validate_response(answer, checks=wanted)

    for found in schema.get_all_operations():
        operation = found.ok()
        modes = [schemathesis.GenerationMode.POSITIVE]
        if operation.query or operation.path_parameters or operation.body:
            modes.append(schemathesis.GenerationMode.NEGATIVE)
        for mode in modes:
            cases = operation.as_strategy(generation_mode=mode)
            BOUNDED(given(case=cases)(judge))()
    assert sum(seen.values()) > 50
    assert {200, 400} <= set(seen) if role == "admin" else {200, 403} <= set(seen)


BOUNDED = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.django_db(transaction=True)
def test_the_try_it_page_works_offline_under_the_strict_policy(live_server: LiveServer) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    complaints: list[str] = []
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in WORRIES else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{live_server.url}/api/docs")
        page.wait_for_selector("#operations-record-replay")
        page.click("#operations-record-streams .opblock-summary-control")
        page.click("text=Try it out")
        page.click("button.execute")
        page.wait_for_selector(".live-responses-table tbody td.response-col_status")
        assert "401" in page.inner_text(".live-responses-table tbody td.response-col_status")
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / "docs.png"))
        browser.close()
    own = [url for url in asked if not url.startswith((live_server.url, "data:", "blob:"))]
    assert own == []
    # The browser itself reports the 401 that was asked for.
    assert [one for one in complaints if "401" not in one] == []
