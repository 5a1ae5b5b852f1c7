"""A CBOR Sequence of MSGs as a request, and what its answer says of each [wire, Batch]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hub.client.http import CBOR_SEQ, Call, refusal_of
from hub.errors import VeenError, WireError
from hub.wire import cbor
from hub.wire.receipt import Receipt


def batch_call(messages: Sequence[bytes]) -> Call:
    """POST /submit of these MSGs."""
    return Call(method="POST", path="/submit", body=b"".join(messages), content_type=CBOR_SEQ)


def batch_answers(body: bytes, count: int) -> Iterator[Receipt | VeenError]:
    """Item i answers message i: a RECEIPT that nobody has checked yet, or a refusal."""
    pos = found = 0
    while pos < len(body):
        answer, pos = _answer_at(body, pos)
        found += 1
        if found > count:
            break
        yield answer
    if found != count:
        raise WireError(f"{found} answers for {count} messages")


def _answer_at(body: bytes, pos: int) -> tuple[Receipt | VeenError, int]:
    plain = Receipt.read_at(body, pos)
    if plain is not None:
        return plain
    end = cbor.skip(body, pos)
    item = body[pos:end]
    return Receipt.decode(item) if item[0] >> 5 == cbor.ARRAY else refusal_of(200, item), end
