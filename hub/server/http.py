"""The HTTP/1.1 server of the data plane: one listening socket, one process [ADR 0004]."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
from collections.abc import Callable

from hub.server.http_connections import Connections
from hub.server.http_protocol import HttpProtocol
from hub.server.http_types import App, HttpError, HttpLimits, Request, Respond, Response

__all__ = [
    "App",
    "HttpError",
    "HttpLimits",
    "HttpProtocol",
    "Request",
    "Respond",
    "Response",
    "Server",
    "adopting_server",
    "start_server",
]

_ABORTED_WITHIN_S = 1.0


class Server:
    """A server that accepts connections until it is closed."""

    def __init__(
        self,
        listener: asyncio.AbstractServer | None,
        connections: Connections,
        connect: Callable[[], HttpProtocol],
        ssl: tls.SSLContext | None,
        handshake_timeout_s: float | None,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._connect = connect
        self._ssl = ssl
        self._handshake_timeout_s = handshake_timeout_s

    async def adopt(self, sock: socket.socket) -> None:
        """Serve a connection that another process accepted."""
        if self._connections.draining:
            sock.close()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._connect,
                sock,
                ssl=self._ssl,
                ssl_handshake_timeout=self._handshake_timeout_s,
            )
        except (OSError, tls.SSLError):
            sock.close()  # the peer left, or does not speak TLS

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def close(self, grace_s: float) -> int:
        """Finish what has begun within grace_s; return how many connections had to be cut."""
        connections = self._connections
        if self._listener is not None:
            self._listener.close()
        connections.draining = True
        for connection in connections.open():
            connection.drain()
        await _emptied(connections, grace_s)
        cut = connections.open()
        for connection in cut:
            connection.abort()
        await _emptied(connections, _ABORTED_WITHIN_S)
        connections.stop()
        if self._listener is not None:
            await self._listener.wait_closed()
        return len(cut)


async def _emptied(connections: Connections, timeout_s: float) -> None:
    if len(connections):
        try:
            await asyncio.wait_for(connections.emptied.wait(), timeout_s)
        except TimeoutError:
            return


async def start_server(
    app: App, sock: socket.socket, limits: HttpLimits, ssl: tls.SSLContext | None = None
) -> Server:
    """Serve app on a bound socket, TCP or Unix, until the returned server is closed."""
    loop = asyncio.get_running_loop()
    connections = Connections(limits, loop)

    def connect() -> HttpProtocol:
        return HttpProtocol(app, limits, connections)

    # A handshake is part of the head as far as a slow peer is concerned.
    handshake_timeout_s = limits.head_timeout_s if ssl is not None else None
    create = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
    listener = await create(
        connect,
        sock=sock,
        ssl=ssl,
        backlog=limits.backlog,
        ssl_handshake_timeout=handshake_timeout_s,
    )
    connections.sweep()
    return Server(listener, connections, connect, ssl, handshake_timeout_s)


def adopting_server(app: App, limits: HttpLimits, ssl: tls.SSLContext | None = None) -> Server:
    """A server without a listener: connections come by `adopt`."""
    connections = Connections(limits, asyncio.get_running_loop())
    connections.sweep()
    handshake_timeout_s = limits.head_timeout_s if ssl is not None else None

    def connect() -> HttpProtocol:
        return HttpProtocol(app, limits, connections)

    return Server(None, connections, connect, ssl, handshake_timeout_s)
