from __future__ import annotations

import dataclasses
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, VeenError, WireError
from hub.storage.state import Entry
from hub.types import AuthRef, ClientId, ClientSeq, Hash, Label, ProfileId, Signature
from hub.wire import cbor
from hub.wire import msg as msg_module
from hub.wire.msg import Msg
from tests.support import vectors
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import unhex
from tests.support.wire_objects import signing_key

A, B = (unhex(vectors.message(letter)["msg_cbor"]) for letter in "AB")

msgs = st.builds(
    Msg,
    profile_id=bytes32.map(ProfileId),
    label=bytes32.map(Label),
    client_id=bytes32.map(ClientId),
    client_seq=uint64.map(ClientSeq),
    prev_ack=uint64,
    auth_ref=st.none() | bytes32.map(AuthRef),
    ct_hash=bytes32.map(Hash),
    ciphertext=st.integers(0, 700).map(bytes) | st.sampled_from([65535, 65536]).map(bytes),
    sig=bytes64.map(Signature),
)


@pytest.mark.parametrize("letter", ["A", "B"])
def test_every_value_of_the_vectors(letter: str) -> None:
    vector = vectors.message(letter)
    data, derived = unhex(vector["msg_cbor"]), vector["derived"]
    msg = Msg.decode(data)
    assert len(data) == vector["msg_len"]
    assert msg.encode() == data
    assert dataclasses.replace(msg).encode() == data
    assert msg.aad() == unhex(derived["aad"])
    assert msg.body_nonce() == unhex(derived["body_nonce"])
    assert msg.ct_hash == unhex(derived["ct_hash"])
    assert msg.leaf_hash() == unhex(derived["leaf_hash"]) == unhex(derived["msg_id"])
    assert msg.signing_hash() == unhex(derived["signing_digest"])
    assert dataclasses.replace(msg).signing_hash() == unhex(derived["signing_digest"])
    assert msg.sig == unhex(derived["sig"])
    msg.check_ct_hash()
    msg.verify()


@given(msgs)
def test_decode_gives_back_what_was_encoded(msg: Msg) -> None:
    data = msg.encode()
    assert Msg.decode(data) == msg
    assert Msg.decode(data).encode() == data
    assert Msg.decode(data).signing_hash() == msg.signing_hash()


@pytest.mark.parametrize("data", [A, B], ids="AB")
def test_every_flipped_bit_is_refused(data: bytes) -> None:
    for changed in flipped_bits(data):
        with pytest.raises(VeenError) as refusal:
            Msg.decode(changed).verify()
        assert refusal.value.code in {ErrorCode.FORMAT, ErrorCode.SIG}


def _check_both_readers_agree(data: bytes) -> None:
    by_position = msg_module._decode_by_position(data)
    if by_position is not None:
        by_field = msg_module._decode_by_field(data)
        assert by_position == by_field
        assert by_position.encode() == by_field.encode() == data


@given(msgs, st.data())
def test_the_fast_reader_accepts_nothing_that_the_strict_one_refuses(
    msg: Msg, data: st.DataObject
) -> None:
    encoded = msg.encode()
    _check_both_readers_agree(encoded)
    at = data.draw(st.integers(0, min(len(encoded), 250)))
    gone = data.draw(st.integers(0, 3))
    new = data.draw(st.binary(max_size=3))
    _check_both_readers_agree(encoded[:at] + new + encoded[at + gone :])


def test_the_fast_reader_agrees_on_every_value_of_every_structural_byte() -> None:
    template = Msg.decode(B)
    for client_seq, prev_ack in ((2, 1), (24, 300), (2**16, 2**32), (2**40, 23)):
        msg = dataclasses.replace(template, client_seq=ClientSeq(client_seq), prev_ack=prev_ack)
        data = msg.encode()
        assert msg_module._decode_by_position(data) is not None
        end = len(data)
        for position in (*range(4), 36, 37, 70, 71, *range(104, 200), *range(end - 68, end - 62)):
            for value in range(256):
                changed = data[:position] + bytes((value,)) + data[position + 1 :]
                _check_both_readers_agree(changed)


@pytest.mark.parametrize("data", [A, B], ids="AB")
def test_truncated_and_extended_bytes_are_refused(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(WireError):
            Msg.decode(data[:size])
    for tail in (b"\x00", b"\xf6", data):
        with pytest.raises(WireError):
            Msg.decode(data + tail)


def test_garbage_is_refused_with_a_code(rng: random.Random) -> None:
    for size in range(400):
        with pytest.raises(WireError) as refusal:
            Msg.decode(rng.randbytes(size))
        assert refusal.value.code is ErrorCode.FORMAT


def test_a_changed_copy_does_not_keep_the_received_bytes() -> None:
    received = Msg.decode(B)
    changed = dataclasses.replace(received, client_seq=ClientSeq(77))
    assert Msg.decode(changed.encode()).client_seq == 77
    assert changed.signing_hash() != received.signing_hash()
    with pytest.raises(VeenError) as refusal:
        changed.verify()
    assert refusal.value.code is ErrorCode.SIG


def test_a_received_msg_survives_pickling_between_processes() -> None:
    received = Msg.decode(B)
    again = pickle.loads(pickle.dumps(received))  # noqa: S301 - our own bytes
    assert again == received
    assert again.encode() == B


def test_another_ciphertext_under_the_same_ct_hash_is_refused() -> None:
    msg = dataclasses.replace(Msg.decode(B), ciphertext=bytes(256))
    with pytest.raises(WireError, match="ct_hash"):
        msg.check_ct_hash()


@given(bytes32, st.binary(max_size=300), uint64, uint64, st.none() | bytes32)
def test_a_signed_msg_verifies_and_is_in_its_canonical_bytes(
    label: bytes, ciphertext: bytes, client_seq: int, prev_ack: int, auth_ref: bytes | None
) -> None:
    msg = Msg.sign(
        signing_key("client"),
        profile_id=ProfileId(bytes(32)),
        label=Label(label),
        client_seq=ClientSeq(client_seq),
        prev_ack=prev_ack,
        auth_ref=None if auth_ref is None else AuthRef(auth_ref),
        ciphertext=ciphertext,
    )
    msg.verify()
    msg.check_ct_hash()
    assert Msg.decode(msg.encode()) == msg
    assert dataclasses.replace(msg).encode() == msg.encode()


def _check_the_cut_is_that_of_a_walk(data: bytes, pos: int) -> None:
    """What is read at an offset is the item that a walk cuts there, as the strict reader has it."""
    found = msg_module.read_at(data, pos)
    if found is not None:
        item = data[pos : cbor.skip(data, pos)]
        assert found.encode() == item
        assert found == msg_module._decode_by_field(item)


@given(msgs, st.binary(max_size=80), st.data())
def test_a_msg_is_only_read_at_an_offset_where_a_walk_cuts_it(
    msg: Msg, rest: bytes, data: st.DataObject
) -> None:
    encoded = rest + msg.encode() + bytes(60)
    _check_the_cut_is_that_of_a_walk(encoded, len(rest))
    at = data.draw(st.integers(len(rest), len(encoded)))
    gone, new = data.draw(st.integers(0, 3)), data.draw(st.binary(max_size=3))
    _check_the_cut_is_that_of_a_walk(encoded[:at] + new + encoded[at + gone :], len(rest))


def test_the_cut_agrees_with_a_walk_on_every_value_of_every_structural_byte() -> None:
    for base in (Msg.decode(A), Msg.decode(B)):
        letter = dataclasses.replace(base, ciphertext=bytes(512)).encode()
        encoded = letter + bytes(60)
        assert msg_module.read_at(encoded, 0) == Msg.decode(letter)
        for position in (*range(5), *range(34, 40), *range(68, 74), *range(102, 190)):
            for value in range(256):
                changed = encoded[:position] + bytes((value,)) + encoded[position + 1 :]
                _check_the_cut_is_that_of_a_walk(changed, 0)
        for size in range(len(letter)):
            assert msg_module.read_at(letter[:size], 0) is None


@given(msgs)
def test_an_entry_of_the_log_has_the_fields_of_the_strict_reader(msg: Msg) -> None:
    data = msg.encode()
    entry, strict = Entry.of(data, msg.leaf_hash()), msg_module._decode_by_field(data)
    for name in ("profile_id", "label", "client_id", "client_seq", "prev_ack", "auth_ref"):
        assert getattr(entry, name) == getattr(strict, name)
    assert entry.msg == data
    assert entry.ciphertext_bytes == len(strict.ciphertext)
    with pytest.raises(WireError):
        Entry.of(data + b"\x00", msg.leaf_hash())
