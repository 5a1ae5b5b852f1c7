"""A small application behind the real HTTP server, and a peer that speaks raw bytes to it."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvloop

from hub.errors import ERRORS, ErrorCode
from hub.server.http import HttpLimits, Request, Respond, Response, Server, start_server

TEST_TIMEOUT_S = 30
BODY_BYTES_MAX = 4096


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario on the event loop that the hub uses, and never for ever."""
    uvloop.run(asyncio.wait_for(scenario, TEST_TIMEOUT_S))


def echo(request: Request, respond: Respond) -> None:
    respond(Response(200, request.body or request.path.encode(), "text/plain"))


@dataclass
class TestApp:
    """Answers by one function; remembers every request it was given."""

    __test__ = False

    answer: Callable[[Request, Respond], None] = echo
    body_bytes_max: int = BODY_BYTES_MAX
    requests: list[Request] = field(default_factory=list)

    def body_max(self, method: str, path: str, headers: Mapping[str, str]) -> int:
        del headers
        if path == "/body_max_fails":
            raise ZeroDivisionError
        return self.body_bytes_max if method in {"POST", "PUT"} else 0

    def serve(self, request: Request, respond: Respond) -> None:
        self.requests.append(request)
        self.answer(request, respond)

    def refuse(self, code: str, detail: str, request_id: str) -> Response:
        del request_id
        status = ERRORS[ErrorCode(code)].status
        retry = (("Retry-After", "1"),) if status == 503 else ()
        return Response(status, f"{code} {detail}".encode(), "text/plain", retry)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """One connection of a client, as raw as the test wants it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, to_head: bool = False) -> Answer:
        """Read one answer; raise IncompleteReadError if the connection ends before it does."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers
            headers[name.lower()] = value
        body = b""
        if status != 100 and not to_head:
            if headers.get("transfer-encoding") == "chunked":
                body = await self._chunks()
            elif "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif status not in {204, 304}:
                body = await self.reader.read()
        return Answer(status, headers, body)

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            part = await self.reader.readexactly(size + 2)
            body += part[:-2]
            if size == 0:
                return bytes(body)

    async def rest(self) -> bytes:
        """Everything until the server closes; a reset counts as closed."""
        data = b""
        with suppress(ConnectionError):
            while part := await self.reader.read(65536):
                data += part
        return data

    def reset(self) -> None:
        """Go away without a word: the server sees a reset, not an end."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError, tls.SSLError):
            await self.writer.wait_closed()


@dataclass
class Running:
    """A server that runs for the length of a test."""

    server: Server
    port: int
    peers: list[Peer] = field(default_factory=list)

    async def connect(self, ssl: tls.SSLContext | None = None) -> Peer:
        name = "localhost" if ssl is not None else None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=ssl, server_hostname=name
        )
        peer = Peer(reader, writer)
        self.peers.append(peer)
        return peer

    async def exchange(self, data: bytes) -> Answer:
        """Send data on a connection of its own and read the first answer."""
        peer = await self.connect()
        peer.send(data)
        return await peer.answer()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Give the loop turns until something the server does has happened."""
        while not is_true():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    app: TestApp, limits: HttpLimits | None = None, ssl: tls.SSLContext | None = None
) -> AsyncIterator[Running]:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = await start_server(app, sock, limits or HttpLimits(), ssl)
    running = Running(server, port)
    try:
        yield running
    finally:
        for peer in running.peers:
            await peer.close()
        await server.close(grace_s=0.1)


def post(path: str, body: bytes, *extra: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: hub", f"Content-Length: {len(body)}", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *extra: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: hub", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunked(path: str, *parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end
