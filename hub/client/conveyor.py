"""Entries sent in rows without waiting for each answer, while nothing goes wrong [RESYNC0].

A row has at most so many messages as a hub verifies in one go, so that rows of one connection are
committed in their order. At the first refusal or break everything that is out counts as unknown,
and the caller goes over to `Producer.flush`, which asks and sends again with care.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hub.client.batch import batch_answers, batch_call
from hub.client.outbox import Entry
from hub.client.producer import Producer
from hub.errors import VeenError

if TYPE_CHECKING:
    from hub.client.hubclient import HubClient

ROW_ITEMS_MAX: Final = 50
ROW_BYTES_MAX: Final = 1 << 20
ROWS_MAX: Final = 8  # on their way at once


class Conveyor:
    """One connection of its own: judging an answer may need the client's other one."""

    def __init__(self, client: HubClient, producer: Producer) -> None:
        self._http = client.http.another()
        self._producer = producer
        self._rows: deque[list[Entry]] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Give the connection up; nothing is known of what is still out."""
        self._http.close()
        self._rows.clear()

    def interrupt(self) -> None:
        """From another thread: make whoever waits for an answer give up."""
        self._http.interrupt()

    def has_room(self) -> bool:
        """Whether another row may leave before an answer is read."""
        return len(self._rows) < ROWS_MAX

    def send(self, row: list[Entry]) -> None:
        """Send a row; its answer is read by a later `receive`."""
        self._rows.append(row)
        self._http.start(batch_call([entry.msg_bytes for entry in row]))

    def receive(self) -> tuple[Entry, VeenError] | None:
        """Read the oldest answer and settle its entries; the first refusal where there is one."""
        row = self._rows.popleft()
        answers = list(batch_answers(self._http.finish(), len(row)))
        return self._producer.settle(row, answers)


def take_row(waiting: deque[Entry]) -> list[Entry]:
    """The next row from the front of what waits."""
    row: list[Entry] = []
    total = 0
    while waiting and len(row) < ROW_ITEMS_MAX:
        total += len(waiting[0].msg_bytes)
        if row and total > ROW_BYTES_MAX:
            break
        row.append(waiting.popleft())
    return row
