"""The syslog listener: UDP and TCP into one recorder [RFC 5426, RFC 6587].

A full spool holds TCP peers back; over UDP the message is lost, counted and said so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from typing import Final

from hub.errors import StoreError, VeenError
from recorder.adapters import syslog
from recorder.adapters.framing import Framer, FramingError
from recorder.adapters.guard import AllowList
from recorder.adapters.sockets import bound_tcp, bound_udp
from recorder.sdk import Recorder

logger = logging.getLogger("adapter.syslog")

CONNECTIONS_MAX: Final = 256
IDLE_S: Final = 3600.0
_CHUNK_BYTES: Final = 65_536
_RETRY_S: Final = 0.5


@dataclass
class Counts:
    """What became of the messages."""

    recorded: int = 0
    lost: int = 0  # over UDP, while the spool was full
    refused: int = 0  # by the recorder
    forbidden: int = 0  # of peers that are not on the list
    broken: int = 0  # connections that could not be cut into messages


class SyslogAdapter:
    """One producer, one event type, one list of peers."""

    def __init__(self, recorder: Recorder, *, event_type: str, allow: AllowList) -> None:
        self._recorder = recorder
        self._event_type = event_type
        self._allow = allow
        self.counts = Counts()
        self._connections = 0
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None

    async def listen(
        self, bind: str, *, udp_port: int | None, tcp_port: int | None
    ) -> dict[str, int]:
        """Open the sockets; returns their ports."""
        udp = None if udp_port is None else bound_udp(bind, udp_port)
        tcp = None if tcp_port is None else bound_tcp(bind, tcp_port)
        return await self.listen_on(udp=udp, tcp=tcp)

    async def listen_on(
        self, *, udp: socket.socket | None, tcp: socket.socket | None
    ) -> dict[str, int]:
        """Serve on sockets that are bound already; returns their ports."""
        ports: dict[str, int] = {}
        if udp is not None:
            loop = asyncio.get_running_loop()
            self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=udp)
            ports["udp"] = udp.getsockname()[1]
        if tcp is not None:
            self._tcp = await asyncio.start_server(self._serve, sock=tcp)
            ports["tcp"] = tcp.getsockname()[1]
        return ports

    async def close(self) -> None:
        """Stop listening."""
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()

    def datagram(self, data: bytes, peer: str) -> None:
        """One message over UDP."""
        if not self._allow.allows(peer):
            self.counts.forbidden += 1
            return
        data = data[: syslog.MESSAGE_BYTES_MAX].rstrip(b"\n\0")
        try:
            self._record(data, peer)
        except StoreError as full:
            self.counts.lost += 1
            if self.counts.lost in (1, 10, 100) or self.counts.lost % 1000 == 0:
                logger.warning("message.lost total=%d code=%s", self.counts.lost, full.code)

    def _record(self, data: bytes, peer: str) -> None:
        if not data:
            return
        try:
            self._recorder.record_json(
                syslog.event_of(data, event_type=self._event_type, peer=peer)
            )
        except StoreError:
            raise
        except VeenError as refusal:
            self.counts.refused += 1
            logger.warning("message.refused code=%s", refusal.code)
        else:
            self.counts.recorded += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str(writer.get_extra_info("peername")[0])
        if not self._allow.allows(peer) or self._connections >= CONNECTIONS_MAX:
            self.counts.forbidden += 1
            writer.close()
            return
        self._connections += 1
        try:
            await self._read(reader, peer)
        except (FramingError, OSError, TimeoutError):
            self.counts.broken += 1
            logger.warning("connection.broken")
        finally:
            self._connections -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader, peer: str) -> None:
        framer = Framer(syslog.MESSAGE_BYTES_MAX)
        while data := await asyncio.wait_for(reader.read(_CHUNK_BYTES), IDLE_S):
            for message in framer.feed(data):
                await self._record_or_wait(message, peer)
        for message in framer.end():
            await self._record_or_wait(message, peer)

    async def _record_or_wait(self, message: bytes, peer: str) -> None:
        while True:
            try:
                self._record(message, peer)
            except StoreError:
                await asyncio.sleep(_RETRY_S)  # The peer is not read from meanwhile.
            else:
                return


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, adapter: SyslogAdapter) -> None:
        self._adapter = adapter

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._adapter.datagram(data, str(addr[0]))
