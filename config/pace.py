"""How often a loop does what it need not do at every look [architecture, Processes]."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Pace:
    """When something was last done, so that not every look does everything."""

    every_s: float
    _last: float = field(default=float("-inf"))

    def is_due(self) -> bool:
        """Whether it is time again; asking counts as doing."""
        now = time.monotonic()
        if now - self._last < self.every_s:
            return False
        self._last = now
        return True
