"""A CBOR sequence of MSGs: every item stands or falls by itself [wire.md, Batch]."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Final

from hub.errors import ErrorCode, VeenError, WireError
from hub.server import ipc
from hub.server.answers import CBOR_SEQ, error_map
from hub.server.checks import Verified
from hub.server.http import Respond, Response
from hub.wire.msg import Msg, read_at
from hub.wire.wellformed import Walk

if TYPE_CHECKING:
    from hub.server.app import DataPlane

_NESTED_MAX: Final = 64  # items inside one, on the average; a MSG has ten
_CHUNK: Final = 50  # half a commit: MSGs verified before other connections get their turn
_CHUNKS_AT_ONCE: Final = 2  # before another batch gets its turn


def cut_items(body: bytes, items_max: int) -> list[bytes | Msg]:
    """The items of a sequence: E.FORMAT unless it is one, E.SIZE when there are too many.

    A MSG of the common form is read as it is cut, anything else stays bytes. An item need only be
    well-formed to be cut: one that is not canonical is refused by itself.
    """
    items: list[bytes | Msg] = []
    # One walk for all: its bound on nested items is that of the whole body.
    walk = Walk(body, 0, items_max=items_max * _NESTED_MAX)
    while walk.pos < len(body):
        if len(items) == items_max:
            raise WireError(f"more than {items_max} items", ErrorCode.SIZE)
        start = walk.pos
        msg = read_at(body, start)
        if msg is None:
            walk.item()
            items.append(body[start : walk.pos])
        else:
            walk.pos = start + len(msg.encode())
            items.append(msg)
    return items


class BatchSubmit:
    """Verifies in chunks, hands each chunk to the writer as one frame, answers in order."""

    def __init__(
        self, plane: DataPlane, items: list[bytes | Msg], peer: str, respond: Respond
    ) -> None:
        self._plane = plane
        self._items = items
        self._peer = peer
        self._respond = respond
        self._answers: list[bytes] = [b""] * len(items)
        self._open = len(items)
        self._next = 0
        self._received_at = monotonic()

    def step(self) -> bool:
        """Verify and hand over one chunk; whether it was the last."""
        start = self._next
        self._next += _CHUNK
        if start < len(self._items):
            self._send(start)
        elif not self._items:
            self._respond(Response(200, b"", CBOR_SEQ))
        return self._next >= len(self._items)

    def _send(self, start: int) -> None:
        accepted: list[tuple[int, Verified]] = []
        chunk = self._items[start : start + _CHUNK]
        for index, item in enumerate(self._plane.checks.verified(chunk, self._peer), start):
            if isinstance(item, VeenError):
                self._done(index, item)
            else:
                accepted.append((index, item))
        if not accepted:
            return

        handed_at = perf_counter()
        items = [item for _, item in accepted]

        def answered(kind: int, payload: bytes) -> None:
            answers = [(kind, payload)] * len(items)
            if kind == ipc.OK:
                answers = [(answer[0], answer[1:]) for answer in ipc.unpack(payload)]
            outcomes = self._plane.checks.settled(items, answers, handed_at, self._received_at)
            for (index, _), outcome in zip(accepted, outcomes, strict=True):
                self._done(index, outcome)

        packed = ipc.pack([item.leaf + item.data for item in items])
        self._plane.ask(ipc.SUBMIT_MANY, packed, answered)

    def _done(self, index: int, outcome: bytes | VeenError) -> None:
        self._answers[index] = outcome if isinstance(outcome, bytes) else error_map(outcome)
        self._open -= 1
        if self._open == 0:
            self._respond(Response(200, b"".join(self._answers), CBOR_SEQ))


class BatchQueue:
    """The batches of one worker in turn, a chunk for each turn of the loop.

    The first one is finished first. If they all advanced together they would all be with the
    writer together, and this process would wait for it. A long one lets the others pass.
    """

    def __init__(self) -> None:
        self._batches: deque[BatchSubmit] = deque()
        self._chunks = 0  # that the first one has had without a break

    def add(self, batch: BatchSubmit) -> None:
        """Begin with it when it is its turn."""
        self._batches.append(batch)
        if len(self._batches) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        batches = self._batches
        is_over = True  # also when it fails: the others go on
        try:
            is_over = batches[0].step()
        finally:
            self._chunks += 1
            if is_over:
                batches.popleft()
                self._chunks = 0
            elif self._chunks >= _CHUNKS_AT_ONCE:
                batches.rotate(-1)
                self._chunks = 0
            if batches:
                asyncio.get_running_loop().call_soon(self._turn)
