"""hub_ts: never backwards within a label, and not believed when it jumps [wire.md, Clock]."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hub.errors import ErrorCode, VeenError

STEP_BACK_S: Final = 5  # clamped in silence; more needs an operator
RUN_AHEAD_S: Final = 60  # of CLOCK_BOOTTIME, which also counts while the machine sleeps


def boottime() -> float:
    """Seconds since the machine started, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """Gives hub_ts, or raises E.TIME until `accept`. Time sources are arguments, for tests."""

    __slots__ = ("_base_boot", "_base_wall", "_boot", "_last", "_wall")

    def __init__(
        self,
        last_ts: int,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], float] = boottime,
    ) -> None:
        self._wall = wall
        self._boot = boot
        self._last = last_ts  # the highest hub_ts ever given, over all labels
        self._base_wall = wall()
        self._base_boot = boot()

    def hub_ts(self, label_last_ts: int) -> int:
        """The commit time of the next entry of a label."""
        now = self.now()
        self._last = max(self._last, now)
        return max(now, label_last_ts)

    def now(self) -> int:
        """Trusted whole seconds, or E.TIME."""
        wall = self._wall()
        if wall < self._last - STEP_BACK_S:
            raise VeenError(
                ErrorCode.TIME, f"clock went back {self._last - int(wall)} s; see hub clock accept"
            )
        ahead = (wall - self._base_wall) - (self._boot() - self._base_boot)
        if ahead > RUN_AHEAD_S:
            raise VeenError(
                ErrorCode.TIME, f"clock jumped ahead {int(ahead)} s; see hub clock accept"
            )
        return int(wall)

    def wall(self) -> int:
        """What the wall clock says, trusted or not."""
        return int(self._wall())

    def accept(self) -> Callable[[], None]:
        """An operator says that the wall clock is right; the answer takes that back."""
        before = (self._base_wall, self._base_boot, self._last)
        self._base_wall = self._wall()
        self._base_boot = self._boot()
        self._last = int(self._base_wall)

        def undo() -> None:
            self._base_wall, self._base_boot, self._last = before

        return undo
