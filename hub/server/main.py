"""One data plane: this process becomes the writer and starts the HTTP workers [OP0.4].

Workers are fresh interpreters that inherit two sockets and no secret: one to ask the writer, one
over which accepted connections reach them. One that dies is started again; when the writer dies
they all end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path

import uvloop

from hub.errors import ErrorCode, TimedOutError, VeenError
from hub.server import ipc, loglines
from hub.server.config import HubConfig
from hub.server.control_server import ControlServer
from hub.server.core import HubCore, open_hub
from hub.server.writer import Writer

log = logging.getLogger("hub")
_ROOT = Path(__file__).resolve().parents[2]
_RESTART_PAUSE_S = 0.5
_READY_S = 30
_GRACE_S = 8  # for workers to finish what they are answering
_ACCEPT_MAX = 64  # connections taken in one turn of the loop


class HubProcess:
    """Listeners, workers, writer and control socket of one hub."""

    def __init__(self, config: HubConfig, *, as_json: bool = False) -> None:
        self._config = config
        self._as_json = as_json
        self._stop = asyncio.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._channels: deque[socket.socket] = deque()  # to hand accepted connections over

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or the control verb stop."""
        config = self._config
        listener = bind_listener(config)
        core = open_hub(config)
        try:
            await self._serve(core, listener)
        finally:
            core.close()
            listener.close()

    async def _serve(self, core: HubCore, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        writer = Writer(core)
        url = _url(self._config, listener)
        control = ControlServer(writer, url, self._stop.set)
        for _ in range(self._config.workers):
            self._spawn(self._keep_worker(writer))
        self._spawn(writer.tick())
        self._spawn(control.retention.run())
        try:
            await self._until_ready(writer)
            loop.add_reader(listener, self._accept, listener)
            await control.start()
            self._announce(core, url)
            await self._stop.wait()
        finally:
            loop.remove_reader(listener)
            await control.close()
            await self._end_workers(writer)
            core.store.layout.runtime.unlink(missing_ok=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _until_ready(self, writer: Writer) -> None:
        """A worker serves; the others may still be starting, their connections wait for them."""
        try:
            async with asyncio.timeout(_READY_S):
                await writer.on_worker_ready.wait()
        except TimeoutError as late:
            raise TimedOutError(f"no worker started within {_READY_S} s") from late

    def _accept(self, listener: socket.socket) -> None:
        """Deal new connections to the workers in turn, so that both cores have the same load."""
        for _ in range(_ACCEPT_MAX):
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                for _ in range(len(self._channels)):
                    channel = self._channels[0]
                    self._channels.rotate(-1)
                    try:
                        socket.send_fds(channel, [b"c"], [connection.fileno()])
                    except OSError:  # that worker is gone or drowning: the next one
                        continue
                    break

    async def _keep_worker(self, writer: Writer) -> None:
        """Run one worker for as long as the hub runs."""
        while not self._stop.is_set():
            ours, theirs = socket.socketpair()
            channel, accepted = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for end in (ours, theirs, channel, accepted):
                end.setblocking(False)  # noqa: FBT003 - as the call is
            child = await asyncio.to_thread(_start_worker, theirs, accepted)
            theirs.close()
            accepted.close()
            self._children.add(child)
            with channel:
                await self._attend(writer, ours, channel)
            await asyncio.to_thread(child.wait)
            self._children.discard(child)
            if not self._stop.is_set():
                log.warning("worker.ended pid=%d code=%s", child.pid, child.returncode)
                await asyncio.sleep(_RESTART_PAUSE_S)

    async def _attend(self, writer: Writer, link: socket.socket, channel: socket.socket) -> None:
        """Talk to one worker until it is gone."""
        gone = asyncio.Event()

        def lost(peer: ipc.Peer) -> None:
            writer.lost(peer)
            gone.set()

        loop = asyncio.get_running_loop()
        _, peer = await loop.create_unix_connection(lambda: ipc.Peer(writer.frame, lost), sock=link)
        peer.send(ipc.HELLO, 0, self._hello(writer.core))
        writer.peers.append(peer)
        self._channels.append(channel)
        await gone.wait()
        self._channels.remove(channel)

    def _hello(self, core: HubCore) -> bytes:
        config = self._config
        tls = [str(config.tls_cert), str(config.tls_key)] if config.tls_cert else None
        said = {
            "data_dir": str(config.data_dir),
            "hub_pk": core.identity.key.public.hex(),
            "hub_id": core.identity.hub_id.hex(),
            "open_admission": config.open_admission,
            "open_reads": config.open_reads,
            "stream_scoping": config.routing_key is not None,
            "routing_key": _routing_key_for_reads(config),
            "log_submits": config.log_submits,
            # Every worker has room for a whole batch, however many share the queue.
            "queue_max": max(
                config.limits.batch_items_max, config.limits.queue_max // config.workers
            ),
            "profiles": [[p.epoch_sec, p.pad_block] for p in config.profiles],
            "limits": asdict(config.limits),
            "tls": tls,
        }
        return json.dumps(said).encode()

    def _announce(self, core: HubCore, url: str) -> None:
        core.write_runtime(url)
        hub_pk, hub_id = core.identity.key.public.hex(), core.identity.hub_id.hex()
        if core.read_only is not None:
            log.error("hub.read_only reason=%s", core.read_only)
        said = f"hub ready url={url} hub_pk={hub_pk} hub_id={hub_id}"
        if self._as_json:
            document = {"url": url, "hub_pk": hub_pk, "hub_id": hub_id, "pid": os.getpid()}
            said = json.dumps(document)
        print(said, flush=True)  # noqa: T201 - the one line that says it is ready

    async def _end_workers(self, writer: Writer) -> None:
        self._stop.set()
        for peer in list(writer.peers):
            peer.close()
        ending = list(self._children)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await asyncio.gather(*[asyncio.to_thread(child.wait) for child in ending])
        for child in ending:
            child.kill()
        for task in list(self._tasks):
            task.cancel()


def _routing_key_for_reads(config: HubConfig) -> str | None:
    """Workers check the streams of read tokens by it, only where labels change with the epoch."""
    if config.routing_key is None or not any(profile.epoch_sec for profile in config.profiles):
        return None
    return config.routing_key.hex()


def _start_worker(link: socket.socket, accepted: socket.socket) -> subprocess.Popen[bytes]:
    fds = (link.fileno(), accepted.fileno())
    command = [sys.executable, "-m", "hub.server.worker", *map(str, fds)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(  # noqa: S603 - our own module
        command, pass_fds=fds, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )


def bind_listener(config: HubConfig) -> socket.socket:
    """The one listening socket; this process accepts and the workers serve."""
    family = socket.AF_INET6 if ":" in config.bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.bind, config.port))
        listener.listen(1024)
    except OSError as taken:
        listener.close()
        detail = f"{config.bind}:{config.port} cannot be bound: {taken.strerror}"
        raise VeenError(ErrorCode.CONFIG, detail) from taken
    listener.setblocking(False)  # noqa: FBT003 - as the call is
    return listener


def _url(config: HubConfig, listener: socket.socket) -> str:
    scheme = "https" if config.tls_cert else "http"
    host = f"[{config.bind}]" if ":" in config.bind else config.bind
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def check_config(config: HubConfig) -> None:
    """Refuse an unsafe start with a sentence."""
    local = config.bind in ("127.0.0.1", "::1", "localhost")
    if not local and not (config.tls_cert and config.tls_key):
        raise VeenError(ErrorCode.CONFIG, f"binding {config.bind} needs --tls-cert and --tls-key")
    if bool(config.tls_cert) != bool(config.tls_key):
        raise VeenError(ErrorCode.CONFIG, "--tls-cert and --tls-key go together")
    if config.take_over and config.fork:
        raise VeenError(ErrorCode.CONFIG, "--take-over and --fork exclude each other")
    if config.workers < 1:
        raise VeenError(ErrorCode.CONFIG, "a hub needs at least one worker")


def run(config: HubConfig, *, as_json: bool = False) -> None:
    """Serve in the foreground until told to stop; stdout gets one line when it is ready."""
    check_config(config)
    loglines.configure()
    uvloop.run(HubProcess(config, as_json=as_json).run())
