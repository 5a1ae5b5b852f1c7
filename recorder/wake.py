"""One byte that wakes the author; lost ones cost half a second, never an act [architecture]."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DATAGRAM_BYTES: Final = 1


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Socket paths are short by law of the kernel, so a long one is reached by its directory."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def send(path: Path) -> None:
    """Wake whoever listens; nobody there, or a full queue, is fine."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.settimeout(0)
        with _short(path) as name:
            link.sendto(b"w", name)


class Listener:
    """The author's end; the socket file is for its owner only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        before = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)
            with _short(path) as name:
                self._socket.bind(name)
        except BaseException:
            self._socket.close()
            raise
        finally:
            os.umask(before)

    def wait(self, timeout_s: float) -> bool:
        """Whether somebody called within the time; all calls so far count as one."""
        readable, _, _ = select.select([self._socket], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(DATAGRAM_BYTES):
                pass
        return bool(readable)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._socket.close()
        self._path.unlink(missing_ok=True)
