"""Heads of HTTP/1.1: the target of a request, the head of a response [RFC 9112 3 and 4]."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from hub.errors import ErrorCode
from hub.server.http_types import HttpError, Response

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A CR or LF in a value would let whoever chose the value write the rest of the response.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OWN_HEADERS: Final = frozenset(
    {
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "date",
        "server",
        "transfer-encoding",
        "veen-request-id",
        "x-content-type-options",
    }
)
_BODILESS: Final = frozenset({204, 304})
_FIRST_LINES_MAX: Final = 256


def parse_target(target: bytes) -> tuple[str, str]:
    """Return the decoded path and the raw query, or raise E.FORMAT."""
    text = target.decode("latin-1")
    if not text.isascii() or "#" in text:
        raise HttpError(ErrorCode.FORMAT, "malformed request target")
    if not text.startswith("/"):
        text = _origin_form(text)
    path, _, query = text.partition("?")
    if "%" in path:
        path = _percent_decoded(path)
    return path, query


def _origin_form(text: str) -> str:
    """Take scheme and authority off an absolute-form target, which every server must accept."""
    if text == "*":  # OPTIONS *
        return text
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        raise HttpError(ErrorCode.FORMAT, "malformed request target")
    start = re.search(r"[/?]", rest)
    if start is None:
        return "/"
    return rest[start.start() :] if start.group() == "/" else "/" + rest[start.start() :]


def _percent_decoded(path: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise HttpError(ErrorCode.FORMAT, "malformed escape in the path")
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise HttpError(ErrorCode.FORMAT, "the path is not UTF-8") from None
    if not decoded.isprintable():  # Control characters would reach log lines.
        raise HttpError(ErrorCode.FORMAT, "control characters in the path")
    return decoded


class ResponseHeads:
    """Writes response heads; the lines that repeat are built once per status and type."""

    __slots__ = ("_first_lines", "date")

    def __init__(self) -> None:
        self._first_lines: dict[tuple[int, str], str] = {}
        self.date = ""  # set by the sweep, once a second

    def render(
        self, response: Response, request_id: str, *, length: int | None, chunked: bool, close: bool
    ) -> bytes:
        """Raise ValueError for a response that HTTP cannot carry; that is the application's bug."""
        status = response.status
        first_lines = self._first_lines.get((status, response.content_type))
        if first_lines is None:
            first_lines = self._remember(status, response.content_type)
        head = f"{first_lines}Date: {self.date}\r\nVeen-Request-Id: {request_id}\r\n"
        if status in _BODILESS:
            if length != 0:
                raise ValueError(f"a response with status {status} has no body")
        elif length is not None:
            head += f"Content-Length: {length}\r\n"
        if chunked:
            head += "Transfer-Encoding: chunked\r\n"
        if close:
            head += "Connection: close\r\n"
        for name, value in response.headers:
            head += _header_line(name, value)
        return (head + "\r\n").encode("latin-1")

    def _remember(self, status: int, content_type: str) -> str:
        if not 200 <= status <= 599:
            raise ValueError(f"not a final status: {status}")
        if not _VALUE.fullmatch(content_type):
            raise ValueError("a content type with control characters")
        first_lines = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            "Server: veen\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
        )
        if status not in _BODILESS:
            first_lines += f"Content-Type: {content_type}\r\n"
        if len(self._first_lines) >= _FIRST_LINES_MAX:
            self._first_lines.clear()
        self._first_lines[status, content_type] = first_lines
        return first_lines


def _header_line(name: str, value: str) -> str:
    if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ValueError(f"header {name!r} cannot be sent")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"header {name!r} is the server's own")
    return f"{name}: {value}\r\n"
