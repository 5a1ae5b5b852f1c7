"""One JSON line per submit [OBS0.2]: prefixes and figures, never payloads.

Every value is a number, a code or hex of our own making, so nothing a client sends can forge or
break a line. Lines of one turn of the loop are written together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import BinaryIO

from hub.errors import VeenError
from hub.types import LeafHash
from hub.wire.msg import Msg
from hub.wire.receipt import stream_seq_of


class SubmitLog:
    """Buffers lines; without a sink it does nothing."""

    __slots__ = ("_lines", "_sink")

    def __init__(self, sink: BinaryIO | None) -> None:
        self._sink = sink
        self._lines: list[str] = []

    def committed(  # noqa: PLR0917 - the fields of OBS0.2
        self,
        msg: Msg,
        leaf: LeafHash,
        bytes_in: int,
        receipt: bytes,
        verify_ms: float,
        commit_ms: float,
    ) -> None:
        """A MSG that is in the log."""
        if self._sink is None:
            return
        self._add(
            f'"label":"{msg.label.hex()}","client_id_prefix":"{msg.client_id.hex()[:8]}",'
            f'"stream_seq":{stream_seq_of(receipt)},'
            f'"leaf_hash_prefix":"{leaf.hex()[:8]}","bytes_in":{bytes_in},'
            f'"bytes_out":{len(receipt)},"verify_ms":{verify_ms:.3f},"commit_ms":{commit_ms:.3f}'
        )

    def refused(  # noqa: PLR0917 - the fields of OBS0.2
        self,
        data: bytes,
        refusal: VeenError,
        verify_ms: float,
        commit_ms: float = 0.0,
        msg: Msg | None = None,
        leaf: LeafHash | None = None,
    ) -> None:
        """A MSG that was refused; what its bytes did not tell is null."""
        if self._sink is None:
            return
        label = f'"{msg.label.hex()}"' if msg is not None else "null"
        client = f'"{msg.client_id.hex()[:8]}"' if msg is not None else "null"
        prefix = f'"{leaf.hex()[:8]}"' if leaf is not None else "null"
        self._add(
            f'"label":{label},"client_id_prefix":{client},"stream_seq":null,'
            f'"leaf_hash_prefix":{prefix},"code":"{refusal.code}","bytes_in":{len(data)},'
            f'"bytes_out":0,"verify_ms":{verify_ms:.3f},"commit_ms":{commit_ms:.3f}'
        )

    def _add(self, fields: str) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(
            f'{{"ts":{time.time():.3f},"level":"info","component":"hub","event":"submit",{fields}}}\n'
        )

    def _flush(self) -> None:
        lines = "".join(self._lines)
        self._lines.clear()
        if self._sink is not None:
            # A closed terminal or a full disk costs log lines, never the hub.
            with contextlib.suppress(OSError):
                self._sink.write(lines.encode())
                self._sink.flush()
