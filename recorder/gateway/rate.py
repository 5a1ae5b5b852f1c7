"""The rate of a producer, as its capability has it [SSOT 6]."""

from __future__ import annotations

from hub.wire.captoken import Rate


class Bucket:
    """Mirrors the hub's token bucket, so that what the hub would refuse is not taken at all."""

    __slots__ = ("_at", "_level", "_rate")

    def __init__(self, rate: Rate | None, now: float) -> None:
        self._rate = rate
        self._level = 0.0 if rate is None else float(rate.burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Whether one more event is allowed now; it is spent then."""
        rate = self._rate
        if rate is None:
            return True
        self._level = min(float(rate.burst), self._level + (now - self._at) * rate.per_sec)
        self._at = now
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True
