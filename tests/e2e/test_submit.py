"""POST /submit: one MSG, its RECEIPT or the one code that the admission table gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hub.crypto.signing import SigningKey
from hub.types import AuthRef, Hash, Label, ProfileId, Signature
from hub.wire import cbor
from hub.wire.msg import Msg
from hub.wire.profile import Profile
from hub.wire.receipt import Receipt
from tests.support.live_hub import CBOR, Author, HttpClient, LiveHub, framed


def label(number: int) -> Label:
    return Label(number.to_bytes(32, "big"))


def resigned(key: SigningKey, msg: Msg, **changes: object) -> bytes:
    """The MSG with other fields, signed again by its author."""
    fields = {
        "profile_id": msg.profile_id,
        "label": msg.label,
        "client_seq": msg.client_seq,
        "prev_ack": msg.prev_ack,
        "auth_ref": msg.auth_ref,
        "ciphertext": msg.ciphertext,
        **changes,
    }
    return Msg.sign(key, **fields).encode()  # type: ignore[arg-type]


def test_a_receipt_names_leaf_place_and_root_and_verifies(
    open_hub: LiveHub, anyone: HttpClient
) -> None:
    author = Author(label(1))
    msg = author.draft()
    reply = anyone.submit(author.next())
    receipt = Receipt.decode(reply.ok())
    assert reply.headers["content-type"] == "application/cbor"
    receipt.verify(open_hub.hub_pk)
    assert receipt.label == author.label
    assert receipt.stream_seq == 1
    assert receipt.leaf_hash == msg.leaf_hash()
    assert bytes(receipt.mmr_root) == msg.leaf_hash()  # of one leaf


def test_hub_ts_and_stream_seq_never_go_back(anyone: HttpClient) -> None:
    author = Author(label(2))
    receipts = [author.send(anyone) for _ in range(20)]
    assert [receipt.stream_seq for receipt in receipts] == list(range(1, 21))
    times = [receipt.hub_ts for receipt in receipts]
    assert times == sorted(times)


def test_bytes_that_are_no_msg_are_e_format(anyone: HttpClient) -> None:
    good = Author(label(3)).draft().encode()
    flaws = {
        "empty": b"",
        "truncated": good[:-1],
        "trailing byte": good + b"\x00",
        "text": b"hello",
        "other version": good[:1] + b"\x02" + good[2:],
        "nine items": b"\x89" + good[1:],
        "long spelling of the version": good[:1] + b"\x18\x01" + good[2:],
        "indefinite array": b"\x9f" + good[1:] + b"\xff",
        "deep": b"\x81" * 5000,
        "claims 2^32 bytes": b"\x8a\x01\x5a\xff\xff\xff\xff",
    }
    for name, data in flaws.items():
        reply = anyone.submit(data)
        assert (name, reply.status, reply.code) == (name, 400, "E.FORMAT")


def test_a_ct_hash_of_other_bytes_is_e_format_even_when_signed(anyone: HttpClient) -> None:
    author = Author(label(4))
    msg = author.draft()
    wrong = replace(msg, ct_hash=Hash(bytes(32)))
    signed = replace(wrong, sig=author.key.sign(wrong.signing_hash()))
    reply = anyone.submit(signed.encode())
    assert (reply.status, reply.code) == (400, "E.FORMAT")
    assert "ct_hash" in reply.error["detail"]


@pytest.mark.parametrize(
    ("ciphertext", "code", "status"),
    [
        (b"x" * 39, "E.FORMAT", 400),
        (b"x" * 256, "E.SIZE", 413),  # lengths far over their limits
        (framed(b"")[:-1], "E.FORMAT", 400),  # not a multiple of pad_block
        (framed(b"")[:-1] + b"\x01", "E.FORMAT", 400),  # padding that is not zero
        (bytes(32) + (17_000).to_bytes(4, "big") + bytes(4 + 216), "E.SIZE", 413),
        (bytes(32) + (200).to_bytes(4, "big") + (200).to_bytes(4, "big") + bytes(216),
         "E.FORMAT", 400),
    ],
    ids=["too-short", "both-lengths", "unpadded", "dirty-padding", "header-limit", "beyond-end"],
)  # fmt: skip
def test_framing_is_checked_without_reading(
    anyone: HttpClient, ciphertext: bytes, code: str, status: int
) -> None:
    author = Author(label(5))
    reply = anyone.submit(resigned(author.key, author.draft(), ciphertext=ciphertext))
    assert (reply.status, reply.code) == (status, code)


def test_a_body_over_the_limit_is_e_size(anyone: HttpClient) -> None:
    reply = anyone.submit(bytes(1_048_577))
    assert (reply.status, reply.code) == (413, "E.SIZE")


def test_a_profile_the_hub_does_not_take_is_e_profile(anyone: HttpClient) -> None:
    author = Author(label(6), profile=Profile(epoch_sec=60, pad_block=256))
    reply = anyone.submit(author.next())
    assert (reply.status, reply.code) == (400, "E.PROFILE")


@pytest.mark.parametrize("pad_block", [0, 256, 1024])
def test_the_default_profiles_are_taken(anyone: HttpClient, pad_block: int) -> None:
    author = Author(label(7), profile=Profile(epoch_sec=0, pad_block=pad_block))
    author.send(anyone)


def test_a_signature_by_another_key_is_e_sig(anyone: HttpClient) -> None:
    msg = Author(label(8)).draft()
    forged = replace(msg, sig=SigningKey.generate().sign(msg.signing_hash()))
    reply = anyone.submit(forged.encode())
    assert (reply.status, reply.code) == (409, "E.SIG")


def test_an_unknown_auth_ref_is_e_auth_also_with_open_admission(anyone: HttpClient) -> None:
    author = Author(label(9), auth_ref=AuthRef(bytes(32)))
    reply = anyone.submit(author.next())
    assert (reply.status, reply.code) == (403, "E.AUTH")


def test_the_same_message_again_is_e_dup_and_its_receipt_is_there(anyone: HttpClient) -> None:
    author = Author(label(10))
    data = author.next()
    first = anyone.submit(data).ok()
    author.send(anyone)
    reply = anyone.submit(data)
    assert (reply.status, reply.code) == (409, "E.DUP")
    leaf = Msg.decode(data).leaf_hash().hex()
    assert anyone.get(f"/receipt?leaf_hash={leaf}").ok() == first


@pytest.mark.parametrize(("seq", "prev_ack"), [(0, 0), (2, 0), (4, 0), (9, 0), (3, 3), (3, 10**9)])
def test_e_seq_says_exactly_where_to_go_on(anyone: HttpClient, seq: int, prev_ack: int) -> None:
    author = Author(Label(bytes([11, seq, prev_ack % 251]) + bytes(29)))
    author.send(anyone)
    anyone.submit(author.next(prev_ack=1)).ok()
    reply = anyone.submit(author.draft(b"other", seq=seq, prev_ack=prev_ack or 1).encode())
    assert (reply.status, reply.code) == (409, "E.SEQ")
    assert reply.error["detail"] == "next=3 ack=1 head=2"


def test_prev_ack_that_goes_back_is_e_seq(anyone: HttpClient) -> None:
    author = Author(label(12))
    author.send(anyone)
    anyone.submit(author.next(prev_ack=1)).ok()
    reply = anyone.submit(author.next(prev_ack=0))
    assert reply.error == {"code": "E.SEQ", "detail": "next=3 ack=1 head=2"}


def test_a_first_message_on_a_label_needs_client_seq_1(anyone: HttpClient) -> None:
    author = Author(label(13))
    reply = anyone.submit(author.draft(seq=2).encode())
    assert reply.error == {"code": "E.SEQ", "detail": "next=1 ack=0 head=0"}


def test_other_content_under_a_used_client_seq_is_e_seq_not_e_dup(anyone: HttpClient) -> None:
    author = Author(label(14))
    author.send(anyone, b"one")
    reply = anyone.submit(author.draft(b"two", seq=1).encode())
    assert reply.code == "E.SEQ"


class TestOrderOfChecks:
    """An object with several flaws is refused for the first in the table's order."""

    def test_structure_comes_before_profile_and_profile_before_framing(
        self, anyone: HttpClient
    ) -> None:
        author = Author(label(20))
        unknown = ProfileId(bytes(32))
        both = resigned(author.key, author.draft(), profile_id=unknown, ciphertext=b"short")
        assert anyone.submit(both).code == "E.PROFILE"
        assert anyone.submit(both + b"\x00").code == "E.FORMAT"

    def test_framing_comes_before_ct_hash_and_ct_hash_before_the_signature(
        self, anyone: HttpClient
    ) -> None:
        msg = Author(label(21)).draft()
        unsigned = replace(msg, ct_hash=Hash(bytes(32)), sig=Signature(bytes(64)))
        assert anyone.submit(unsigned.encode()).error["detail"].startswith("ct_hash")
        misframed = replace(unsigned, ciphertext=b"short")
        assert "prefix" in anyone.submit(misframed.encode()).error["detail"]

    def test_the_signature_comes_before_capability_and_order(self, anyone: HttpClient) -> None:
        author = Author(label(22), auth_ref=AuthRef(bytes(32)))
        forged = replace(author.draft(seq=7), sig=Signature(bytes(64)))
        assert anyone.submit(forged.encode()).code == "E.SIG"

    def test_capability_comes_before_duplicate_and_order(self, anyone: HttpClient) -> None:
        author = Author(label(23))
        author.send(anyone)
        author.auth_ref = AuthRef(b"\x01" * 32)
        # The leaf does not cover auth_ref, so this is the committed leaf under another capability.
        assert anyone.submit(author.draft(seq=1).encode()).code == "E.AUTH"
        assert anyone.submit(author.draft(seq=9).encode()).code == "E.AUTH"

    def test_duplicate_comes_before_order(self, anyone: HttpClient) -> None:
        author = Author(label(24))
        data = author.next()
        anyone.submit(data).ok()
        for _ in range(3):
            author.send(anyone)
        assert anyone.submit(data).code == "E.DUP"


def test_a_refusal_commits_nothing_and_uses_up_no_number(anyone: HttpClient) -> None:
    author = Author(label(25))
    author.send(anyone)
    assert anyone.submit(author.draft(seq=5).encode()).status == 409
    assert author.send(anyone).stream_seq == 2


def test_the_media_type_may_have_parameters_and_capitals(anyone: HttpClient) -> None:
    author = Author(label(26))
    headers = {"Content-Type": "Application/CBOR; charset=x"}
    anyone.ask("POST", "/submit", author.next(), headers).ok()
    headers = {"Content-Type": "Application/CBOR-Seq"}
    reply = anyone.ask("POST", "/submit", author.next(bytes(600_000)) * 2, headers)
    assert len(reply.items()) == 2


@pytest.mark.parametrize("media", ["", "application/json", "text/plain", "application/cborx"])
def test_another_media_type_is_400_e_format(anyone: HttpClient, media: str) -> None:
    headers = {"Content-Type": media} if media else {}
    reply = anyone.ask("POST", "/submit", Author(label(27)).next(), headers)
    assert (reply.status, reply.code) == (400, "E.FORMAT")


def test_a_client_that_lost_its_state_goes_on_from_the_detail(anyone: HttpClient) -> None:
    key = SigningKey.generate()
    before = Author(label(28), key)
    for _ in range(3):
        before.send(anyone)
    lost = Author(label(28), key)
    detail = anyone.submit(lost.next(b"new")).error["detail"]
    said = {name: int(text) for name, text in (part.split("=") for part in detail.split())}
    reply = anyone.submit(lost.draft(b"new", seq=said["next"], prev_ack=said["ack"]).encode())
    assert Receipt.decode(reply.ok()).stream_seq == said["head"] + 1


def test_one_client_may_write_to_many_labels(anyone: HttpClient) -> None:
    key = SigningKey.generate()
    for number in range(40, 60):
        assert Author(label(number), key).send(anyone).stream_seq == 1


def test_an_error_body_is_canonical_cbor(anyone: HttpClient) -> None:
    reply = anyone.ask("POST", "/submit", b"\xff", CBOR)
    assert cbor.encode(reply.error) == reply.body
