"""One request and its answer in their place in a connection's queue [RFC 9112 9.3.2]."""

from __future__ import annotations

from typing import Final, Protocol

from hub.server.http_reader import Head
from hub.server.http_types import Request, Response

_REFUSED: Final = Head(
    method="",
    path="",
    query="",
    headers={},
    version="1.1",
    keep_alive=False,
    head_only=False,
    content_length=0,
    body_max=0,
)


class Answering(Protocol):
    def on_answer(self, exchange: Exchange) -> None: ...


class Exchange:
    """Keeps the answer until every earlier request of the connection has had its own."""

    __slots__ = ("_connection", "head", "request", "response")

    def __init__(self, connection: Answering, request: Request, head: Head) -> None:
        self._connection = connection
        self.request = request
        self.head = head
        self.response: Response | None = None

    @classmethod
    def refused(cls, connection: Answering, request_id: str, response: Response) -> Exchange:
        """The place of an answer to something that never became a request."""
        exchange = cls(connection, Request("", "", "", {}, b"", request_id, 0.0, ""), _REFUSED)
        exchange.response = response
        return exchange

    def respond(self, response: Response) -> None:
        if self.response is not None:
            raise RuntimeError(f"request {self.request.request_id} is answered twice")
        self.response = response
        self._connection.on_answer(self)
