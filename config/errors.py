"""The HTTP face of every refusal of the web process [style 4: errors]."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from hub.errors import ERRORS, VeenError

logger = logging.getLogger(__name__)

_SENTENCES: Final = {
    400: ("invalid_parameter", "The request cannot be understood."),
    403: ("forbidden", "This is not allowed for you."),
    404: ("not_found", "There is no such page."),
    500: ("internal", "An error of ours; it was logged with the request id."),
}


def _answer(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    request_id = request.META.get("VEEN_REQUEST_ID", "")
    if request.path.startswith("/api/"):
        return JsonResponse(
            {"error_code": code, "message": message, "request_id": request_id}, status=status
        )
    context = {"status": status, "code": code, "message": message, "request_id": request_id}
    return render(request, "console/error.html", context, status=status)


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


def render_refusals(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Turn a VeenError of any view into its status, code and sentence."""

    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    def process_exception(request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, VeenError):
            return None
        info = ERRORS[exception.code]
        response = _answer(request, info.status, exception.code, exception.detail or info.sentence)
        if exception.retry_after_s is not None:
            response["Retry-After"] = str(exception.retry_after_s)
        return response

    middleware.process_exception = process_exception  # type: ignore[attr-defined]
    return middleware
