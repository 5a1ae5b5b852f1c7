from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, WireError
from hub.types import AuthRef, Hash, LeafHash, UnixSeconds
from hub.wire.payload import PayloadHeader
from tests.support import vectors
from tests.support.strategies import bytes32, flipped_bits, uint64
from tests.support.vectors import Section, unhex

headers = st.builds(
    PayloadHeader,
    schema=bytes32.map(Hash),
    parent_id=st.none() | bytes32.map(LeafHash),
    att_root=st.none() | bytes32.map(Hash),
    cap_ref=st.none() | bytes32.map(AuthRef),
    expires_at=st.none() | uint64.map(UnixSeconds),
)


@pytest.mark.parametrize(
    "entry", vectors.load("messages")["payload_hdr"], ids=lambda entry: entry["name"]
)
def test_the_bytes_of_the_vectors(entry: Section) -> None:
    data = unhex(entry["cbor"])
    assert PayloadHeader.decode(data).encode() == data


def test_the_fields_of_the_vectors() -> None:
    inputs = vectors.message("B")["inputs"]
    assert PayloadHeader.decode(unhex(inputs["payload_hdr_cbor"])) == PayloadHeader(
        schema=Hash(unhex("d07b66b7da9e1e2387fcaafa41c1bdee224d6078dc11eb4268ec488e69384542")),
        parent_id=LeafHash(unhex(vectors.message("A")["derived"]["leaf_hash"])),
        cap_ref=AuthRef(unhex(inputs["auth_ref"])),
        expires_at=UnixSeconds(1_900_000_000),
    )


@pytest.mark.parametrize(
    "entry", vectors.load("cbor_negative")["payload_hdr"], ids=lambda entry: entry["name"]
)
def test_the_negative_vectors_are_refused(entry: Section) -> None:
    with pytest.raises(WireError) as refusal:
        PayloadHeader.decode(unhex(entry["cbor"]))
    assert refusal.value.code is ErrorCode.FORMAT


@given(headers)
def test_decode_gives_back_what_was_encoded(header: PayloadHeader) -> None:
    assert PayloadHeader.decode(header.encode()) == header


@given(headers)
def test_a_flipped_bit_is_refused_or_makes_another_header(header: PayloadHeader) -> None:
    data = header.encode()
    for changed in flipped_bits(data):
        try:
            other = PayloadHeader.decode(changed)
        except WireError:
            continue
        assert other != header
        assert other.encode() == changed


@given(headers)
def test_truncated_and_extended_bytes_are_refused(header: PayloadHeader) -> None:
    data = header.encode()
    for size in range(len(data)):
        with pytest.raises(WireError):
            PayloadHeader.decode(data[:size])
    with pytest.raises(WireError):
        PayloadHeader.decode(data + b"\x00")
