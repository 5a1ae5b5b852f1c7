"""What the HTTP server and the application say to each other [interfaces, Hub data plane]."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hub.errors import ErrorCode, VeenError


@dataclass(slots=True)
class Request:
    """One whole request; its headers may be shared between requests, so nobody writes to them."""

    method: str
    path: str  # percent-decoded, without the query
    query: str  # as sent, without the question mark
    headers: Mapping[str, str]  # lower-case names
    body: bytes
    request_id: str  # 16 hex digits
    received_at: float  # time.monotonic() when the head was complete
    peer: str


@dataclass(slots=True)
class Response:
    """A body of bytes is sent with its length, an iterator in chunks as fast as the peer reads."""

    status: int
    body: bytes | AsyncIterator[bytes]
    content_type: str = "application/cbor"
    headers: tuple[tuple[str, str], ...] = ()


Respond = Callable[[Response], None]


class App(Protocol):
    """The application behind the server; all calls come from the event loop's thread."""

    def body_max(self, method: str, path: str, headers: Mapping[str, str]) -> int:
        """How many body bytes a request with this head may have; depends on the head alone."""

    def serve(self, request: Request, respond: Respond) -> None:
        """Call respond exactly once, now or later, from the event loop's thread."""

    def refuse(self, code: str, detail: str, request_id: str) -> Response:
        """Render a refusal that the HTTP server itself decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Every bound of one server process: nothing a peer sends is unbounded in size or time."""

    header_bytes_max: int = 16_384
    header_count_max: int = 64
    url_bytes_max: int = 4096
    head_timeout_s: float = 10
    body_timeout_s: float = 30
    body_bytes_per_s_min: int = 262_144  # a body over its timeout goes on while it is this fast
    body_bytes_total_max: int = 256 * 1024 * 1024  # unfinished bodies of all connections
    idle_timeout_s: float = 75
    write_timeout_s: float = 60  # without one byte taken by a peer that is owed some
    linger_timeout_s: float = 2  # for a refused peer to read why, before its connection is cut
    connections_max: int = 4096
    pipeline_max: int = 64  # requests of one connection that are being served
    write_buffer_bytes_max: int = 262_144
    backlog: int = 1024

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise VeenError(ErrorCode.CONFIG, f"http limit {name} must be positive")


class HttpError(VeenError):
    """A request the server refuses before the application sees it."""

    def __init__(self, code: ErrorCode, detail: str):
        super().__init__(code, detail)
