"""The sockets of adapters: bound by a command itself, or by who started it [RFC 5426, RFC 6587]."""

from __future__ import annotations

import socket
from typing import Final

BACKLOG: Final = 128


def bound_udp(bind: str, port: int) -> socket.socket:
    """A datagram socket; 0 takes a free port."""
    sock = socket.socket(_family(bind), socket.SOCK_DGRAM)
    return _bound(sock, bind, port)


def bound_tcp(bind: str, port: int) -> socket.socket:
    """A listening socket; 0 takes a free port."""
    sock = socket.socket(_family(bind), socket.SOCK_STREAM)
    # Without it a port just left by a server counts as taken for a minute.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bound(sock, bind, port).listen(BACKLOG)
    return sock


def _bound(sock: socket.socket, bind: str, port: int) -> socket.socket:
    try:
        sock.bind((bind, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)  # noqa: FBT003 - as the call is
    return sock


def _family(bind: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in bind else socket.AF_INET


def inherited(fd: int | None) -> socket.socket | None:
    """A socket that the parent bound, and keeps when this process dies."""
    if fd is None:
        return None
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)  # noqa: FBT003 - as the call is
    return sock
