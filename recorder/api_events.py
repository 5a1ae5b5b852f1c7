"""POST /api/record/events: handed to the gateway unread, so that one base URL works [architecture].

This process holds no key and looks at nothing: body, content type and authorization go to the
gateway as they came, in pieces, and its answer comes back in pieces. What the gateway refuses is
refused in its own words.
"""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from recorder import api_docs
from recorder.api_view import ApiView
from recorder.codes import RecordCode, RecordError
from recorder.hub_reads import hub_unavailable

PATH: Final = "/api/record/events"
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
CHUNK_BYTES: Final = 65_536
TIMEOUT_S: Final = 60.0  # the gateway answers pending events long before
CONNECT_TIMEOUT_S: Final = 3.0
_PASSED_ON: Final = ("CONTENT_TYPE", "HTTP_AUTHORIZATION")
_PASSED_BACK: Final = (
    "Content-Type", "Content-Length", "Retry-After", "Veen-Request-Id", "WWW-Authenticate",
)  # fmt: skip

logger = logging.getLogger(__name__)


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class RecordEvents(ApiView):
    """Record one event or a batch; answered by the gateway."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    reads_body = False
    operations = {"POST": api_docs.RECORD_EVENTS}  # noqa: RUF012 - a ClassVar of the base

    def post(self, request: Request) -> HttpResponseBase:
        """Forward, and stream the answer back."""
        return forward(request._request)  # noqa: SLF001 - the framework would read the body


def gateway_url() -> str:
    """Where the gateway of the running bundle listens."""
    try:
        found = json.loads(settings.VEEN_STATUS_FILE.read_bytes()).get("gateway_url")
    except (OSError, ValueError, AttributeError) as missing:
        raise hub_unavailable("The gateway is not running.") from missing
    if not isinstance(found, str) or urlsplit(found).scheme not in ("http", "https"):
        raise hub_unavailable("The gateway is not running.")
    return found


def forward(request: HttpRequest) -> StreamingHttpResponse:
    """One exchange with the gateway."""
    stream, length = _body(request)
    if length is not None and length > BODY_BYTES_MAX:
        raise _too_large()
    link = _connect(gateway_url())
    headers = _headers(request, length)
    try:
        link.request("POST", PATH, _pieces(stream), headers=headers, encode_chunked=length is None)
        answer = link.getresponse()
    except RecordError:
        link.close()
        raise
    except (BrokenPipeError, ConnectionResetError) as cut:
        # It may have refused the body before it was sent whole; then its answer is there already.
        early = _early_answer(link)
        if early is None:
            link.close()
            raise _unanswered(cut) from cut
        answer = early
    except (OSError, http.client.HTTPException) as broken:
        link.close()
        raise _unanswered(broken) from broken
    response = StreamingHttpResponse(_answer(link, answer), status=answer.status)
    for name in _PASSED_BACK:
        value = answer.getheader(name)
        if value is not None:
            response[name] = value
    return response


def _body(request: HttpRequest) -> tuple[_Readable, int | None]:
    """The body as a stream, and its length where the client said it."""
    length: str = request.META.get("CONTENT_LENGTH") or ""
    if length.isascii() and length.isdigit():
        return request, int(length)
    # Django knows only bodies with a length; the server below ends this stream by itself.
    if request.META.get("wsgi.input_terminated"):
        source: _Readable = request.META["wsgi.input"]
        return source, None
    return request, 0


def _headers(request: HttpRequest, length: int | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PASSED_ON:
        value = request.META.get(name)
        if value:
            found[name.removeprefix("HTTP_").replace("_", "-").title()] = value
    if length is None:
        found["Transfer-Encoding"] = "chunked"
    else:
        found["Content-Length"] = str(length)
    return found


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind: Any = http.client.HTTPConnection
    if parts.scheme == "https":
        kind = http.client.HTTPSConnection
    link: http.client.HTTPConnection = kind(parts.hostname, parts.port, timeout=CONNECT_TIMEOUT_S)
    try:
        link.connect()
    except OSError as down:
        link.close()
        raise hub_unavailable("The gateway cannot be reached.") from down
    link.sock.settimeout(TIMEOUT_S)
    return link


def _pieces(stream: _Readable) -> Iterator[bytes]:
    sent = 0
    while piece := stream.read(CHUNK_BYTES):
        sent += len(piece)
        if sent > BODY_BYTES_MAX:
            raise _too_large()
        yield piece


def _early_answer(link: http.client.HTTPConnection) -> http.client.HTTPResponse | None:
    """The answer to a body that was refused while it was being sent."""
    if link.sock is None:
        return None
    answer = http.client.HTTPResponse(link.sock, method="POST")
    try:
        answer.begin()
    except (OSError, http.client.HTTPException):
        return None
    return answer


def _answer(link: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The answer in pieces; one that is cut short is cut short for the client too."""
    try:
        while piece := answer.read(CHUNK_BYTES):
            yield piece
    finally:
        answer.close()
        link.close()


def _too_large() -> RecordError:
    message = f"A request has at most {BODY_BYTES_MAX} bytes."
    return RecordError(RecordCode.EVENT_TOO_LARGE, message)


def _unanswered(broken: Exception) -> RecordError:
    logger.warning("gateway.unanswered", extra={"reason": str(broken) or type(broken).__name__})
    return hub_unavailable(
        "The gateway did not answer. Whether it has taken the events is not known: send them again "
        "with the same idempotency_key."
    )
