from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.admission.rate import NEVER_S, Bucket, refill, spend
from hub.errors import ErrorCode, VeenError
from hub.wire.captoken import Rate

RATE = Rate(per_sec=2, burst=5)
NOW = 1_700_000_000


def _drained(rate: Rate, hub_ts: int) -> Bucket:
    bucket: Bucket | None = None
    for _ in range(rate.burst):
        bucket = spend(bucket, rate, hub_ts)
    assert bucket is not None
    return bucket


def test_a_bucket_starts_full() -> None:
    assert spend(None, RATE, NOW) == Bucket(tokens=4, at=NOW)
    assert _drained(RATE, NOW) == Bucket(tokens=0, at=NOW)


def test_an_empty_bucket_refuses_and_says_when_to_come_back() -> None:
    bucket = _drained(RATE, NOW)
    with pytest.raises(VeenError) as refusal:
        spend(bucket, RATE, NOW)
    assert refusal.value.code is ErrorCode.RATE
    assert refusal.value.retry_after_s == 1
    assert spend(bucket, RATE, NOW + 1) == Bucket(tokens=1, at=NOW + 1)


def test_a_bucket_refills_per_whole_second_up_to_burst() -> None:
    bucket = _drained(RATE, NOW)
    filled = [refill(bucket, RATE, NOW + seconds).tokens for seconds in range(5)]
    assert filled == [0, 2, 4, 5, 5]


def test_a_refused_message_spends_nothing() -> None:
    bucket = _drained(RATE, NOW)
    for _ in range(10):
        with pytest.raises(VeenError):
            spend(bucket, RATE, NOW)
    assert spend(bucket, RATE, NOW + 1).tokens == 1


@pytest.mark.parametrize("rate", [Rate(per_sec=0, burst=1), Rate(per_sec=1, burst=0)])
def test_a_bucket_that_never_refills_says_so(rate: Rate) -> None:
    bucket = _drained(rate, NOW) if rate.burst else None
    with pytest.raises(VeenError) as refusal:
        spend(bucket, rate, NOW + 10**9)
    assert refusal.value.retry_after_s == NEVER_S


def test_time_that_stands_or_goes_back_refills_nothing() -> None:
    bucket = _drained(RATE, NOW)
    assert refill(bucket, RATE, NOW) == bucket
    assert refill(bucket, RATE, NOW - 100) == bucket


def test_numbers_at_the_top_of_the_wire_do_not_overflow() -> None:
    top = 2**64 - 1
    rate = Rate(per_sec=top, burst=top)
    assert spend(Bucket(tokens=0, at=0), rate, top).tokens == top - 1


steps = st.lists(st.integers(0, 3), max_size=60)
rates = st.builds(Rate, per_sec=st.integers(0, 4), burst=st.integers(0, 6))


@given(rates, steps)
def test_no_window_admits_more_than_burst_and_refill(rate: Rate, waits: list[int]) -> None:
    bucket: Bucket | None = None
    now, accepted = NOW, []
    for wait in waits:
        now += wait
        try:
            bucket = spend(bucket, rate, now)
        except VeenError:
            continue
        accepted.append(now)
        assert 0 <= bucket.tokens < rate.burst
    for start in range(len(accepted)):
        for end in range(start, len(accepted)):
            elapsed = accepted[end] - accepted[start]
            assert end - start + 1 <= rate.burst + elapsed * rate.per_sec


@given(rates, steps)
def test_refilling_in_between_changes_no_decision(rate: Rate, waits: list[int]) -> None:
    """State is written with the cursor or not, at any time: the same log, the same decisions."""
    bucket = touched = Bucket(tokens=rate.burst, at=NOW)
    now = NOW
    for wait in waits:
        now += wait
        touched = refill(touched, rate, now)
    assert refill(bucket, rate, now) == touched
