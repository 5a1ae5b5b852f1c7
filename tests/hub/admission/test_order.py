from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.admission.order import check_order
from hub.errors import ErrorCode, VeenError


def _detail(**fields: int) -> str:
    state = {"client_seq": 5, "prev_ack": 7, "last_client_seq": 4, "last_prev_ack": 7, "head": 9}
    with pytest.raises(VeenError) as refusal:
        check_order(**{**state, **fields})
    assert refusal.value.code is ErrorCode.SEQ
    return refusal.value.detail


def test_the_first_message_of_a_client_has_client_seq_1() -> None:
    check_order(client_seq=1, prev_ack=0, last_client_seq=0, last_prev_ack=0, head=0)
    first = {"prev_ack": 0, "last_client_seq": 0, "last_prev_ack": 0, "head": 0}
    assert _detail(client_seq=0, **first) == "next=1 ack=0 head=0"
    assert _detail(client_seq=2, **first) == "next=1 ack=0 head=0"


@pytest.mark.parametrize("prev_ack", [7, 8, 9])
def test_prev_ack_may_stand_or_rise_up_to_the_head(prev_ack: int) -> None:
    check_order(client_seq=5, prev_ack=prev_ack, last_client_seq=4, last_prev_ack=7, head=9)


@pytest.mark.parametrize("client_seq", [0, 1, 4, 6, 2**64 - 1])
def test_a_gap_or_a_repeat_of_client_seq_is_refused(client_seq: int) -> None:
    assert _detail(client_seq=client_seq) == "next=5 ack=7 head=9"


def test_prev_ack_going_back_is_refused() -> None:
    assert _detail(prev_ack=6) == "next=5 ack=7 head=9"


def test_prev_ack_beyond_the_head_is_refused() -> None:
    assert _detail(prev_ack=10) == "next=5 ack=7 head=9"


@given(*[st.integers(0, 5)] * 5)
def test_the_detail_names_a_message_that_would_be_taken(
    client_seq: int, prev_ack: int, last: int, ack: int, head: int
) -> None:
    """A client that lost its state resynchronises from the refusal alone."""
    ack = min(ack, head)
    state = {"last_client_seq": last, "last_prev_ack": ack, "head": head}
    try:
        check_order(client_seq=client_seq, prev_ack=prev_ack, **state)
    except VeenError as refusal:
        named = dict(part.split("=") for part in refusal.detail.split(" "))
        assert list(named) == ["next", "ack", "head"]
        for allowed in range(int(named["ack"]), int(named["head"]) + 1):
            check_order(client_seq=int(named["next"]), prev_ack=allowed, **state)
    else:
        assert client_seq == last + 1
        assert ack <= prev_ack <= head
