"""Events that were refused for good: kept in a file of JSON lines, counted, never dropped [SDR0].

Each line is {"refused_at", "code", "detail", "stream", "key", "event"}; `event` is what
`veen recorder record` takes again once the reason is gone.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Final

from hub.errors import StoreError, VeenError
from hub.storage.disk import Disk
from recorder.event import RecorderEvent, format_time

NAME: Final = "dead-letters.ndjson"
_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e]")


class DeadLetters:
    """The file of one spool directory, written by whoever drains it."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._path = folder / NAME
        self._disk = disk or Disk()
        self._guard = threading.Lock()

    def count(self) -> int:
        """How many events it holds."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as lines:
            return sum(1 for _ in lines)

    def add(self, *, stream: str, body: bytes, key: str | None, refusal: VeenError) -> None:
        """Write one event down; it is durable when this returns, else E.STORE is raised."""
        line = {
            "refused_at": format_time(int(time.time() * 1000)),
            "code": str(refusal.code),
            "detail": refusal.detail,
            "stream": stream,
            "key": key,
        }
        # json escapes everything but ASCII, so that no event forges a line or steers a terminal.
        data = f'{json.dumps(line)[:-1]}, "event": {_shown(body)}}}\n'.encode()
        with self._guard:
            try:
                self._append(data)
            except OSError as flaw:
                reason = flaw.strerror or str(flaw)
                raise StoreError(f"{self._path.name} cannot be written ({reason})") from flaw

    def _append(self, data: bytes) -> None:
        is_new = not self._path.exists()
        fd = self._disk.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            end = self._disk.size(fd)
            if end and self._disk.pread(fd, 1, end - 1) != b"\n":
                data = b"\n" + data  # Somebody stopped inside a line.
            self._disk.pwrite(fd, data, end)
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        if is_new:
            self._disk.sync_dir(self._path.parent)


def _shown(body: bytes) -> str:
    """The event as JSON text, its payload with numbers as exact as they were recorded."""
    event = RecorderEvent.decode(body)
    fields = {
        "subject_id": event.subject_id,
        "event_type": event.event_type,
        "event_time": format_time(event.event_time),
        "origin": event.origin,
    }
    return f'{json.dumps(fields)[:-1]}, "payload": {_in_ascii(event.payload)}}}'


def _in_ascii(text: str) -> str:
    """JSON text with all but plain ASCII escaped; such characters stand in strings only."""
    return _NOT_PLAIN.sub(lambda found: json.dumps(found[0])[1:-1], text)
