"""The gateway as a process: one event loop, one listening socket [architecture, Processes].

`--fd` takes a socket that the parent bound and listens on; `--port` binds loopback itself.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from hub.server import loglines
from hub.server.http import HttpLimits, start_server
from recorder.gateway.app import PATIENCE_S, GatewayApp

_GRACE_S: Final = 8.0


async def serve(sock: socket.socket, state_dir: Path, patience_s: float) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = GatewayApp(state_dir, patience_s=patience_s)
    app.look()
    server = await start_server(app, sock, HttpLimits())
    watching = asyncio.create_task(app.watch())
    host, port = sock.getsockname()[:2]
    print(f"gateway ready url=http://{host}:{port}", flush=True)  # noqa: T201 - for who started it
    try:
        await stop.wait()
    finally:
        watching.cancel()
        await server.close(_GRACE_S)
        await app.close()


def _socket(fd: int | None, port: int) -> socket.socket:
    if fd is not None:
        sock = socket.socket(fileno=fd)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
    sock.setblocking(False)  # noqa: FBT003 - as the call is
    return sock


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `python -m recorder.gateway`."""
    parser = argparse.ArgumentParser(prog="recorder.gateway", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--fd", type=int, help="an inherited socket")
    where.add_argument("--port", type=int, help="a port of loopback; 0 takes a free one")
    parser.add_argument("--patience-s", type=float, default=PATIENCE_S, help=argparse.SUPPRESS)
    found = parser.parse_args(args)
    loglines.configure("gateway")
    sock = _socket(found.fd, found.port or 0)
    uvloop.run(serve(sock, found.state_dir, found.patience_s))
