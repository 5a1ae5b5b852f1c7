"""The HTTP face of every refusal of the web process [style 4: errors; interfaces].

Under /api/ a refusal is one JSON object {error_code, message, details?, request_id}; asked for with
`Accept: application/problem+json` it carries the members of RFC 9457 too. Elsewhere it is a page.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from rest_framework import exceptions as drf
from rest_framework.views import set_rollback

from hub.errors import ERRORS, ErrorCode, VeenError
from recorder.codes import ApiError, RecordCode, RecordError

API: Final = "/api"
PROBLEM_JSON: Final = "application/problem+json"
RETRY_AFTER_S: Final = 5
INTERNAL: Final = "internal_error"

logger = logging.getLogger(__name__)

_SENTENCES: Final = {
    400: ("invalid_parameter", "The request cannot be understood."),
    403: ("forbidden", "This is not allowed for you."),
    404: ("not_found", "There is no such page."),
    500: (INTERNAL, "An error of ours; it was logged with the request id."),
}
# What a refusal of the log or of a tool is called by the API; the rest is a fault of ours.
_API_CODES: Final[Mapping[ErrorCode, RecordCode]] = {
    ErrorCode.NOTFOUND: RecordCode.NOT_FOUND,
    ErrorCode.RATE: RecordCode.RATE_LIMITED,
    ErrorCode.POLICY: RecordCode.FORBIDDEN,
    ErrorCode.UNREACHABLE: RecordCode.HUB_UNAVAILABLE,
    ErrorCode.BUSY: RecordCode.HUB_UNAVAILABLE,
    ErrorCode.STORE: RecordCode.HUB_UNAVAILABLE,
    ErrorCode.LOCKED: RecordCode.HUB_UNAVAILABLE,
}
_FRAMEWORK: Final[tuple[tuple[type[Exception], RecordCode, str], ...]] = (
    (
        drf.NotAuthenticated,
        RecordCode.UNAUTHORIZED,
        "Give a token: Authorization: Bearer followed by the token.",
    ),
    (drf.AuthenticationFailed, RecordCode.UNAUTHORIZED, "This token is not valid."),
    (drf.PermissionDenied, RecordCode.FORBIDDEN, "This token does not open this."),
    (PermissionDenied, RecordCode.FORBIDDEN, "This token does not open this."),
    (drf.NotFound, RecordCode.NOT_FOUND, "There is no such thing."),
    (Http404, RecordCode.NOT_FOUND, "There is no such thing."),
    (drf.MethodNotAllowed, RecordCode.METHOD_NOT_ALLOWED, "This route has other methods."),
    (
        drf.UnsupportedMediaType,
        RecordCode.UNSUPPORTED_MEDIA_TYPE,
        "Send application/json.",
    ),
)


def _is_api(request: HttpRequest) -> bool:
    return f"{request.path}/".startswith(f"{API}/")


def _request_id(request: HttpRequest) -> str:
    return str(request.META.get("VEEN_REQUEST_ID", ""))


def _json(
    request: HttpRequest, status: int, body: dict[str, object], retry_after_s: int | None = None
) -> HttpResponse:
    """The answer, rendered here and not by a framework, so that it is the same everywhere."""
    body["request_id"] = _request_id(request)
    content_type = "application/json"
    if PROBLEM_JSON in request.META.get("HTTP_ACCEPT", ""):
        content_type = PROBLEM_JSON
        body |= {
            "type": f"urn:veen:error:{body['error_code']}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": body["message"],
            "instance": f"urn:veen:request:{body['request_id']}",
        }
    response = HttpResponse(json.dumps(body), status=status, content_type=content_type)
    if retry_after_s is not None:
        response["Retry-After"] = str(retry_after_s)
    return response


def _answer(
    request: HttpRequest, status: int, code: str, message: str, retry_after_s: int | None = None
) -> HttpResponse:
    if _is_api(request):
        return _json(request, status, {"error_code": code, "message": message}, retry_after_s)
    context = {"status": status, "code": code, "message": message}
    context["request_id"] = _request_id(request)
    response = render(request, "console/error.html", context, status=status)
    if retry_after_s is not None:
        response["Retry-After"] = str(retry_after_s)
    return response


def _plain(request: HttpRequest, status: int) -> HttpResponse:
    code, message = _SENTENCES[status]
    return _answer(request, status, code, message)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    return _plain(request, 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    return _plain(request, 403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    return _plain(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    return _plain(request, 500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    logger.warning("csrf.refused", extra={"reason": reason})
    return _answer(
        request, 403, "forbidden", "The form has expired or came from elsewhere; load it again."
    )


def refusal(request: HttpRequest, error: VeenError) -> HttpResponse:
    """The answer to a VeenError: status, code and sentence."""
    if isinstance(error, ApiError):
        if _is_api(request):
            return _json(request, error.status, error.to_json(), error.retry_after_s)
        code, status, message = error.error_code.value, error.status, error.message
        return _answer(request, status, code, message, error.retry_after_s)
    if not _is_api(request):
        info = ERRORS[error.code]
        message = error.detail or info.sentence
        return _answer(request, info.status, error.code, message, error.retry_after_s)
    found = _API_CODES.get(error.code)
    if found is None:
        # A detail of the log or the disk is for the operator's eyes, not for a caller's.
        logger.error(
            "api.failed",
            extra={
                "request_id": _request_id(request),
                "code": error.code,
                "detail": error.detail,
            },
        )
        return _plain(request, 500)
    retry_after_s = error.retry_after_s
    if found is RecordCode.HUB_UNAVAILABLE:
        logger.warning("api.hub_unavailable", extra={"detail": str(error)})
        retry_after_s = retry_after_s or RETRY_AFTER_S
        worded = RecordError(found, "The hub cannot be reached.", retry_after_s=retry_after_s)
    else:
        message = error.detail or ERRORS[error.code].sentence
        worded = RecordError(found, message, retry_after_s=retry_after_s)
    return _json(request, worded.status, worded.to_json(), retry_after_s)


def render_refusals(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Turn a VeenError of any view into its status, code and sentence."""

    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    def process_exception(request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return refusal(request, exception) if isinstance(exception, VeenError) else None

    middleware.process_exception = process_exception  # type: ignore[attr-defined]
    return middleware


def api_exception_handler(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """What rest_framework calls; None lets a fault of ours reach the 500 above, and the log."""
    request: HttpRequest = context["request"]._request  # noqa: SLF001 - Django's own request
    set_rollback()
    if isinstance(error, VeenError):
        return refusal(request, error)
    for kind, code, message in _FRAMEWORK:
        if isinstance(error, kind):
            worded = RecordError(code, message)
            response = _json(request, worded.status, worded.to_json())
            if isinstance(error, drf.MethodNotAllowed):
                response["Allow"] = ", ".join(context["view"].allowed_methods)
            if code is RecordCode.UNAUTHORIZED:
                response["WWW-Authenticate"] = 'Bearer realm="veen"'
            return response
    return None
