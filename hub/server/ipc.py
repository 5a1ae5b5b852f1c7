"""Length-prefixed frames between HTTP workers and the writer, on a socket pair [stack.md].

    frame = u32be length || u8 kind || u64be id || payload

An answer carries the id of its question and the kind OK or REFUSED. Kinds from HELLO on are said
without being asked.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Final, cast

from hub.errors import ErrorCode, VeenError
from hub.wire import cbor

HEAD: Final = struct.Struct(">IBQ")
_LENGTH: Final = struct.Struct(">I")
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024

OK: Final = 0
REFUSED: Final = 1
SUBMIT: Final = 2  # leaf_hash || MSG -> RECEIPT
AUTHORIZE: Final = 3  # cap_token -> CBOR {auth_ref, expires_at}
FIND_LEAF: Final = 4  # leaf_hash -> RECEIPT
EQUIVOCATION: Final = 5  # CBOR array of two RECEIPTs -> CBOR {ok}
METRICS: Final = 6  # -> Prometheus text
HEALTH: Final = 7  # -> CBOR
READY: Final = 8  # -> CBOR {ready, reasons}
ATTACH: Final = 9  # CBOR [auth_ref, coid, bytes, sig] -> empty: may this attachment be stored?
SUBMIT_MANY: Final = 10  # packed (leaf_hash || MSG) -> packed (OK or REFUSED, RECEIPT or refusal)
HELLO: Final = 16  # writer -> worker: settings, once
REFRESH: Final = 17  # writer -> worker: identity or files changed
SAMPLE: Final = 18  # worker -> writer: its metrics


def frame(kind: int, ident: int, payload: bytes) -> bytes:
    """One frame."""
    return HEAD.pack(len(payload), kind, ident) + payload


def refusal(flaw: VeenError) -> bytes:
    """A refusal as a payload."""
    return cbor.encode([str(flaw.code), flaw.detail, flaw.retry_after_s])


def as_error(payload: bytes) -> VeenError:
    """The refusal again, on the other side."""
    code, detail, retry = cast("list[str | int | None]", cbor.decode(payload))
    return VeenError(
        ErrorCode(str(code)), str(detail), retry_after_s=None if retry is None else int(retry)
    )


def pack(items: Iterable[bytes]) -> bytes:
    """Several byte strings as one, each behind its length."""
    return b"".join([part for item in items for part in (_LENGTH.pack(len(item)), item)])


def unpack(data: bytes) -> list[bytes]:
    """The byte strings again."""
    items: list[bytes] = []
    offset = 0
    while offset < len(data):
        start = offset + _LENGTH.size
        offset = start + int.from_bytes(data[offset:start], "big")
        items.append(data[start:offset])
    return items


class Peer(asyncio.Protocol):
    """One end of the pair: whole frames in, frames of one turn of the loop out in one write."""

    def __init__(
        self,
        on_frame: Callable[[Peer, int, int, bytes], None],
        on_lost: Callable[[Peer], None],
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Cut frames out of the stream."""
        buffer = self._buffer
        buffer += data
        offset, size = 0, len(buffer)
        while size - offset >= HEAD.size:
            length, kind, ident = HEAD.unpack_from(buffer, offset)
            assert length <= FRAME_BYTES_MAX
            start = offset + HEAD.size
            if size - start < length:
                break
            offset = start + length
            self._on_frame(self, kind, ident, bytes(buffer[start:offset]))
        del buffer[:offset]

    def send(self, kind: int, ident: int, payload: bytes) -> None:
        """Queue a frame; everything queued in this turn leaves together."""
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(HEAD.pack(len(payload), kind, ident))
        self._out.append(payload)

    def flush(self) -> None:
        """Write what is queued."""
        if self._out and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))
        self._out.clear()

    def connection_lost(self, _exc: Exception | None) -> None:
        """The other side is gone."""
        self._transport = None
        self._on_lost(self)

    def close(self) -> None:
        """Hang up."""
        self.flush()
        if self._transport is not None:
            self._transport.close()
