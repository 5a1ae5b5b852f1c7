"""A CBOR sequence of MSGs: every item stands or falls by itself [wire.md, Batch]."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from hub.errors import ErrorCode, VeenError, WireError
from hub.server import ipc
from hub.server.answers import CBOR_SEQ, error_map
from hub.server.http import Respond, Response
from hub.wire import cbor
from hub.wire.msg import end_at

if TYPE_CHECKING:
    from hub.server.app import DataPlane
    from hub.types import LeafHash
    from hub.wire.msg import Msg

_NESTED_MAX: Final = 64  # items inside one, on the average; a MSG has ten
_CHUNK: Final = 32  # MSGs verified before other connections get their turn


@dataclass(slots=True)
class Verified:
    """A MSG on its way to the writer."""

    data: bytes
    msg: Msg
    leaf: LeafHash
    peer: str  # the address it came from
    verify_ms: float
    at: float  # perf_counter when its checks were done


def cut_items(body: bytes, items_max: int) -> list[bytes]:
    """The items of a sequence: E.FORMAT unless it is one, E.SIZE when there are too many."""
    items: list[bytes] = []
    # One reader for all: its bound on nested items is that of the whole walk.
    reader = cbor.Reader(body, items_max=items_max * _NESTED_MAX)
    while reader.pos < len(body):
        if len(items) == items_max:
            raise WireError(f"more than {items_max} items", ErrorCode.SIZE)
        start = reader.pos
        end = end_at(body, start)
        if end is None:
            reader.skip()
        else:
            reader.seek(end)
        items.append(reader.raw(start))
    return items


class BatchSubmit:
    """Verifies in chunks, hands each chunk to the writer as one frame, answers in order."""

    def __init__(self, plane: DataPlane, items: list[bytes], peer: str, respond: Respond) -> None:
        self._plane = plane
        self._items = items
        self._peer = peer
        self._respond = respond
        self._answers: list[bytes] = [b""] * len(items)
        self._open = len(items)
        self._received_at = monotonic()

    async def run(self) -> None:
        """Send everything; the answer leaves with the last item."""
        if not self._items:
            self._respond(Response(200, b"", CBOR_SEQ))
        for start in range(0, len(self._items), _CHUNK):
            if start:
                await asyncio.sleep(0)
            self._send(start)

    def _send(self, start: int) -> None:
        accepted: list[tuple[int, Verified]] = []
        for index in range(start, min(start + _CHUNK, len(self._items))):
            item = self._plane.verified(self._items[index], self._peer)
            if isinstance(item, VeenError):
                self._done(index, item)
            else:
                accepted.append((index, item))
        if not accepted:
            return

        def answered(kind: int, payload: bytes) -> None:
            answers = ipc.unpack(payload) if kind == ipc.OK else []
            for number, (index, item) in enumerate(accepted):
                said = answers[number] if answers else bytes((kind,)) + payload
                outcome = self._plane.settled(item, said[0], said[1:], self._received_at)
                self._done(index, outcome)

        packed = ipc.pack([item.leaf + item.data for _, item in accepted])
        self._plane.ask(ipc.SUBMIT_MANY, packed, answered)

    def _done(self, index: int, outcome: bytes | VeenError) -> None:
        self._answers[index] = outcome if isinstance(outcome, bytes) else error_map(outcome)
        self._open -= 1
        if self._open == 0:
            self._respond(Response(200, b"".join(self._answers), CBOR_SEQ))
