"""The token bucket of one capability core on one label, as a pure function [SSOT 8.1].

It refills per whole second of hub_ts and starts full, so that the same log gives the same
decisions on any machine. Refusals spend nothing: spend raises and the caller keeps its bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hub.errors import ErrorCode, VeenError
from hub.wire.captoken import Rate

REFILL_S: Final = 1  # any bucket that refills at all holds a token one second later
NEVER_S: Final = 86_400  # what to say of a bucket that never refills: come back with another token


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Whole tokens left at the second `at`."""

    tokens: int
    at: int


def refill(bucket: Bucket | None, rate: Rate, hub_ts: int) -> Bucket:
    """The bucket as it stands at hub_ts; none yet means a full one."""
    if bucket is None:
        return Bucket(tokens=rate.burst, at=hub_ts)
    elapsed_s = hub_ts - bucket.at
    if elapsed_s <= 0:
        return bucket
    return Bucket(tokens=min(rate.burst, bucket.tokens + elapsed_s * rate.per_sec), at=hub_ts)


def spend(bucket: Bucket | None, rate: Rate, hub_ts: int) -> Bucket:
    """Take one token at hub_ts, or raise E.RATE with the seconds to wait."""
    filled = refill(bucket, rate, hub_ts)
    if filled.tokens < 1:
        refills = rate.per_sec > 0 and rate.burst > 0
        raise VeenError(
            ErrorCode.RATE,
            f"per_sec={rate.per_sec} burst={rate.burst}",
            retry_after_s=REFILL_S if refills else NEVER_S,
        )
    return Bucket(tokens=filled.tokens - 1, at=filled.at)
