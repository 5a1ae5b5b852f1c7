"""The connections of one process, and the sweep that keeps their deadlines [assurance C11]."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Coroutine
from email.utils import formatdate
from typing import Final, Protocol

from hub.server.http_head import ResponseHeads
from hub.server.http_reader import Reception
from hub.server.http_types import HttpLimits, Response

logger = logging.getLogger(__name__)

_SWEEP_PERIOD_S_MAX: Final = 1.0


class Connection(Protocol):
    def on_sweep(self, now: float) -> None: ...

    def drain(self) -> None: ...

    def abort(self) -> None: ...


class Connections:
    """Everything the connections of one server share."""

    __slots__ = (
        "_loop",
        "_open",
        "_sweep_handle",
        "_tasks",
        "draining",
        "emptied",
        "heads",
        "limits",
        "now",
        "reception",
    )

    def __init__(self, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = limits
        self._loop = loop
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep_handle: asyncio.TimerHandle | None = None
        self.draining = False
        self.emptied = asyncio.Event()
        self.heads = ResponseHeads()
        self.reception = Reception(os.urandom(3))
        self.now = time.monotonic()  # as of the last sweep: deadlines need no better clock

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        self._open.add(connection)
        self.emptied.clear()

    def discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self.emptied.set()

    def open(self) -> list[Connection]:
        """A copy, because a connection leaves the set while it is being told something."""
        return list(self._open)

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run work as a task that is not collected before it ends."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def discard_body(self, response: Response) -> None:
        """Close the iterator of a body that will not be sent further."""
        if isinstance(response.body, AsyncGenerator):
            self.spawn(_close(response.body))

    def sweep(self) -> None:
        """Advance the coarse clock, let every connection look at it, and come again."""
        limits = self.limits
        shortest_s = min(
            limits.head_timeout_s,
            limits.body_timeout_s,
            limits.idle_timeout_s,
            limits.write_timeout_s,
            limits.linger_timeout_s,
        )
        period_s = min(_SWEEP_PERIOD_S_MAX, shortest_s / 4)
        self._sweep_handle = self._loop.call_later(period_s, self.sweep)
        self.now = time.monotonic()
        self.heads.date = formatdate(usegmt=True)
        for connection in self.open():
            connection.on_sweep(self.now)

    def stop(self) -> None:
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()


async def _close(body: AsyncGenerator[bytes, None]) -> None:
    try:
        await body.aclose()
    except Exception:
        logger.exception("http.body_close_failed")
