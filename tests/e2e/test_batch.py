"""POST /submit of a CBOR sequence: framing first, then every item on its own."""

from __future__ import annotations

import pytest

from hub.types import Label
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from tests.support.live_hub import Author, HttpClient, LiveHub, code_of


def label(number: int) -> Label:
    return Label(b"batch" + number.to_bytes(27, "big"))


def test_item_i_answers_msg_i(open_hub: LiveHub, anyone: HttpClient) -> None:
    one, two = Author(label(1)), Author(label(2))
    msgs = [author.next(b"%d" % number) for number in range(150) for author in (one, two)]
    answers = anyone.batch(*msgs).items()
    assert len(answers) == len(msgs)
    for data, answer in zip(msgs, answers, strict=True):
        receipt = Receipt.decode(answer)
        receipt.verify(open_hub.hub_pk)
        assert receipt.leaf_hash == Msg.decode(data).leaf_hash()


def test_items_stand_or_fall_by_themselves(anyone: HttpClient) -> None:
    author, other = Author(label(3)), Author(label(4))
    first = author.next()
    forged = bytearray(other.draft().encode())
    forged[-1] ^= 1
    answers = anyone.batch(
        first,
        b"\x01",  # a well-formed item, no MSG
        bytes(forged),
        author.draft(seq=5).encode(),
        first,
        author.next(),
        other.next(),
    ).items()
    codes = [None, "E.FORMAT", "E.SIG", "E.SEQ", "E.DUP", None, None]
    assert [code_of(answer) for answer in answers] == codes


@pytest.mark.parametrize(
    "item",
    ["9f01ff", "5f4100ff", "c001", "f93c00", "1801", "f7", "a201010102", "61ff"],
)
def test_a_well_formed_item_that_is_not_canonical_falls_by_itself(
    anyone: HttpClient, item: str
) -> None:
    author = Author(label(9))
    author.label = Label(bytes.fromhex(item).ljust(32, b"9"))
    answers = anyone.batch(author.next(), bytes.fromhex(item), author.next()).items()
    assert [code_of(answer) for answer in answers] == [None, "E.FORMAT", None]


def test_a_batch_of_refusals_is_200_too(anyone: HttpClient) -> None:
    answers = anyone.batch(b"\x00", b"\x40", b"\xf6").items()
    assert [code_of(answer) for answer in answers] == ["E.FORMAT"] * 3


@pytest.mark.parametrize(
    "tail",
    [b"\x8a\x01", b"\xff", b"\x5a\xff\xff\xff\xff", b"\x9f\x01", b"\x81" * 100, b"\x1c"],
    ids=["cut", "break", "claims-4-GiB", "no-end", "deep", "reserved"],
)
def test_a_body_that_is_no_sequence_commits_nothing(anyone: HttpClient, tail: bytes) -> None:
    author = Author(label(5))
    msg = author.draft(tail)
    reply = anyone.batch(msg.encode(), tail)
    assert (reply.status, reply.code) == (400, "E.FORMAT")
    assert anyone.get(f"/receipt?leaf_hash={msg.leaf_hash().hex()}").status == 404


def test_an_empty_sequence_has_an_empty_answer(anyone: HttpClient) -> None:
    reply = anyone.batch()
    assert (reply.status, reply.items()) == (200, [])


def test_1024_items_are_taken_and_1025_are_over_the_limit(anyone: HttpClient) -> None:
    author = Author(label(6))
    msgs = [author.next() for _ in range(1025)]
    reply = anyone.batch(*msgs)
    assert (reply.status, reply.code) == (413, "E.SIZE")
    assert anyone.get(f"/head?label={author.label.hex()}").status == 404
    answers = anyone.batch(*msgs[:1024]).items()
    assert [code_of(answer) for answer in answers] == [None] * 1024
    assert Receipt.decode(answers[-1]).stream_seq == 1024


def test_far_more_items_than_the_limit_are_refused_for_their_number(anyone: HttpClient) -> None:
    reply = anyone.batch(b"\x00" * 100_000)
    assert (reply.status, reply.code) == (413, "E.SIZE")


def test_a_sequence_over_32_mib_is_e_size(anyone: HttpClient) -> None:
    headers = {"Content-Type": "application/cbor-seq", "Content-Length": str(32 * 1024 * 1024 + 1)}
    reply = anyone.ask("POST", "/submit", b"", headers)
    assert (reply.status, reply.code) == (413, "E.SIZE")
    anyone.close()


def test_one_item_over_its_limit_falls_alone(anyone: HttpClient) -> None:
    author = Author(label(7))
    big = b"\x5a" + (1_048_577).to_bytes(4, "big") + bytes(1_048_577)
    answers = anyone.batch(big, author.next()).items()
    assert [code_of(answer) for answer in answers] == ["E.SIZE", None]


def test_the_order_within_a_batch_is_the_order_in_the_log(anyone: HttpClient) -> None:
    author = Author(label(8))
    msgs = [author.next(b"%d" % number) for number in range(300)]
    receipts = [Receipt.decode(item) for item in anyone.batch(*msgs).items()]
    assert [receipt.stream_seq for receipt in receipts] == list(range(1, 301))


def test_the_head_of_e_seq_counts_what_the_same_batch_committed(anyone: HttpClient) -> None:
    author = Author(label(10))
    good = [author.next(), author.next(prev_ack=1)]
    late = author.draft(seq=9).encode()
    answers = anyone.batch(*good, late, author.next(prev_ack=2)).items()
    assert [code_of(answer) for answer in answers] == [None, None, "E.SEQ", None]
    assert cbor.decode(answers[2]) == {"code": "E.SEQ", "detail": "next=3 ack=1 head=2"}


def test_prev_ack_may_not_name_the_message_itself(anyone: HttpClient) -> None:
    author = Author(label(11))
    answers = anyone.batch(author.next(), author.draft(prev_ack=2).encode()).items()
    assert [code_of(answer) for answer in answers] == [None, "E.SEQ"]
