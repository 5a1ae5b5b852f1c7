"""Bytes of one connection to whole requests, bounded at every step [RFC 9112; assurance C11].

The rules, in the order in which they are applied:
1. llhttp, strict: bare LF, folded lines, control characters and doubtful lengths are refused;
2. target, header count and header bytes are bounded while they arrive;
3. HTTP/1.0 or 1.1, exactly one Host from 1.1 on, no repeat of a header that must be single;
4. Content-Length or Transfer-Encoding, never both, and no coding but `chunked`;
5. the application says how large the body may be before one byte of it is kept.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import httptools

from hub.errors import ErrorCode
from hub.server.http_head import parse_target
from hub.server.http_types import App, HttpError, HttpLimits, Request

logger = logging.getLogger(__name__)

FEED_BYTES_MAX: Final = 16_384  # at once, so that few requests become whole in one call

_HEAD_END: Final = b"\r\n\r\n"
_KNOWN_HEAD_BYTES_MAX: Final = 1024
_KNOWN_HEADS_MAX: Final = 256
_SINGLE: Final = frozenset(
    {"authorization", "content-length", "content-type", "expect", "host", "transfer-encoding"}
)
# What must not outlive its request, or changes how the request is read.
_NEVER_KNOWN: Final = frozenset({"authorization", "cookie", "expect", "veen-sig"})


class Phase(Enum):
    BOUNDARY = auto()  # between two requests
    HEAD = auto()
    BODY = auto()
    CLOSED = auto()  # nothing more is read from this connection


@dataclass(slots=True)
class Head:
    """A head that passed every check, and what is left to know about its body."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    version: str
    keep_alive: bool
    head_only: bool
    content_length: int | None  # None: chunked
    body_max: int


Received = tuple[Request, Head]


class Reception:
    """What all readers of a process share: request ids, known heads, the bytes in their bodies."""

    __slots__ = ("_count", "_prefix", "body_bytes", "known")

    def __init__(self, prefix: bytes) -> None:
        assert len(prefix) == 3
        self._prefix = prefix.hex()
        self._count = 0
        self.body_bytes = 0
        self.known: dict[bytes, Head] = {}

    def next_request_id(self) -> str:
        self._count = (self._count + 1) & 0xFF_FFFF_FFFF
        return f"{self._prefix}{self._count:010x}"


class RequestReader:
    """Feeds one connection's bytes to llhttp and keeps the requests that become whole."""

    __slots__ = (
        "_app",
        "_body",
        "_body_bytes",
        "_fed_bytes",
        "_head",
        "_header_bytes",
        "_header_count",
        "_headers",
        "_limits",
        "_parser",
        "_peer",
        "_received_at",
        "_reception",
        "_refusal",
        "_request_id",
        "_url",
        "complete",
        "continue_due",
        "phase",
    )

    def __init__(self, app: App, limits: HttpLimits, reception: Reception, peer: str) -> None:
        self._app = app
        self._limits = limits
        self._reception = reception
        self._peer = peer
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: HttpError | None = None
        self._received_at = 0.0
        self.complete: list[Received] = []
        self.continue_due = False
        self.phase = Phase.BOUNDARY
        self._body_bytes = 0
        self._clear()

    # ------------------------------------------------------------------ what the connection calls

    def take_known(self, data: bytes) -> Received | None:
        """Return the request if data is exactly one whole request under a head seen before.

        Equal bytes at a request boundary mean an equal head, so llhttp need not read them again.
        """
        end = data.find(_HEAD_END, 0, _KNOWN_HEAD_BYTES_MAX) + len(_HEAD_END)
        head = self._reception.known.get(data[:end])
        if head is None or len(data) - end != head.content_length:
            return None
        request = Request(
            head.method,
            head.path,
            head.query,
            head.headers,
            data[end:],
            self._reception.next_request_id(),
            time.monotonic(),
            self._peer,
        )
        return request, head

    def feed(self, data: bytes | memoryview) -> None:
        """Read data into self.complete, or raise what the peer is to be told."""
        if self.phase is Phase.BOUNDARY and isinstance(data, bytes) and data.startswith(b"POST "):
            end = data.find(_HEAD_END, 0, _KNOWN_HEAD_BYTES_MAX) + len(_HEAD_END)
            if end > len(_HEAD_END):
                self._parse(data[:end])
                self._learn(data[:end])
                data = data[end:]
        self._parse(data)
        if self.phase is Phase.HEAD:
            # The parser keeps an unfinished header to itself: count what it was fed.
            self._fed_bytes += len(data)
            limits = self._limits
            if self._fed_bytes > limits.header_bytes_max + limits.url_bytes_max + FEED_BYTES_MAX:
                raise HttpError(ErrorCode.SIZE, "request head too large")

    def close(self) -> None:
        """Read nothing more and forget what was begun."""
        self._release_body()
        self._clear()
        self.continue_due = False
        self.phase = Phase.CLOSED

    def is_body_fast(self, now: float) -> bool:
        """Whether the unfinished body arrived quickly enough to let it go on past its timeout."""
        elapsed_s = now - self._received_at - self._limits.body_timeout_s
        return self._body_bytes > elapsed_s * self._limits.body_bytes_per_s_min

    @property
    def request_id(self) -> str:
        """The id of the request being read; a refusal before its head was whole gets a new one."""
        return self._request_id or self._reception.next_request_id()

    # ------------------------------------------------------------------ inside

    def _parse(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._refusal is not None:
                raise self._refusal from None
            if isinstance(error, httptools.HttpParserCallbackError):
                logger.exception("http.reader_failed request_id=%s", self.request_id)
                raise HttpError(ErrorCode.INTERNAL, "the server failed") from error
            if self.phase is not Phase.CLOSED:  # Bytes after `Connection: close` are nobody's.
                raise HttpError(ErrorCode.FORMAT, f"malformed HTTP: {error}") from None

    def _learn(self, raw: bytes) -> None:
        """Remember a head that llhttp has just read from exactly these bytes."""
        head = self._head
        if (
            head is None
            or self.phase is not Phase.BODY
            or not head.content_length
            or not head.keep_alive
            or head.query
            or not _NEVER_KNOWN.isdisjoint(head.headers)
        ):
            return
        known = self._reception.known
        if len(known) >= _KNOWN_HEADS_MAX:
            known.clear()
        known[raw] = head

    def _refuse(self, code: ErrorCode, detail: str) -> HttpError:
        """Note the refusal: through llhttp only the fact that a callback failed comes back."""
        self._refusal = HttpError(code, detail)
        return self._refusal

    def _clear(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._header_count = 0
        self._fed_bytes = 0
        self._head: Head | None = None
        self._request_id = ""
        self._body: bytes | bytearray = b""

    def _release_body(self) -> None:
        self._reception.body_bytes -= self._body_bytes
        self._body_bytes = 0

    # ------------------------------------------------------------------ what llhttp calls

    def on_message_begin(self) -> None:
        if self.phase is Phase.BOUNDARY:
            self.phase = Phase.HEAD

    def on_url(self, part: bytes) -> None:
        self._url += part
        if len(self._url) > self._limits.url_bytes_max:
            raise self._refuse(ErrorCode.SIZE, "request target too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not Phase.HEAD:
            raise self._refuse(ErrorCode.FORMAT, "trailer fields are not taken")
        self._header_bytes += len(name) + len(value) + 4
        self._header_count += 1
        if (
            self._header_count > self._limits.header_count_max
            or self._header_bytes > self._limits.header_bytes_max
        ):
            raise self._refuse(ErrorCode.SIZE, "request head too large")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        headers = self._headers
        if key in headers:
            if key in _SINGLE:
                raise self._refuse(ErrorCode.FORMAT, f"header {key} is repeated")
            text = f"{headers[key]}, {text}"
        headers[key] = text

    def on_headers_complete(self) -> None:
        self._received_at = time.monotonic()
        self._request_id = self._reception.next_request_id()
        try:
            head = self._checked_head()
        except HttpError as refusal:
            self._refusal = refusal
            raise
        self._head = head
        self.phase = Phase.BODY
        expect = head.headers.get("expect")
        if expect is not None and head.version != "1.0":
            if expect.lower() != "100-continue":
                raise self._refuse(ErrorCode.FORMAT, "unknown expectation")
            self.continue_due = head.content_length != 0

    def on_body(self, part: bytes) -> None:
        head = self._head
        assert head is not None
        self.continue_due = False
        self._body_bytes += len(part)
        self._reception.body_bytes += len(part)
        if self._body_bytes > head.body_max:
            raise self._refuse(ErrorCode.SIZE, f"body over {head.body_max} bytes")
        if self._reception.body_bytes > self._limits.body_bytes_total_max:
            raise self._refuse(ErrorCode.BUSY, "too many unfinished bodies")
        if not self._body:
            self._body = part
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += part

    def on_message_complete(self) -> None:
        head = self._head
        if self.phase is not Phase.BODY or head is None:
            return
        request = Request(
            head.method,
            head.path,
            head.query,
            head.headers,
            bytes(self._body),
            self._request_id,
            self._received_at,
            self._peer,
        )
        self.complete.append((request, head))
        self._release_body()
        self._clear()
        self.continue_due = False
        self.phase = Phase.BOUNDARY if head.keep_alive else Phase.CLOSED

    def _checked_head(self) -> Head:
        headers = self._headers
        method = self._parser.get_method().decode("ascii")
        version = self._parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise HttpError(ErrorCode.FORMAT, "only HTTP/1.0 and HTTP/1.1 are spoken")
        if self._parser.should_upgrade():
            # After an upgrade llhttp would take the body for another protocol's bytes.
            raise HttpError(ErrorCode.FORMAT, "no upgrade is offered")
        if version == "1.1" and not headers.get("host"):
            raise HttpError(ErrorCode.FORMAT, "header host is missing")
        content_length = self._checked_length(version)
        path, query = parse_target(self._url)
        head_only = method == "HEAD"
        if head_only:
            method = "GET"
        try:
            body_max = self._app.body_max(method, path, headers)
        except Exception as error:
            logger.exception("http.body_max_failed request_id=%s", self._request_id)
            raise HttpError(ErrorCode.INTERNAL, "the server failed") from error
        if content_length is not None and content_length > body_max:
            raise HttpError(ErrorCode.SIZE, f"body over {body_max} bytes")
        return Head(
            method=method,
            path=path,
            query=query,
            headers=headers,
            version=version,
            # HTTP/1.0 has no chunks and no agreed keep-alive: one answer, then the end.
            keep_alive=version == "1.1" and self._parser.should_keep_alive(),
            head_only=head_only,
            content_length=content_length,
            body_max=body_max,
        )

    def _checked_length(self, version: str) -> int | None:
        """Refuse what two servers in a row could read differently (request smuggling)."""
        coding = self._headers.get("transfer-encoding")
        length = self._headers.get("content-length")
        if coding is None:
            return int(length) if length is not None else 0
        if length is not None:
            raise HttpError(ErrorCode.FORMAT, "Content-Length beside Transfer-Encoding")
        if version == "1.0" or coding.lower() != "chunked":
            raise HttpError(ErrorCode.FORMAT, "only the chunked transfer coding is taken")
        return None
