"""An HTTP worker: form and signatures before the writer, reads from the files [OP0.4].

It holds no secret. What passes its checks goes to the writer over the socket it was started with;
when that socket closes, the writer is gone and so is this process.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
from pathlib import Path

import uvloop

from hub.limits import Limits
from hub.server import ipc, loglines
from hub.server.app import DataPlane, PlaneSettings
from hub.server.http import HttpLimits, Server, adopting_server
from hub.wire.profile import Profile

SAMPLE_EVERY_S = 1.0
GRACE_S = 5.0


class Worker:
    """One process: a server in front, the writer behind."""

    def __init__(self, accepted: socket.socket) -> None:
        self._accepted = accepted  # brings the connections that the writer's process accepted
        self._stopped = asyncio.Event()
        self._ready = asyncio.Event()
        self._peer: ipc.Peer | None = None
        self._settings: PlaneSettings | None = None
        self._tls: tuple[str, str] | None = None
        self._app: DataPlane | None = None
        self._adopting: set[asyncio.Task[None]] = set()

    async def run(self, link: socket.socket) -> None:
        """Serve until the writer hangs up."""
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_unix_connection(
            lambda: ipc.Peer(self._frame, self._lost), sock=link
        )
        self._peer = peer
        await self._ready.wait()
        if self._settings is None:
            return  # The writer was gone before it had said anything.
        self._app = DataPlane(self._settings, peer)
        server = adopting_server(self._app, HttpLimits(), self._context())
        loop.add_reader(self._accepted, self._adopt, server)
        peer.send(ipc.OK, 0, b"")
        sampling = asyncio.create_task(self._sample(server))
        await self._stopped.wait()
        sampling.cancel()
        loop.remove_reader(self._accepted)
        await server.close(GRACE_S)

    def _adopt(self, server: Server) -> None:
        """Take over the connections that wait in the channel."""
        try:
            _, fds, _, _ = socket.recv_fds(self._accepted, 1, 1)
        except BlockingIOError:
            return
        for fd in fds:
            connection = socket.socket(fileno=fd)
            connection.setblocking(False)  # noqa: FBT003 - as the call is
            task = asyncio.get_running_loop().create_task(server.adopt(connection))
            self._adopting.add(task)
            task.add_done_callback(self._adopting.discard)

    def _lost(self, _peer: ipc.Peer) -> None:
        if self._app is not None:
            self._app.writer_gone()
        self._stopped.set()
        self._ready.set()

    def _frame(self, _peer: ipc.Peer, kind: int, ident: int, payload: bytes) -> None:
        if kind == ipc.HELLO:
            self._hello(json.loads(payload))
        elif kind == ipc.REFRESH and self._app is not None:
            self._app.refresh(json.loads(payload))
        elif self._app is not None:
            self._app.answered(kind, ident, payload)

    def _hello(self, said: dict[str, object]) -> None:
        profiles = said["profiles"]
        assert isinstance(profiles, list)
        limits = said["limits"]
        assert isinstance(limits, dict)
        self._settings = PlaneSettings(
            data_dir=Path(str(said["data_dir"])),
            hub_pk=bytes.fromhex(str(said["hub_pk"])),
            hub_id=bytes.fromhex(str(said["hub_id"])),
            open_admission=bool(said["open_admission"]),
            open_reads=bool(said["open_reads"]),
            stream_scoping=bool(said["stream_scoping"]),
            routing_key=bytes.fromhex(str(said["routing_key"])) if said["routing_key"] else None,
            log_submits=bool(said["log_submits"]),
            queue_max=int(str(said["queue_max"])),
            profiles=tuple(Profile(epoch_sec=e, pad_block=p) for e, p in profiles),
            limits=Limits(**limits),
        )
        tls = said["tls"]
        self._tls = (str(tls[0]), str(tls[1])) if isinstance(tls, list) else None
        self._ready.set()

    def _context(self) -> ssl.SSLContext | None:
        if self._tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION
        context.load_cert_chain(*self._tls)
        return context

    async def _sample(self, server: Server) -> None:
        """Hand the metrics to the writer, which answers /metrics for all."""
        assert self._app is not None
        assert self._peer is not None
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            sample = self._app.sample(server.connection_count)
            self._peer.send(ipc.SAMPLE, 0, json.dumps(sample).encode())


async def _main(link_fd: int, accepted_fd: int) -> None:
    link, accepted = socket.socket(fileno=link_fd), socket.socket(fileno=accepted_fd)
    for end in (link, accepted):
        end.setblocking(False)  # noqa: FBT003 - as the call is
    await Worker(accepted).run(link)


if __name__ == "__main__":
    loglines.configure()
    uvloop.run(_main(int(sys.argv[1]), int(sys.argv[2])))
