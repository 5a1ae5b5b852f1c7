from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, VeenError, WireError
from hub.types import Label, MmrRoot, PublicKey, Signature, StreamSeq
from hub.wire import cbor
from hub.wire.checkpoint import WITNESSES_MAX, Checkpoint
from tests.support import vectors
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import Section, unhex
from tests.support.wire_objects import signing_key

VECTORS = vectors.load("receipts_checkpoints")["checkpoints"]
NEGATIVE = vectors.load("cbor_negative")["checkpoint"]
OLD, NEW = signing_key("hub"), signing_key("hub2")

checkpoints = st.builds(
    Checkpoint,
    label_prev=bytes32.map(Label),
    label_curr=bytes32.map(Label),
    upto_seq=uint64.filter(bool).map(StreamSeq),
    mmr_root=bytes32.map(MmrRoot),
    epoch=uint64,
    hub_sig=bytes64.map(Signature),
    witness_sigs=st.lists(bytes64.map(Signature), max_size=4).map(tuple),
)


@pytest.mark.parametrize("entry", VECTORS, ids=lambda entry: entry["name"])
def test_every_value_of_the_vectors(entry: Section) -> None:
    data = unhex(entry["checkpoint_cbor"])
    checkpoint = Checkpoint.decode(data)
    checkpoint.verify(PublicKey(unhex(entry["hub_pk"])))
    assert checkpoint.encode() == data
    assert checkpoint.signing_hash() == unhex(entry["signing_digest"])
    assert checkpoint.label_prev == unhex(entry["label_prev"])
    assert checkpoint.label_curr == unhex(entry["label_curr"])
    assert (checkpoint.upto_seq, checkpoint.epoch) == (entry["upto_seq"], entry["epoch"])
    assert checkpoint.mmr_root == unhex(entry["mmr_root"])
    assert checkpoint.hub_sig == unhex(entry["hub_sig"])
    assert checkpoint.witness_sigs == tuple(unhex(sig) for sig in entry["witness_sigs"])


@pytest.mark.parametrize("entry", VECTORS, ids=lambda entry: entry["name"])
def test_signing_again_gives_the_bytes_of_the_vectors(entry: Section) -> None:
    expected = Checkpoint.decode(unhex(entry["checkpoint_cbor"]))
    signer = next(key for key in (OLD, NEW) if key.public == unhex(entry["hub_pk"]))
    witnesses = (OLD, NEW) if entry["witness_sigs"] else ()
    signed = Checkpoint.sign(
        signer,
        label_prev=expected.label_prev,
        label_curr=expected.label_curr,
        upto_seq=expected.upto_seq,
        mmr_root=expected.mmr_root,
        epoch=expected.epoch,
        witnesses=witnesses,
    )
    assert signed.encode() == expected.encode()
    signed.verify_witnesses([key.public for key in witnesses])


@pytest.mark.parametrize("entry", NEGATIVE, ids=lambda entry: entry["name"])
def test_the_negative_vectors_are_refused(entry: Section) -> None:
    with pytest.raises(WireError) as refusal:
        Checkpoint.decode(unhex(entry["cbor"]))
    assert refusal.value.code is ErrorCode.FORMAT


@given(checkpoints)
def test_decode_gives_back_what_was_encoded(checkpoint: Checkpoint) -> None:
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


@given(st.lists(checkpoints, max_size=3))
def test_checkpoints_are_read_where_they_stand_in_another_object(many: list[Checkpoint]) -> None:
    reader = cbor.Reader(b"".join(one.encode() for one in many))
    assert [Checkpoint.read(reader) for _ in many] == many
    reader.end()


@pytest.mark.parametrize("entry", VECTORS, ids=lambda entry: entry["name"])
def test_every_flipped_bit_is_refused(entry: Section) -> None:
    data = unhex(entry["checkpoint_cbor"])
    hub_pk = PublicKey(unhex(entry["hub_pk"]))
    witnesses = [OLD.public, NEW.public] if entry["witness_sigs"] else []
    for changed in flipped_bits(data):
        with pytest.raises(VeenError) as refusal:
            _check_whole(changed, hub_pk, witnesses)
        assert refusal.value.code in {ErrorCode.FORMAT, ErrorCode.SIG}
    for size in range(len(data)):
        with pytest.raises(WireError):
            Checkpoint.decode(data[:size])
    with pytest.raises(WireError):
        Checkpoint.decode(data + b"\x00")


def _check_whole(data: bytes, hub_pk: PublicKey, witnesses: list[PublicKey]) -> None:
    checkpoint = Checkpoint.decode(data)
    checkpoint.verify(hub_pk)
    checkpoint.verify_witnesses(witnesses)


@pytest.mark.parametrize(
    "keys",
    [[], [OLD], [NEW, OLD], [OLD, NEW, NEW], [OLD, OLD]],
    ids=["none", "one", "swapped", "too many", "one twice"],
)
def test_other_witnesses_are_refused(keys: list[object]) -> None:
    witnessed = Checkpoint.decode(unhex(VECTORS[2]["checkpoint_cbor"]))
    pks = [OLD.public if found is OLD else NEW.public for found in keys]
    with pytest.raises(VeenError) as refusal:
        witnessed.verify_witnesses(pks)
    assert refusal.value.code is ErrorCode.SIG


def test_an_empty_list_of_witnesses_is_a_second_spelling_and_refused() -> None:
    plain = unhex(VECTORS[0]["checkpoint_cbor"])
    with pytest.raises(WireError):
        Checkpoint.decode(b"\x88" + plain[1:] + b"\x80")


def test_the_number_of_witnesses_is_bounded() -> None:
    plain = Checkpoint.decode(unhex(VECTORS[0]["checkpoint_cbor"]))
    many = dataclasses.replace(plain, witness_sigs=(plain.hub_sig,) * WITNESSES_MAX)
    assert Checkpoint.decode(many.encode()) == many
    over = dataclasses.replace(plain, witness_sigs=(plain.hub_sig,) * (WITNESSES_MAX + 1))
    with pytest.raises(WireError):
        Checkpoint.decode(over.encode())


def test_a_checkpoint_of_nothing_is_refused() -> None:
    data = unhex(VECTORS[0]["checkpoint_cbor"])
    assert data[70] == 2
    with pytest.raises(WireError, match="empty log"):
        Checkpoint.decode(data[:70] + b"\x00" + data[71:])
