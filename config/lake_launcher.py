"""How web and API ask for a fresher lake: a task for the worker, then a look at the manifest.

No result travels back: the manifest itself says how far the lake is. A worker that is only starting
has no broker yet, and Spark takes its time when it is cold: both are waited for, inside the time
limit, but only by some of the threads that serve everybody [architecture, The lake].
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.conf import settings
from kombu.exceptions import OperationalError

from hub.types import Label
from recorder.lake.folder import LakeFolder
from recorder.lake_launcher import lake_behind
from recorder.models import Stream

LOOK_S: Final = 0.03
SEND_AGAIN_S: Final = 0.5
WAITING_MAX: Final = 4  # of the eight threads of the web process

_seats: Final = threading.BoundedSemaphore(WAITING_MAX)


class CeleryLake:
    """The LakeLauncher of `veen up`."""

    def bring_up_to(self, streams: Mapping[str, int], timeout_s: float) -> None:
        """Return when the lake holds each stream up to its sequence, or raise lake_behind."""
        waits = {name: _Wait(settings.VEEN_LAKE_DIR, name, seq) for name, seq in streams.items()}
        if all(wait.is_over() for wait in waits.values()):
            return
        if not _seats.acquire(blocking=False):
            raise lake_behind()
        try:
            self._wait(streams, waits, time.monotonic() + timeout_s)
        finally:
            _seats.release()

    def _wait(
        self, streams: Mapping[str, int], waits: Mapping[str, _Wait], deadline: float
    ) -> None:
        is_asked, next_try = False, 0.0
        while missing := {name: seq for name, seq in streams.items() if not waits[name].is_over()}:
            now = time.monotonic()
            if now >= deadline:
                raise lake_behind()
            if not is_asked and now >= next_try:
                is_asked, next_try = self._ask(missing, deadline - now), now + SEND_AGAIN_S
            time.sleep(LOOK_S)

    @staticmethod
    def _ask(missing: Mapping[str, int], timeout_s: float) -> bool:
        """Whether the broker took the task; without a worker of its own there may never be one."""
        from config.celery import app  # noqa: PLC0415 - Celery costs a third of a second

        try:
            app.send_task(
                "config.tasks.bring_up_to",
                kwargs={"streams": dict(missing), "timeout_s": timeout_s},
                expires=max(1.0, timeout_s),
                retry=False,
            )
        except (OperationalError, OSError) as refusal:
            if not settings.VEEN.run_worker and settings.VEEN.redis_url is None:
                raise lake_behind() from refusal
            return False
        return True


class _Wait:
    """Looks at one manifest, and reads it only when it was replaced."""

    def __init__(self, lake: Path, stream: str, seq: int) -> None:
        row = Stream.objects.get(name=stream)
        self._folder = LakeFolder.of(lake, Label(bytes.fromhex(row.label)))
        self._seq = seq
        self._seen = (0, 0)
        self._upto = 0

    def is_over(self) -> bool:
        try:
            found = self._folder.manifest_path.stat()
        except FileNotFoundError:
            return self._seq == 0
        if (found.st_mtime_ns, found.st_ino) != self._seen:
            manifest = self._folder.read()
            self._seen = (found.st_mtime_ns, found.st_ino)
            self._upto = 0 if manifest is None else manifest.upto_seq
        return self._upto >= self._seq
