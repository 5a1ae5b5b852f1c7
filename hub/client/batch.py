"""A CBOR Sequence of MSGs as a request, and what its answer says of each [wire, Batch]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hub.client.http import CBOR_SEQ, Answer, Call, refusal_of
from hub.errors import VeenError, WireError
from hub.wire import cbor
from hub.wire.receipt import Receipt


def batch_call(messages: Sequence[bytes]) -> Call:
    """POST /submit of these MSGs."""
    return Call(method="POST", path="/submit", body=b"".join(messages), content_type=CBOR_SEQ)


def batch_answers(answer: Answer, count: int) -> Iterator[Receipt | VeenError]:
    """Item i answers message i: a RECEIPT that nobody has checked yet, or a refusal."""
    items = cbor.split_sequence(answer.body, items_max=count)
    if len(items) != count:
        raise WireError(f"{len(items)} answers for {count} messages")
    for item in items:
        if item[0] >> 5 == cbor.ARRAY:
            yield Receipt.decode(item)
        else:
            yield refusal_of(answer.status, item)
