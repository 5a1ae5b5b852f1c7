"""The recorder for asyncio programs: the same spool, awaited instead of waited for [SDR0 3.2]."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self, Unpack

from recorder.recorded import Recorded
from recorder.sdk import EventFields, Recorder, RecorderState
from recorder.spool import BYTES_MAX


class AsyncRecorder:
    """Wraps a Recorder; one for all tasks of an event loop."""

    def __init__(
        self,
        connection_file: Path | str,
        spool_dir: Path | str | None = None,
        *,
        token_file: Path | str | None = None,
        spool_bytes_max: int = BYTES_MAX,
    ) -> None:
        self._recorder = Recorder(
            connection_file, spool_dir, token_file=token_file, spool_bytes_max=spool_bytes_max
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def record(self, **event: Unpack[EventFields]) -> None:
        """As `Recorder.record`: judged, and in the spool when this returns."""
        # A write into the page cache takes less than handing it to a thread would.
        self._recorder.record(**event)

    async def record_json(self, found: object) -> None:
        """As `Recorder.record_json`: an event as the gateway would take it."""
        self._recorder.record_json(found)

    def submit(self, **event: Unpack[EventFields]) -> asyncio.Future[Recorded]:
        """As `record`, with a future of the verified receipt to await whenever it suits."""
        return asyncio.wrap_future(self._recorder.submit(**event))

    def submit_json(self, found: object) -> asyncio.Future[Recorded]:
        """As `submit`, for an event as the gateway would take it."""
        return asyncio.wrap_future(self._recorder.submit_json(found))

    async def record_and_wait(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Recorder.record_and_wait
        **event: Unpack[EventFields],
    ) -> Recorded:
        """As `record`, and returns with the receipt; TimeoutError leaves the event on its way."""
        return await asyncio.wait_for(self.submit(**event), timeout)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as Recorder.flush
        """Whether everything recorded so far is answered, now or within the time."""
        return await asyncio.to_thread(self._recorder.flush, timeout)

    def state(self) -> RecorderState:
        """How the spool is doing."""
        return self._recorder.state()

    async def close(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109 - as Recorder.close
        """Give the rest so much time, then stop; whether nothing was left."""
        return await asyncio.to_thread(self._recorder.close, timeout)
