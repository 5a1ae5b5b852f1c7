"""One HTTP/1.1 connection: requests in, answers out in request order [RFC 9112 9].

A connection is fed by the event loop and never waits by itself: unless an answer is streamed it
has no task, no timer and no future. Its deadline is a number that the sweep compares with the
clock.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Final, cast

from hub.errors import ErrorCode
from hub.server.http_connections import Connections
from hub.server.http_exchange import Exchange
from hub.server.http_head import CONTINUE, LAST_CHUNK
from hub.server.http_reader import FEED_BYTES_MAX, Phase, RequestReader
from hub.server.http_types import App, HttpError, HttpLimits, Response

logger = logging.getLogger(__name__)

_JOIN_BYTES_MAX: Final = 65_536  # larger bodies are not copied behind their heads
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
_NOTHING: Final = memoryview(b"")


class HttpProtocol(asyncio.Protocol):
    """Reads, serves and answers one connection within its limits."""

    _transport: asyncio.Transport
    _reader: RequestReader

    def __init__(self, app: App, limits: HttpLimits, connections: Connections) -> None:
        self._app = app
        self._limits = limits
        self._connections = connections
        self._queue: deque[Exchange] = deque()  # being served, in request order
        self._ready: deque[Exchange] = deque()  # whole, waiting for a place in the queue
        self._held = _NOTHING  # received, not read yet
        self._stream: asyncio.Task[None] | None = None
        self._writable: asyncio.Event | None = None  # exists while the peer does not read
        self._write_deadline = 0.0
        self._unsent_bytes = 0
        self._deadline = 0.0
        self._advancing = False
        self._reading_paused = False
        self._linger = False  # the peer may still be sending: closing at once could cut the answer
        self._finished = False
        self._lost = False
        self._tls = False

    # ------------------------------------------------------------------ what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connections, limits = self._connections, self._limits
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=limits.write_buffer_bytes_max)
        self._tls = transport.get_extra_info("sslcontext") is not None
        peername = transport.get_extra_info("peername")
        peer = str(peername[0]) if isinstance(peername, tuple) else "local"
        self._reader = RequestReader(self._app, limits, connections.reception, peer)
        self._deadline = connections.now + limits.head_timeout_s
        connections.add(self)
        surplus = len(connections) - limits.connections_max
        if connections.draining or surplus > limits.connections_max // 16 + 16:
            self.abort()  # Even a refusal holds a socket for a while.
        elif surplus > 0:
            self._refuse(HttpError(ErrorCode.BUSY, "too many connections"))

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if (
            reader.phase is Phase.BOUNDARY
            and self._has_room()
            and not self._ready
            and not self._held
        ):
            received = reader.take_known(data)
            if received is not None:
                self._serve(Exchange(self, *received))
                return
        if reader.phase is Phase.CLOSED or self._lost:
            return
        # TLS may deliver what it had already decrypted although reading is paused.
        self._held = memoryview(bytes(self._held) + data if self._held else data)
        self._advance()

    def eof_received(self) -> bool:
        """Let a peer that only closed its own side have the answers it is owed."""
        self._stop_reading()
        return bool(self._queue or self._ready) and not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # A peer that went away is no error of ours.
        self._lost = True
        self._connections.discard(self)
        self._stop_reading()
        if self._stream is not None:
            self._stream.cancel()
            self._queue.popleft()  # Its body is closed when its task has ended.
        for exchange in self._queue:
            if exchange.response is not None:
                self._connections.discard_body(exchange.response)
        self._queue.clear()
        self._ready.clear()

    def pause_writing(self) -> None:
        self._writable = asyncio.Event()
        self._start_write_deadline()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set()
        self._advance()

    # ------------------------------------------------------------------ what the server calls

    def on_sweep(self, now: float) -> None:
        """Cut a peer that is slower than its limits allow."""
        if self._lost:
            return
        if self._writable is not None or self._finished:
            self._check_write(now)
        if now > self._deadline and (self._finished or not self._reading_paused):
            self._on_deadline(now)

    def _check_write(self, now: float) -> None:
        """Wait for a peer that reads slowly, but not for one that does not read at all."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._write_deadline = now + self._limits.write_timeout_s
        elif unsent_bytes and now > self._write_deadline:
            self.abort()
        self._unsent_bytes = unsent_bytes
        if self._finished and unsent_bytes:
            self._deadline = now + self._limits.linger_timeout_s

    def _on_deadline(self, now: float) -> None:
        phase = self._reader.phase
        if self._finished:
            self.abort()
        elif phase is Phase.HEAD:
            self._refuse(HttpError(ErrorCode.FORMAT, "the head took too long"), status=408)
        elif phase is Phase.BODY:
            if not self._reader.is_body_fast(now):
                self._refuse(HttpError(ErrorCode.FORMAT, "the body took too long"), status=408)
        elif not self._queue and not self._ready:
            # Idle: a 408 here could be taken for the answer to the peer's next request.
            self._stop_reading()
            self._finish()

    def drain(self) -> None:
        """Take no new request; what has begun is finished and answered."""
        if self._reader.phase is Phase.BOUNDARY:
            self._linger = bool(self._queue or self._ready)
            self._stop_reading()
            self._settle()

    def abort(self) -> None:
        self._lost = True
        self._transport.abort()

    # ------------------------------------------------------------------ reading

    def _has_room(self) -> bool:
        return self._writable is None and len(self._queue) < self._limits.pipeline_max

    def _advance(self) -> None:
        """Serve what is ready and read what is held, as far as the bounds allow."""
        if self._advancing or self._lost:
            return  # An answer given inside serve() comes back here; the outer call goes on.
        self._advancing = True
        try:
            while self._has_room():
                if self._ready:
                    self._serve(self._ready.popleft())
                elif self._held:
                    self._read()
                else:
                    break
        finally:
            self._advancing = False
        self._settle()

    def _read(self) -> None:
        """Read one bounded piece of what is held."""
        reader, before = self._reader, self._reader.phase
        piece = bytes(self._held[:FEED_BYTES_MAX])
        self._held = self._held[FEED_BYTES_MAX:]
        refusal = None
        try:
            reader.feed(piece)
        except HttpError as refused:
            refusal = refused
        # Requests that were whole before the fault are served before it is answered.
        self._ready.extend(Exchange(self, *received) for received in reader.complete)
        progress = bool(reader.complete) or reader.phase is not before
        reader.complete.clear()
        if refusal is not None:
            self._refuse(refusal)
        elif reader.phase is Phase.CLOSED or (
            self._connections.draining and reader.phase is Phase.BOUNDARY
        ):
            self._stop_reading()
        elif progress:
            self._set_deadline()

    def _start_write_deadline(self) -> None:
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._write_deadline = self._connections.now + self._limits.write_timeout_s

    def _set_deadline(self) -> None:
        limits, phase = self._limits, self._reader.phase
        if phase is Phase.HEAD:
            timeout_s = limits.head_timeout_s
        elif phase is Phase.BODY:
            timeout_s = limits.body_timeout_s
        else:
            timeout_s = limits.idle_timeout_s
        self._deadline = self._connections.now + timeout_s

    def _stop_reading(self) -> None:
        self._reader.close()
        self._held = _NOTHING

    def _settle(self) -> None:
        """Listen to the socket or not, and close it when everything is said."""
        if self._lost:
            return
        backlog = bool(self._held or self._ready or self._writable is not None)
        if backlog and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        elif not backlog and self._reading_paused:
            self._reading_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
            if not self._finished:
                self._set_deadline()
        if self._queue or self._ready:
            return
        if self._reader.phase is Phase.CLOSED:
            self._finish()
        elif self._reader.continue_due:
            self._reader.continue_due = False
            self._transport.write(CONTINUE)

    def _finish(self) -> None:
        """Close; a peer that may still be sending is given time to read the answer first."""
        if self._finished:
            return
        self._finished = True
        self._start_write_deadline()
        self._deadline = self._connections.now + self._limits.linger_timeout_s
        if not self._linger:
            self._transport.close()
        elif self._transport.can_write_eof():
            self._transport.write_eof()

    # ------------------------------------------------------------------ serving and answering

    def _serve(self, exchange: Exchange) -> None:
        self._queue.append(exchange)
        if exchange.response is not None:  # a refusal of ours, in its turn
            self._flush()
            return
        try:
            self._app.serve(exchange.request, exchange.respond)
        except Exception:
            logger.exception("http.serve_failed request_id=%s", exchange.request.request_id)
            if exchange.response is None:
                exchange.respond(self._failure(exchange))

    def _failure(self, exchange: Exchange) -> Response:
        request_id = exchange.request.request_id
        return self._app.refuse(ErrorCode.INTERNAL, "the server failed", request_id)

    def _refuse(self, refusal: HttpError, *, status: int | None = None) -> None:
        """Answer a refusal in its turn; what follows on the connection cannot be trusted."""
        request_id = self._reader.request_id
        response = self._app.refuse(refusal.code, refusal.detail, request_id)
        if status is not None:
            response = replace(response, status=status)
        self._stop_reading()
        self._linger = True
        self._ready.append(Exchange.refused(self, request_id, response))
        self._advance()

    def on_answer(self, exchange: Exchange) -> None:
        """Send the answer if it is its turn; a peer that is gone gets none."""
        if self._lost:
            assert exchange.response is not None
            self._connections.discard_body(exchange.response)
        elif self._queue[0] is exchange:
            self._flush()

    def _flush(self) -> None:
        """Send every answer whose turn has come, then go on with what waited for it."""
        queue = self._queue
        while queue and (response := queue[0].response) is not None and self._stream is None:
            if isinstance(response.body, bytes):
                self._send(queue[0], response, response.body)
                queue.popleft()
            else:
                self._stream = self._connections.spawn(
                    self._send_stream(queue[0], response, response.body)
                )
                self._stream.add_done_callback(partial(self._on_streamed, response))
        if self._advancing:
            return
        if self._ready or self._held or self._reading_paused:
            self._advance()
        elif not queue:
            if self._reader.phase is Phase.BOUNDARY:
                self._deadline = self._connections.now + self._limits.idle_timeout_s
            else:
                self._settle()

    def _send(self, exchange: Exchange, response: Response, body: bytes) -> None:
        try:
            head = self._head(exchange, response, length=len(body))
        except ValueError:
            logger.exception("http.response_invalid request_id=%s", exchange.request.request_id)
            response = self._failure(exchange)
            assert isinstance(response.body, bytes)
            body = response.body
            head = self._head(exchange, response, length=len(body))
        if exchange.head.head_only:
            self._transport.write(head)
        elif len(body) <= _JOIN_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def _head(self, exchange: Exchange, response: Response, *, length: int | None) -> bytes:
        is_last = self._reader.phase is Phase.CLOSED and len(self._queue) == 1 and not self._ready
        return self._connections.heads.render(
            response,
            exchange.request.request_id,
            length=length,
            chunked=length is None and exchange.head.version == "1.1",
            close=is_last,
        )

    async def _send_stream(
        self, exchange: Exchange, response: Response, body: AsyncIterator[bytes]
    ) -> None:
        """Send parts as fast as the peer reads; a failure within is shown by a cut connection."""
        chunked = exchange.head.version == "1.1"
        begun = False
        try:
            if exchange.head.head_only:
                self._transport.write(self._head(exchange, response, length=None))
                return
            async for part in body:
                framed = b"%x\r\n%b\r\n" % (len(part), part) if chunked and part else part
                if not begun:
                    framed = self._head(exchange, response, length=None) + framed
                    begun = True
                self._transport.write(framed)
                if self._writable is not None:
                    await self._writable.wait()
            end = LAST_CHUNK if chunked else b""
            if not begun:
                end = self._head(exchange, response, length=None) + end
            self._transport.write(end)
        except Exception:
            logger.exception("http.stream_failed request_id=%s", exchange.request.request_id)
            if begun:
                self._reset()
            else:
                failure = self._failure(exchange)
                assert isinstance(failure.body, bytes)
                self._send(exchange, failure, failure.body)

    def _reset(self) -> None:
        """Cut in a way that even HTTP/1.0, where the end ends a body, cannot take for the end."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.abort()

    def _on_streamed(self, response: Response, _: asyncio.Task[None]) -> None:
        self._stream = None
        self._connections.discard_body(response)
        if not self._lost:
            self._queue.popleft()
            self._flush()
