"""An adapter as a process of the bundle, on sockets that its supervisor keeps [architecture].

What is sent while the process is restarted waits in those sockets instead of being refused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import uvloop

from hub.server import loglines
from hub.server.http import HttpLimits, start_server
from hub.storage.disk import Disk
from recorder import sdk_standing
from recorder.adapters.guard import AllowList
from recorder.adapters.otlp_server import OtlpAdapter
from recorder.adapters.sockets import inherited
from recorder.adapters.syslog_server import SyslogAdapter
from recorder.sdk import Recorder

logger = logging.getLogger("adapter")

_GRACE_S: Final = 5.0
SUBJECT: Final = "enduser.id"  # the attribute of an OTLP record that names its subject


def until_stopped(serve: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    """Run until SIGTERM or SIGINT sets the event."""

    async def work() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(stop)

    uvloop.run(work())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sockets:
    """What the supervisor bound; OTLP has no datagrams."""

    udp_fd: int | None
    tcp_fd: int
    ready_file: Path

    def say_ready(self) -> None:
        """With the pid, so that the file of a dead process is not taken for ours."""
        Disk().write_atomic(self.ready_file, json.dumps({"pid": os.getpid()}).encode() + b"\n")


def _run_syslog(recorder: Recorder, event_type: str, allow: AllowList, sockets: Sockets) -> None:
    made = SyslogAdapter(recorder, event_type=event_type, allow=allow)

    async def serve(stop: asyncio.Event) -> None:
        await made.listen_on(udp=inherited(sockets.udp_fd), tcp=inherited(sockets.tcp_fd))
        sockets.say_ready()
        await stop.wait()
        await made.close()

    until_stopped(serve)
    counts = made.counts
    logger.info(
        "adapter.stopped recorded=%d refused=%d lost=%d forbidden=%d",
        counts.recorded, counts.refused, counts.lost, counts.forbidden,
    )  # fmt: skip


def _run_otlp(recorder: Recorder, event_type: str, allow: AllowList, sockets: Sockets) -> None:
    made = OtlpAdapter(recorder, event_type=event_type, subject=SUBJECT, allow=allow)

    async def serve(stop: asyncio.Event) -> None:
        listening = inherited(sockets.tcp_fd)
        assert listening is not None
        server = await start_server(made, listening, HttpLimits())
        sockets.say_ready()
        await stop.wait()
        await server.close(_GRACE_S)

    until_stopped(serve)
    logger.info("adapter.stopped recorded=%d refused=%d", made.recorded, made.refused)


_KINDS: Final = MappingProxyType({"syslog": _run_syslog, "otlp": _run_otlp})


def _spool_dir(spools: Path | None, connection: Path) -> Path | None:
    """A rotated producer has another key, and a spool belongs to one key."""
    if spools is None:
        return None
    return spools / sdk_standing.read_connection(connection).principal.hex()


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `python -m recorder.adapters`."""
    parser = argparse.ArgumentParser(prog="recorder.adapters", description=__doc__)
    parser.add_argument("kind", choices=tuple(_KINDS))
    parser.add_argument("--connection", type=Path, required=True)
    parser.add_argument("--spools", type=Path, help="a spool for each producer key in it")
    parser.add_argument("--event-type", required=True)
    parser.add_argument("--allow", action="append", default=[], metavar="CIDR")
    parser.add_argument("--udp-fd", type=int, help="an inherited socket")
    parser.add_argument("--tcp-fd", type=int, required=True, help="an inherited socket")
    parser.add_argument("--ready-file", type=Path, required=True)
    found = parser.parse_args(args)
    loglines.configure(found.kind)
    sockets = Sockets(udp_fd=found.udp_fd, tcp_fd=found.tcp_fd, ready_file=found.ready_file)
    with Recorder(found.connection, _spool_dir(found.spools, found.connection)) as recorder:
        _KINDS[found.kind](recorder, found.event_type, AllowList(found.allow), sockets)
