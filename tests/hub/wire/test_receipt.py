from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, VeenError, WireError
from hub.types import Label, LeafHash, MmrRoot, PublicKey, Signature, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from tests.support import vectors
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import Section, unhex
from tests.support.wire_objects import signing_key

VECTORS = vectors.load("receipts_checkpoints")
HUB = signing_key("hub")

receipts = st.builds(
    Receipt,
    label=bytes32.map(Label),
    stream_seq=uint64.filter(bool).map(StreamSeq),
    leaf_hash=bytes32.map(LeafHash),
    mmr_root=bytes32.map(MmrRoot),
    hub_ts=uint64.map(UnixSeconds),
    hub_sig=bytes64.map(Signature),
)


@pytest.mark.parametrize("entry", VECTORS["receipts"], ids=lambda entry: entry["for_message"])
def test_every_value_of_the_vectors(entry: Section) -> None:
    data = unhex(entry["receipt_cbor"])
    receipt = Receipt.decode(data)
    receipt.verify(PublicKey(unhex(entry["hub_pk"])))
    assert receipt.encode() == data
    assert receipt.signing_hash() == unhex(entry["signing_digest"])
    assert (receipt.stream_seq, receipt.hub_ts) == (entry["stream_seq"], entry["hub_ts"])
    assert receipt.label == unhex(entry["label"])
    assert receipt.leaf_hash == unhex(entry["leaf_hash"])
    assert receipt.mmr_root == unhex(entry["mmr_root"])
    assert receipt.hub_sig == unhex(entry["hub_sig"])
    fields = (receipt.label, receipt.stream_seq, receipt.leaf_hash, receipt.mmr_root)
    assert Receipt.sign(HUB, *fields, receipt.hub_ts) == receipt
    assert Receipt.encode_signed(HUB, *fields, receipt.hub_ts) == data


def test_the_equivocation_pair_is_two_valid_receipts_of_one_place() -> None:
    pair = VECTORS["equivocation_pair"]
    first, second = (Receipt.decode(unhex(pair[name])) for name in ("first", "second"))
    for receipt in (first, second):
        receipt.verify(HUB.public)
    assert (first.label, first.stream_seq) == (second.label, second.stream_seq)
    assert first.leaf_hash != second.leaf_hash


@given(receipts)
def test_decode_gives_back_what_was_encoded(receipt: Receipt) -> None:
    assert Receipt.decode(receipt.encode()) == receipt


@given(receipts)
def test_the_writer_s_bytes_are_those_of_the_object(receipt: Receipt) -> None:
    fields = (receipt.label, receipt.stream_seq, receipt.leaf_hash, receipt.mmr_root)
    data = Receipt.encode_signed(HUB, *fields, receipt.hub_ts)
    assert data == Receipt.sign(HUB, *fields, receipt.hub_ts).encode()
    Receipt.decode(data).verify(HUB.public)


@pytest.mark.parametrize("entry", VECTORS["receipts"], ids=lambda entry: entry["for_message"])
def test_every_flipped_bit_is_refused(entry: Section) -> None:
    data = unhex(entry["receipt_cbor"])
    for changed in flipped_bits(data):
        with pytest.raises(VeenError) as refusal:
            Receipt.decode(changed).verify(HUB.public)
        assert refusal.value.code in {ErrorCode.FORMAT, ErrorCode.SIG}
    for size in range(len(data)):
        with pytest.raises(WireError):
            Receipt.decode(data[:size])
    with pytest.raises(WireError):
        Receipt.decode(data + b"\x00")


def test_a_receipt_of_another_hub_is_refused() -> None:
    receipt = Receipt.decode(unhex(VECTORS["receipts"][0]["receipt_cbor"]))
    with pytest.raises(VeenError) as refusal:
        receipt.verify(signing_key("hub2").public)
    assert refusal.value.code is ErrorCode.SIG


def test_sequence_zero_is_refused() -> None:
    data = unhex(VECTORS["receipts"][0]["receipt_cbor"])
    assert data[36] == 1
    with pytest.raises(WireError, match="start at 1"):
        Receipt.decode(data[:36] + b"\x00" + data[37:])
    with pytest.raises(AssertionError):
        dataclasses.replace(Receipt.decode(data), stream_seq=StreamSeq(0)).encode()


def _check_both_readers_agree(data: bytes) -> None:
    by_position = Receipt._decode_by_position(data)
    if by_position is not None:
        assert by_position == Receipt._decode_by_field(data)
        assert by_position.encode() == data


@given(receipts, st.data())
def test_the_fast_reader_accepts_nothing_that_the_strict_one_refuses(
    receipt: Receipt, data: st.DataObject
) -> None:
    encoded = receipt.encode()
    _check_both_readers_agree(encoded)
    at = data.draw(st.integers(0, len(encoded)))
    gone = data.draw(st.integers(0, 3))
    new = data.draw(st.binary(max_size=3))
    _check_both_readers_agree(encoded[:at] + new + encoded[at + gone :])


@pytest.mark.parametrize("stream_seq", [24, 255, 256, 65_535, 65_536, 2**32 - 1])
def test_the_fast_reader_agrees_on_every_value_of_every_structural_byte(stream_seq: int) -> None:
    fields = (Label(bytes(32)), StreamSeq(stream_seq), LeafHash(bytes(32)), MmrRoot(bytes(32)))
    encoded = Receipt.encode_signed(HUB, *fields, UnixSeconds(1_700_000_000))
    assert Receipt._decode_by_position(encoded) is not None
    for position in (*range(5), *range(35, 46), *range(70, 85), *range(100, 125)):
        for value in range(256):
            _check_both_readers_agree(
                encoded[:position] + bytes((value,)) + encoded[position + 1 :]
            )


@given(st.lists(receipts, min_size=1, max_size=4), st.binary(max_size=3))
def test_a_receipt_is_read_out_of_a_sequence_as_by_itself(row: list[Receipt], rest: bytes) -> None:
    data = b"".join(receipt.encode() for receipt in row) + rest
    pos = 0
    for receipt in row:
        end = pos + len(receipt.encode())
        assert Receipt.read_at(data, pos) in (None, (receipt, end))
        pos = end
    assert Receipt.read_at(data, pos) is None


def test_the_common_spelling_is_read_out_of_a_sequence() -> None:
    row = [
        Receipt.sign(
            HUB, Label(bytes(32)), StreamSeq(seq), LeafHash(bytes(32)), MmrRoot(bytes(32)),
            UnixSeconds(1_700_000_000),
        )
        for seq in (24, 255, 256, 65_536)
    ]  # fmt: skip
    data = b"".join(receipt.encode() for receipt in row)
    pos = 0
    for receipt in row:
        found = Receipt.read_at(data, pos)
        assert found is not None
        assert found[0] == receipt
        pos = found[1]
    assert pos == len(data)
