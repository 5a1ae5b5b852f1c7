"""HTTP to the web process: JSON in and out, refusals as they were meant [interfaces].

For the SDK and the commands; it imports no framework.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlencode, urlsplit

from hub.errors import ErrorCode, VeenError, unreachable
from recorder.codes import Detail, RecordCode, RecordError

if TYPE_CHECKING:
    from ssl import SSLContext

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
Query = Mapping[str, str | Sequence[str]]


class WebClient:
    """One base URL and one token; each call is a connection of its own."""

    def __init__(
        self,
        url: str,
        *,
        token: str,
        timeout_s: float = 60.0,
        ssl_context: SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise VeenError(ErrorCode.CONFIG, f"{url!r} is not an http or https URL")
        if not token.isascii() or not token.isprintable():
            raise VeenError(ErrorCode.CONFIG, "the token holds what no token has")
        self.url = url.rstrip("/")
        self._parts = parts
        self._token = token
        self._timeout_s = timeout_s
        self._ssl_context = ssl_context

    def get(self, path: str, query: Query | None = None) -> Any:  # noqa: ANN401 - a JSON value
        """The answer to a read, or the refusal."""
        with self._asked("GET", path, query) as answer:
            return self._json(answer)

    def post(self, path: str, body: object, *, query: Query | None = None) -> Any:  # noqa: ANN401
        """The answer to a write, or the refusal."""
        data = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        with self._asked("POST", path, query, data) as answer:
            return self._json(answer)

    def read(self, path: str, query: Query | None = None) -> bytes:
        """The bytes of an answer, for whoever reads numbers exactly."""
        with self._asked("GET", path, query) as answer:
            return self._bytes(answer)

    def send(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """The bytes that answer a JSON body which is sent as it is."""
        with self._asked("POST", path, None, body, headers) as answer:
            return self._bytes(answer)

    def save(self, path: str, query: Query | None, sink: BinaryIO) -> int:
        """Write an answer of any size to a file; how many bytes it had."""
        with self._asked("GET", path, query) as answer:
            size = 0
            while piece := answer.read(PIECE_BYTES):
                size += len(piece)
                sink.write(piece)
            expected = answer.getheader("Content-Length")
            if expected is not None and int(expected) != size:
                raise VeenError(ErrorCode.UNREACHABLE, "the answer was cut")
            return size

    @contextmanager
    def pieces(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer while they arrive."""
        with self._asked("GET", path, query) as answer:
            yield iter(lambda: answer.read1(PIECE_BYTES), b"")

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        link = self._connection()
        target = self._parts.path.rstrip("/") + path
        if query:
            target += "?" + urlencode(query, doseq=True)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers |= more or {}
        try:
            link.request(method, target, body, headers)
            answer = link.getresponse()
            if answer.status >= 300:
                raise self._refusal(answer)
            yield answer
        except (OSError, http.client.HTTPException) as broken:
            raise self._unreachable(broken) from broken
        finally:
            link.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=self._ssl_context
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    @staticmethod
    def _bytes(answer: http.client.HTTPResponse) -> bytes:
        data = answer.read(ANSWER_BYTES_MAX + 1)
        if len(data) > ANSWER_BYTES_MAX:
            raise VeenError(ErrorCode.PROTOCOL, "the answer is larger than any answer")
        return data

    def _json(self, answer: http.client.HTTPResponse) -> Any:  # noqa: ANN401
        try:
            return json.loads(self._bytes(answer))
        except ValueError as flaw:
            raise VeenError(ErrorCode.PROTOCOL, f"{self.url} does not answer in JSON") from flaw

    def _refusal(self, answer: http.client.HTTPResponse) -> VeenError:
        try:
            found = self._json(answer)
        except VeenError:
            found = None
        return self._worded(answer.status, found, answer.getheader("Retry-After"))

    def _worded(self, status: int, found: object, retry_after: str | None) -> VeenError:
        """A client of another product knows further codes."""
        return refusal_of(status, found, retry_after)

    def _unreachable(self, broken: Exception) -> VeenError:
        return unreachable(self.url, broken)


def refusal_of(status: int, found: object, retry_after: str | None = None) -> VeenError:
    """The error that an error body stands for."""
    retry_after_s = seconds_of(retry_after)
    if isinstance(found, dict):
        code, message = found.get("error_code"), found.get("message")
        if isinstance(code, str) and isinstance(message, str):
            if code in set(RecordCode):
                return RecordError(
                    RecordCode(code),
                    message,
                    details=details_of(found.get("details")),
                    retry_after_s=retry_after_s,
                )
            kind = ErrorCode.INTERNAL if status >= 500 else ErrorCode.FORMAT
            return VeenError(kind, f"{code}: {message}", retry_after_s=retry_after_s)
    return VeenError(ErrorCode.PROTOCOL, f"HTTP status {status} without a code of this API")


def seconds_of(retry_after: str | None) -> int | None:
    """A Retry-After header that makes sense."""
    if retry_after and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after), 3600)
    return None


def details_of(found: object) -> list[Detail]:
    if not isinstance(found, list):
        return []
    return [
        Detail(pointer=str(one.get("pointer", "")), reason=str(one.get("reason", "")))
        for one in found
        if isinstance(one, dict)
    ]
