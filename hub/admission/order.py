"""client_seq rises by one and prev_ack never goes back or ahead: I6, I8 and I9 [SSOT 7]."""

from __future__ import annotations

from hub.errors import ErrorCode, VeenError


def check_order(
    *, client_seq: int, prev_ack: int, last_client_seq: int, last_prev_ack: int, head: int
) -> None:
    """Raise E.SEQ unless this is the client's next message on the label.

    A client that is new to the label has last_client_seq 0 and last_prev_ack 0. The detail is
    contract: a client that lost its state goes on from it.
    """
    if client_seq != last_client_seq + 1 or not last_prev_ack <= prev_ack <= head:
        raise VeenError(
            ErrorCode.SEQ, f"next={last_client_seq + 1} ack={last_prev_ack} head={head}"
        )
