"""Signatures verified by child processes, so that no check waits for another's Python [SSOT 3.2].

Two threads that verify one signature after the other stop each other at every one of them while a
third runs Python code; children on the other cores do not. A request is 128 bytes for each
signature (signature, digest, public key), the answer is one byte for all of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, Self

from nacl import bindings
from nacl.exceptions import BadSignatureError

from hub.crypto.signing import Signed, are_valid

ROW_BYTES: Final = 128
_COUNT_BYTES: Final = 4
_VALID, _INVALID = b"\x01", b"\x00"
_END_S: Final = 5
_ROOT: Final = Path(__file__).resolve().parents[1]

Answer = Callable[[], bool]


class Verifiers:
    """A few children that are asked in turn; for one thread at a time."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._children: list[subprocess.Popen[bytes]] = []
        self._asked = 0
        with contextlib.suppress(OSError):  # no more processes here: fewer children, or none
            while len(self._children) < count:
                self._children.append(_start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, signed: Sequence[Signed]) -> Answer:
        """Have them verified meanwhile; whether all of them do. Answers are taken in order."""
        if not self._children:
            return lambda: are_valid(signed)
        child = self._children[self._asked % len(self._children)]
        self._asked += 1
        rows = b"".join([signature + digest + key for key, signature, digest in signed])
        try:
            _pipe(child.stdin).write(len(signed).to_bytes(_COUNT_BYTES, "big") + rows)
            _pipe(child.stdin).flush()
        except OSError:  # it ended; nothing is taken for valid because of that
            return lambda: are_valid(signed)

        def answer() -> bool:
            found = _pipe(child.stdout).read(1)
            return are_valid(signed) if not found else found == _VALID

        return answer

    def close(self) -> None:
        """End the children, also those that still verify."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait(_END_S)
            for pipe in (child.stdin, child.stdout):
                with contextlib.suppress(BrokenPipeError):  # what it was still to read
                    _pipe(pipe).close()


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "hub.verifiers"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer until the other side goes away."""
    while len(head := source.read(_COUNT_BYTES)) == _COUNT_BYTES:
        count = int.from_bytes(head, "big")
        rows = source.read(count * ROW_BYTES)
        if len(rows) != count * ROW_BYTES:
            return
        sink.write(_VALID if _are_valid(rows) else _INVALID)
        sink.flush()


def _are_valid(rows: bytes) -> bool:
    try:
        for at in range(0, len(rows), ROW_BYTES):
            key_at = at + ROW_BYTES - bindings.crypto_sign_PUBLICKEYBYTES
            bindings.crypto_sign_open(rows[at:key_at], rows[key_at : at + ROW_BYTES])
    except (BadSignatureError, ValueError):
        return False
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this
    serve(sys.stdin.buffer, sys.stdout.buffer)
