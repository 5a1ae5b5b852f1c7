"""HTTP/1.1 to one hub: keep-alive, pipelining, and refusals that arrive as VeenError [SSOT 8]."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlencode, urlsplit

from hub.errors import ErrorCode, VeenError, WireError, unreachable
from hub.limits import DEFAULT as LIMITS
from hub.wire import cbor

if TYPE_CHECKING:
    from ssl import SSLContext

CBOR: Final = "application/cbor"
CBOR_SEQ: Final = "application/cbor-seq"
OCTETS: Final = "application/octet-stream"
_CHUNK_BYTES: Final = 65_536
# A page of the stream is read item by item; every other answer is small.
_ANSWER_BYTES_MAX: Final = LIMITS.batch_bytes_max
_ITEM_BYTES_MAX: Final = LIMITS.msg_bytes_max + 65_536
_RETRY_AFTER_MAX_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request; query values are already text."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = CBOR
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A 2xx answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _SharedReader(io.BufferedReader):
    """One read buffer for all answers of a connection.

    HTTPResponse closes the file it reads from, and a private buffer would swallow the start of the
    next pipelined answer.
    """

    def close(self) -> None:
        """Stays open until the connection ends."""


class _SharedSocket:
    """Gives every HTTPResponse the same buffer."""

    def __init__(self, reader: _SharedReader) -> None:
        self._reader = reader

    def makefile(self, mode: str) -> _SharedReader:
        """What HTTPResponse reads from."""
        assert mode == "rb"
        return self._reader


class HubHttp:
    """A connection that is made when first needed and made again when it broke."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        ssl_context: SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise VeenError(ErrorCode.CONFIG, f"{url!r} is not an http or https URL")
        if parts.query or parts.fragment or parts.username:
            raise VeenError(ErrorCode.CONFIG, f"{url!r} has more than scheme, host, port and path")
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._ssl_context = ssl_context
        self._connection: HTTPConnection
        if parts.scheme == "https":
            self._connection = HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout_s, context=ssl_context
            )
        else:
            self._connection = HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        self._shared: _SharedSocket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def another(self) -> HubHttp:
        """A second connection to the same hub, for an answer that is read over a long time."""
        return HubHttp(
            self.url,
            token=self._token,
            timeout_s=self._timeout_s,
            ssl_context=self._ssl_context,
        )

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        self._shared = None
        self._connection.close()

    def interrupt(self) -> None:
        """From another thread: end the connection under whoever waits for it."""
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def call(self, call: Call) -> Answer:
        """One request, one answer; a refusal raises with the hub's code.

        A kept-alive connection may have been closed by the other side, so a break before the first
        byte of the answer is tried once more. That is safe for every route: the same MSG bytes sent
        twice give E.DUP, never a second entry.
        """
        fresh = self._shared is None
        try:
            return next(self._exchange([call]))
        except VeenError as broken:
            if fresh or broken.code is not ErrorCode.UNREACHABLE:
                raise
        return next(self._exchange([call]))

    def pipeline(self, calls: Sequence[Call]) -> Iterator[Answer | VeenError]:
        """Send all, then read all; answers come in order and a refusal does not end the row.

        N.UNREACHABLE raises instead: nothing is known of the answers that are still out.
        """
        responses = self._send(calls)
        for response in responses:
            try:
                yield self._whole(response)
            except VeenError as refusal:
                if refusal.code in (ErrorCode.UNREACHABLE, ErrorCode.PROTOCOL):
                    raise
                yield refusal

    def start(self, call: Call) -> None:
        """Send a request without waiting; `finish` reads the answers in the order of starts."""
        self._write([call])

    def finish(self) -> bytes:
        """The body of the answer to the oldest request that was started and not finished.

        Reads plain 200 answers only, for a tenth of what http.client takes. Whatever else comes
        ends the connection: a request with `call` then says what it is.
        """
        if self._shared is None:
            raise VeenError(ErrorCode.UNREACHABLE, f"{self.url}: the connection was given up")
        try:
            return _read_plain(self._shared.makefile("rb"))
        except (OSError, ValueError) as broken:
            raise self._unreachable(broken) from broken

    def items(self, call: Call) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """The headers of a CBOR Sequence answer and its items, read one at a time."""
        fresh = self._shared is None
        try:
            response = next(self._send([call]))
        except VeenError as broken:
            if fresh or broken.code is not ErrorCode.UNREACHABLE:
                raise
            response = next(self._send([call]))
        if response.status >= 300:
            self._whole(response)
        return _headers(response), self._cut_items(response)

    def _exchange(self, calls: Sequence[Call]) -> Iterator[Answer]:
        for response in self._send(calls):
            yield self._whole(response)

    def _send(self, calls: Sequence[Call]) -> Iterator[HTTPResponse]:
        self._write(calls)
        for call in calls:
            assert self._shared is not None
            # http.client types its first argument as a socket, and only ever calls makefile on it.
            response = HTTPResponse(self._shared, method=call.method)  # type: ignore[arg-type]
            try:
                response.begin()
            except (OSError, HTTPException) as broken:
                raise self._unreachable(broken) from broken
            yield response

    def _write(self, calls: Sequence[Call]) -> None:
        try:
            self._connect()
            self._connection.sock.sendall(b"".join(self._render(call) for call in calls))
        except OSError as broken:
            raise self._unreachable(broken) from broken

    def _connect(self) -> _SharedSocket:
        if self._shared is None:
            self._connection.close()
            self._connection.connect()
            sock = self._connection.sock
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._shared = _SharedSocket(_SharedReader(socket.SocketIO(sock, "r"), _CHUNK_BYTES))
        return self._shared

    def _render(self, call: Call) -> bytes:
        target = self._prefix + call.path
        if call.query:
            target += "?" + urlencode(call.query)
        host = self._connection.host
        lines = [
            f"{call.method} {target} HTTP/1.1",
            f"Host: {host}:{self._connection.port}",
            "Accept: application/cbor, application/cbor-seq",
        ]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        if call.body is not None:
            lines += [f"Content-Type: {call.content_type}", f"Content-Length: {len(call.body)}"]
        lines += [f"{name}: {value}" for name, value in call.headers.items()]
        for line in lines:
            if "\r" in line or "\n" in line:
                raise VeenError(ErrorCode.CONFIG, "a request header holds a line break")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (call.body or b"")

    def _whole(self, response: HTTPResponse) -> Answer:
        try:
            body = response.read(_ANSWER_BYTES_MAX + 1)
            if len(body) <= _ANSWER_BYTES_MAX:
                _check_ended(response)
        except (OSError, HTTPException) as broken:
            raise self._unreachable(broken) from broken
        if len(body) > _ANSWER_BYTES_MAX:
            self.close()
            raise WireError("the answer is larger than any answer of a hub", ErrorCode.SIZE)
        self._after(response)
        if response.status >= 300:
            raise refusal_of(response.status, body, response.getheader("Retry-After"))
        return Answer(status=response.status, headers=_headers(response), body=body)

    def _after(self, response: HTTPResponse) -> None:
        if response.will_close:
            self.close()

    def _cut_items(self, response: HTTPResponse) -> Iterator[bytes]:
        done = False
        try:
            yield from cut_sequence(response.read1)
            _check_ended(response)
            done = True
        except (OSError, HTTPException) as broken:
            raise self._unreachable(broken) from broken
        finally:
            # An answer left half read would be taken for the start of the next one.
            if done and not response.will_close and response.isclosed():
                self._after(response)
            else:
                self.close()

    def _unreachable(self, broken: Exception) -> VeenError:
        self.close()
        return unreachable(self.url, broken)


def _read_plain(reader: io.BufferedReader) -> bytes:
    """The body of a 200 answer with a length; ValueError for any other."""
    if not reader.readline(_CHUNK_BYTES).startswith(b"HTTP/1.1 200 "):
        raise ValueError("not an answer with status 200")
    length = -1
    while (line := reader.readline(_CHUNK_BYTES)) != b"\r\n":
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == b"content-length":
            length = int(value)
        elif not line or name in (b"transfer-encoding", b"connection"):
            raise ValueError("not a plain answer")
    if not 0 <= length <= _ANSWER_BYTES_MAX:
        raise ValueError("an answer without a length")
    body = reader.read(length)
    if len(body) < length:
        raise ValueError("the answer ends early")
    return body


def _check_ended(response: HTTPResponse) -> None:
    """Raise when bytes are missing; http.client takes a closed connection for the end."""
    if response.length or (response.length is None and not response.chunked):
        raise IncompleteRead(b"", response.length)


def cut_sequence(read: _Read) -> Iterator[bytes]:
    """The items of a CBOR Sequence that arrives in pieces, holding at most one item and a piece."""
    buffer = b""
    while True:
        pos = 0
        while pos < len(buffer):
            try:
                end = cbor.skip(buffer, pos)
            except WireError:
                # More bytes may complete it; what can never be completed ends at the size bound.
                break
            yield buffer[pos:end]
            pos = end
        buffer = buffer[pos:]
        if len(buffer) > _ITEM_BYTES_MAX:
            raise WireError("an item of the answer is malformed or too large")
        piece = read(_CHUNK_BYTES)
        if not piece:
            break
        buffer += piece
    if buffer:
        raise WireError("the answer ends inside an item")


if TYPE_CHECKING:
    from collections.abc import Callable

    _Read = Callable[[int], bytes]


def refusal_of(status: int, body: bytes, retry_after: str | None = None) -> VeenError:
    """The VeenError that an error answer, or an error item of a batch, stands for."""
    retry_after_s = None
    if retry_after and retry_after.isascii() and retry_after.isdigit():
        retry_after_s = min(int(retry_after), _RETRY_AFTER_MAX_S)
    try:
        found = cbor.decode(body)
    except WireError:
        found = None
    if isinstance(found, Mapping):
        fields = {str(name): value for name, value in found.items()}
        code, detail = fields.get("code"), fields.get("detail", "")
        if isinstance(code, str) and isinstance(detail, str) and code in set(ErrorCode):
            return VeenError(ErrorCode(code), detail, retry_after_s=retry_after_s)
    return VeenError(ErrorCode.PROTOCOL, f"HTTP status {status} without a code of a hub")


def _headers(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
