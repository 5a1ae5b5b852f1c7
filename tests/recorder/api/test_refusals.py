"""Every failure is one JSON object with a stable code [interfaces]."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory
from rest_framework.views import APIView

from config import errors
from hub.errors import ErrorCode, VeenError
from recorder.api_view import ApiView
from recorder.auth import ADMINS
from tests.support.web_bundle import WebBundle, bearer, token

pytestmark = pytest.mark.django_db


class Echo(APIView):
    """Reads a body as every view does."""

    roles: frozenset[str] = ADMINS

    def post(self, request: Request) -> Response:
        data: Any = request.data
        return Response({"got": json.loads(json.dumps(data, default=str))})


class ApiEcho(Echo, ApiView):
    """The same as a route of ours."""


class Fails(APIView):
    roles = ADMINS
    error: Exception = ValueError("secret detail")

    def get(self, request: Request) -> Response:
        raise self.error


def post(body: bytes, content_type: str = "application/json") -> tuple[int, dict[str, Any]]:
    request = APIRequestFactory().generic(
        "POST",
        "/api/x",
        body,  # type: ignore[arg-type]
        content_type,
        headers=bearer(token("admin")),
    )
    answer = Echo.as_view()(request)
    if hasattr(answer, "render"):
        answer.render()
    return answer.status_code, json.loads(answer.content)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", ""),
        (b"", None),
        (b"nonsense", ""),
        (b"{} {}", ""),
        (b'{"a":1,"a":2}', "/a"),
        (b'{"x":{"b":1,"b":1}}', "/x/b"),
        (b'{"a":NaN}', "/a"),
        (b'{"a":-Infinity}', "/a"),
        (b'{"a":1e401}', "/a"),
        (rb'{"a":"\ud800"}', "/a"),
        (b'{"a":"\xff"}', ""),
        (b"[" * 65 + b"]" * 65, "/0" * 64),
        (b"[" * 200_000, "/0" * 64),
    ],
)
def test_a_body_that_is_not_strict_json_is_refused_with_its_place(
    body: bytes, pointer: str | None
) -> None:
    status, found = post(body)
    if pointer is None:
        assert (status, found) == (200, {"got": {}})
        return
    assert (status, found["error_code"]) == (400, "invalid_json")
    assert [one["pointer"] for one in found["details"]] == [pointer]
    assert found["details"][0]["reason"]


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_a_body_of_unknown_length_is_read_too(length: int) -> None:
    """As gunicorn gives a chunked body to an application."""
    request = APIRequestFactory().post("/api/x", headers=bearer(token("admin")))
    request.META |= {
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": "",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input": BytesIO(b'{"a":"' + b"x" * length + b'"}'),
        "wsgi.input_terminated": True,
    }
    answer = ApiEcho.as_view()(request)
    if length > 1024 * 1024:
        assert json.loads(answer.content)["error_code"] == "invalid_parameter"
    else:
        assert answer.data == {"got": {"a": "x" * length}}


def test_numbers_arrive_exactly() -> None:
    status, found = post(b'{"a":12345678901234567890123,"b":0.1,"c":2.0}')
    assert status == 200
    assert found["got"] == {"a": 12345678901234567890123, "b": "0.1", "c": 2}


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/json",
    ],
)
def test_only_json_is_read(content_type: str) -> None:
    status, found = post(b'{"a":1}', content_type)
    assert (status, found["error_code"]) == (415, "unsupported_media_type")


def test_a_charset_beside_the_type_changes_nothing() -> None:
    assert post(b"{}", "Application/JSON; charset=utf-8")[0] == 200


def test_a_body_over_the_bound_is_refused_before_it_is_read_whole() -> None:
    status, found = post(b'"' + b"x" * 2_000_000 + b'"')
    assert (status, found["error_code"]) == (400, "invalid_parameter")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_another_method_is_405_and_names_those_there_are(
    web: Client, bundle: WebBundle, method: str
) -> None:
    answer = web.generic(method, "/api/record/streams", headers=bearer(token("admin")))
    assert (answer.status_code, answer.json()["error_code"]) == (405, "method_not_allowed")
    assert answer["Allow"] == "GET"


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/nothing", "/api/record/streams/", "/api/record"]
)
def test_an_unknown_route_is_404_in_json(web: Client, path: str) -> None:
    answer = web.get(path)
    assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found")


def test_every_refusal_carries_the_request_id_of_its_answer(web: Client) -> None:
    answer = web.get("/api/record/streams")
    assert answer.json()["request_id"] == answer["Veen-Request-Id"]


@pytest.mark.parametrize("path", ["/api/record/streams", "/api/v1/record/streams", "/api/schema"])
def test_every_answer_says_the_version_of_the_api(web: Client, path: str) -> None:
    assert web.get(path)["Veen-Api-Version"] == "1"


def test_whatever_is_accepted_an_error_is_never_html(web: Client) -> None:
    answer = web.get("/api/record/streams", headers={"Accept": "text/html"})
    assert answer["Content-Type"] == "application/json"
    assert answer.status_code == 401


def test_problem_json_is_the_same_object_and_more(web: Client) -> None:
    accept = {"Accept": "application/problem+json"}
    answer = web.get("/api/record/streams", headers=accept)
    assert answer["Content-Type"] == "application/problem+json"
    found = answer.json()
    assert found["error_code"] == "unauthorized"
    assert (found["status"], found["title"]) == (401, "Unauthorized")
    assert found["detail"] == found["message"]
    assert found["type"] == "urn:veen:error:unauthorized"


def _request() -> HttpRequest:
    return RequestFactory().get("/api/x")


@pytest.mark.parametrize(
    ("code", "status", "error_code"),
    [
        (ErrorCode.UNREACHABLE, 503, "hub_unavailable"),
        (ErrorCode.STORE, 503, "hub_unavailable"),
        (ErrorCode.BUSY, 503, "hub_unavailable"),
        (ErrorCode.NOTFOUND, 404, "not_found"),
        (ErrorCode.POLICY, 403, "forbidden"),
        (ErrorCode.RATE, 429, "rate_limited"),
        (ErrorCode.DAMAGE, 500, "internal_error"),
        (ErrorCode.TRUST, 500, "internal_error"),
    ],
)
def test_a_refusal_of_the_log_has_a_code_of_the_api(
    code: ErrorCode, status: int, error_code: str
) -> None:
    answer = errors.refusal(_request(), VeenError(code, "detail of ours"))
    found = json.loads(answer.content)
    assert (answer.status_code, found["error_code"]) == (status, error_code)
    assert ("Retry-After" in answer) == (status == 503)
    if status >= 500:
        assert "detail of ours" not in answer.content.decode()


def test_a_fault_of_ours_is_logged_and_says_nothing(client: Client) -> None:
    request = APIRequestFactory().get("/api/x", headers=bearer(token("admin")))
    with pytest.raises(ValueError, match="secret detail"):
        Fails.as_view()(request)  # Django's handler turns it into the 500 below
    answer = errors.server_error(_request())
    assert json.loads(answer.content)["error_code"] == "internal_error"
    assert "secret" not in answer.content.decode()
