"""Headers and log line of every web answer [experience 1.1: strict CSP]."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

GetResponse = Callable[[HttpRequest], HttpResponse]

# A page that says "verified" must not run a stranger's script: no inline code, no eval, no frames.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'"
)
# Of the bare paths and of /api/v1, which are the same; descriptor and digest have a version 1 too.
API_VERSION: Final = "1"
logger = logging.getLogger(__name__)


def security_headers(get_response: GetResponse) -> GetResponse:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response["Permissions-Policy"] = "camera=(), geolocation=(), microphone=(), payment=()"
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        if not request.path.startswith("/static/"):
            response.setdefault("Cache-Control", "no-store")
        return response

    return middleware


def request_log(get_response: GetResponse) -> GetResponse:
    """Name every request, and write one line for it; never its query string or body."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = secrets.token_hex(8)
        request.META["VEEN_REQUEST_ID"] = request_id
        started = time.perf_counter()
        response = get_response(request)
        # What the gateway answered keeps the name the gateway gave it.
        response.setdefault("Veen-Request-Id", request_id)
        if request.path.startswith("/api/"):
            response["Veen-Api-Version"] = API_VERSION
        logger.log(
            logging.DEBUG if request.path == "/healthz" else logging.INFO,
            "http.served",
            extra={
                "request_id": request_id,
                "method": request.method,
                "path": request.path,
                "status": response.status_code,
                "ms": round(1000 * (time.perf_counter() - started), 1),
            },
        )
        return response

    return middleware
