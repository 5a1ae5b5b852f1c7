"""Keys in good standing that were used where they may not be, for whoever watches [SDR0 3.4, I3].

The refusal is the hub's; whether a key was stolen or a service set up wrongly, people find out. The
table is of this process and bounded: a flood of refusals pushes out the oldest pair, nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from hub.types import ClientId, Label

PAIRS_MAX: Final = 1024


@dataclass(slots=True)
class _Uses:
    first: int
    last: int
    count: int


class Strays:
    """How often and when each key knocked at a label that it may not write."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[ClientId, Label], _Uses] = OrderedDict()

    def note(self, client_id: ClientId, label: Label, at: int) -> None:
        """One more refused use."""
        uses = self._pairs.setdefault((client_id, label), _Uses(at, at, 0))
        uses.last, uses.count = at, uses.count + 1
        self._pairs.move_to_end((client_id, label))
        if len(self._pairs) > PAIRS_MAX:
            self._pairs.popitem(last=False)

    def listing(self) -> list[dict[str, Any]]:
        """Every pair, the longest quiet first."""
        return [
            {
                "client_id": client_id.hex(),
                "label": label.hex(),
                "first": uses.first,
                "last": uses.last,
                "count": uses.count,
            }
            for (client_id, label), uses in self._pairs.items()
        ]
