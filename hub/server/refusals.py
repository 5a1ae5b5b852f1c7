"""How much wasted signature work one address may cause before it has to wait [assurance 2.1].

Each message whose signature was checked in vain spends from the budget of its address; with the
budget spent, the next ones are refused before any signature is looked at. This is the state of one
process, not of the log: it only delays, and decides nothing about what is committed. The machine's
own addresses are free, because a proxy in front of the hub speaks from there for everybody.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from math import ceil
from time import monotonic
from typing import Final

from hub.errors import ErrorCode, VeenError

ADDRESSES_MAX: Final = 4096
_WASTED: Final = frozenset({ErrorCode.SIG, ErrorCode.AUTH, ErrorCode.CAP})


class RefusalBudget:
    """Token buckets by address, full until somebody wastes; the longest quiet are forgotten."""

    def __init__(self, per_s: int, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, at

    def check(self, address: str) -> None:
        """Raise E.RATE while the budget of this address is spent."""
        if address in self._left:
            left = self._now(address)[0]
            if left < 1:
                wait_s = ceil((1 - left) / self._per_s)
                detail = "too many refused messages from this address"
                raise VeenError(ErrorCode.RATE, detail, retry_after_s=wait_s)

    def spend(self, address: str, code: ErrorCode) -> None:
        """Account for a refusal; those that cost no signature are free."""
        if code not in _WASTED or _is_own(address):
            return
        left, now = self._now(address)
        self._left[address] = (max(0.0, left - 1), now)
        self._left.move_to_end(address)
        if len(self._left) > ADDRESSES_MAX:
            self._left.popitem(last=False)

    def _now(self, address: str) -> tuple[float, float]:
        now = self._clock()
        left, at = self._left.get(address, (float(self._burst), now))
        return min(float(self._burst), left + (now - at) * self._per_s), now


def _is_own(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return True  # a Unix socket has no address
