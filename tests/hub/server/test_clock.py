"""hub_ts: clamped, refused or accepted, as wire.md says [Clock]."""

from __future__ import annotations

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.clock import Clock
from tests.support.live_hub import Hands

T0 = 1_700_000_000


def refusal(clock: Clock) -> ErrorCode:
    with pytest.raises(VeenError) as refused:
        clock.now()
    return refused.value.code


def test_time_that_passes_is_given_in_whole_seconds() -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    assert clock.hub_ts(0) == T0
    hands.passes(1.7)
    assert clock.hub_ts(0) == T0 + 1


@pytest.mark.parametrize("step", [-1, -4, -5])
def test_a_small_step_back_is_clamped_to_the_labels_last(step: int) -> None:
    hands = Hands(T0)
    clock = Clock(T0, hands.wall, hands.boot)
    assert clock.hub_ts(T0) == T0
    hands.jumps(step)
    assert clock.hub_ts(T0) == T0


@pytest.mark.parametrize("step", [-6, -3600, -86400])
def test_a_larger_step_back_is_e_time_until_it_is_accepted(step: int) -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    clock.hub_ts(0)
    hands.jumps(step)
    assert refusal(clock) is ErrorCode.TIME
    clock.accept()
    assert clock.now() == T0 + step
    assert clock.hub_ts(T0) == T0  # the label's last, which is later
    assert clock.hub_ts(0) == T0 + step


@pytest.mark.parametrize("step", [61, 3600, 86400])
def test_running_ahead_of_boottime_is_e_time_until_it_is_accepted(step: int) -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    hands.jumps(step)
    assert refusal(clock) is ErrorCode.TIME
    clock.accept()
    assert clock.now() == T0 + step
    hands.passes(10)
    assert clock.now() == T0 + step + 10


def test_up_to_60_seconds_ahead_are_believed() -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    hands.jumps(60)
    assert clock.now() == T0 + 60


def test_a_suspend_needs_nobody() -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    hands.passes(86400)  # CLOCK_BOOTTIME counts while the machine sleeps
    assert clock.now() == T0 + 86400


@pytest.mark.parametrize(
    ("behind", "is_trusted"), [(0, True), (5, True), (6, False), (-(10**6), True)]
)
def test_at_start_only_the_last_hub_ts_counts(behind: int, is_trusted: bool) -> None:  # noqa: FBT001
    hands = Hands(T0)
    clock = Clock(T0 + behind, hands.wall, hands.boot)
    if is_trusted:
        assert clock.now() == T0
    else:
        assert refusal(clock) is ErrorCode.TIME


def test_an_acceptance_that_is_taken_back_leaves_the_clock_as_it_was() -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    clock.hub_ts(0)
    hands.jumps(-3600)
    undo = clock.accept()
    assert clock.now() == T0 - 3600
    undo()
    assert refusal(clock) is ErrorCode.TIME


def test_the_detail_says_how_far_and_what_to_do() -> None:
    hands = Hands(T0)
    clock = Clock(0, hands.wall, hands.boot)
    clock.hub_ts(0)
    hands.jumps(-3600)
    with pytest.raises(VeenError, match=r"back 3600 s.*clock accept"):
        clock.now()
