from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto import hpke
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import DhKey, StreamId, UnixSeconds
from hub.wire import cbor
from hub.wire.readerkey import (
    WRAP_INFO,
    WRAPPED_BYTES,
    ReaderKeyRecord,
    WrappedReaderSecret,
    accept,
    newest_first,
)
from tests.support.strategies import bytes32, bytes64, flipped_bits, uint64
from tests.support.vectors import load, unhex

VECTORS = load("manifest_rotation")
DATA = unhex(VECTORS["reader_key_record_cbor"])
ADMIN = SigningKey(unhex(VECTORS["recorder_admin_seed"]))
STRANGER = SigningKey(bytes(32))
STREAM = StreamId(bytes([1]) * 32)
READER = DhSecret(bytes([2]) * 32)
SECRET = bytes([3]) * 32

records = st.builds(
    ReaderKeyRecord,
    stream_id=bytes32, key_id=uint64, reader_pk=bytes32, ts=uint64, recorder_admin_pk=bytes32,
    sig=bytes64,
)  # fmt: skip
wrapped_secrets = st.builds(
    WrappedReaderSecret,
    stream_id=bytes32,
    key_id=uint64,
    reader_dh=bytes32,
    wrapped=st.binary(min_size=WRAPPED_BYTES, max_size=WRAPPED_BYTES),
)


def record(
    key_id: int, *, key: SigningKey = ADMIN, stream_id: StreamId = STREAM
) -> ReaderKeyRecord:
    reader_pk = DhKey(bytes([key_id]) * 32)
    return ReaderKeyRecord.sign(
        key, stream_id=stream_id, key_id=key_id, reader_pk=reader_pk, ts=UnixSeconds(key_id)
    )


def accept_code(held: ReaderKeyRecord | None, offered: ReaderKeyRecord) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        accept(held, offered, stream_id=STREAM, recorder_admin_pk=ADMIN.public)
    return refusal.value.code


def test_the_reader_key_record_of_the_vectors_has_exactly_these_bytes() -> None:
    found = ReaderKeyRecord.decode(DATA)
    assert found.encode() == DATA
    found.verify(ADMIN.public)
    made = ReaderKeyRecord.sign(
        ADMIN,
        stream_id=found.stream_id,
        key_id=found.key_id,
        reader_pk=found.reader_pk,
        ts=found.ts,
    )
    assert made == found


@given(records)
def test_a_reader_key_record_decodes_to_itself(found: ReaderKeyRecord) -> None:
    assert ReaderKeyRecord.decode(found.encode()) == found


def test_no_flipped_bit_of_a_reader_key_record_survives() -> None:
    for mutant in flipped_bits(DATA):
        with pytest.raises(VeenError):
            ReaderKeyRecord.decode(mutant).verify(ADMIN.public)


def test_a_record_of_another_admin_is_not_trusted_though_well_signed() -> None:
    assert accept_code(None, record(1, key=STRANGER)) is ErrorCode.TRUST
    claimed = replace(record(1, key=STRANGER), recorder_admin_pk=ADMIN.public)
    assert accept_code(None, claimed) is ErrorCode.SIG


def test_a_record_of_another_stream_is_not_taken() -> None:
    assert accept_code(None, record(1, stream_id=StreamId(bytes(32)))) is ErrorCode.TRUST


def test_only_a_higher_key_id_replaces_the_held_record() -> None:
    held = record(5)
    for offered in (record(6), held):
        found = accept(held, offered, stream_id=STREAM, recorder_admin_pk=ADMIN.public)
        assert found == offered
    assert accept_code(held, record(4)) is ErrorCode.TRUST


def test_two_reader_keys_under_one_key_id_are_equivocation() -> None:
    other = ReaderKeyRecord.sign(
        ADMIN, stream_id=STREAM, key_id=5, reader_pk=READER.public, ts=UnixSeconds(5)
    )
    assert accept_code(record(5), other) is ErrorCode.EQUIVOCATION


def test_the_same_key_signed_again_at_another_time_is_not_newer() -> None:
    again = ReaderKeyRecord.sign(
        ADMIN, stream_id=STREAM, key_id=5, reader_pk=record(5).reader_pk, ts=UnixSeconds(6)
    )
    assert accept_code(record(5), again) is ErrorCode.TRUST


def test_keys_are_tried_newest_first() -> None:
    found = newest_first([record(2), record(3), record(1)])
    assert [item.key_id for item in found] == [3, 2, 1]


# -- wrapped secrets


def wrap(ephemeral: bytes | None = None) -> WrappedReaderSecret:
    return WrappedReaderSecret.wrap(
        SECRET, stream_id=STREAM, key_id=7, reader_dh=READER.public, ephemeral=ephemeral
    )


@given(wrapped_secrets)
def test_a_wrapped_secret_decodes_to_itself(found: WrappedReaderSecret) -> None:
    assert WrappedReaderSecret.decode(found.encode()) == found


def test_the_reader_gets_the_secret_back() -> None:
    assert WrappedReaderSecret.decode(wrap().encode()).unwrap(READER.secret) == SECRET


def test_the_wrap_is_hpke_over_the_first_four_fields() -> None:
    ephemeral = bytes([8]) * 32
    context = hpke.seal_setup(READER.public, info=WRAP_INFO, ephemeral=ephemeral)
    aad = cbor.encode([1, STREAM, 7, READER.public])
    sealed = context.enc + context.seal(SECRET, aad)
    assert wrap(ephemeral).encode() == cbor.encode([1, STREAM, 7, READER.public, sealed])


def test_every_wrap_is_fresh() -> None:
    assert wrap().wrapped[:32] != wrap().wrapped[:32]


def test_another_reader_does_not_open_it() -> None:
    with pytest.raises(VeenError, match="does not open"):
        wrap().unwrap(bytes([9]) * 32)


def test_no_flipped_bit_of_a_wrapped_secret_survives() -> None:
    """Nor the top bit of enc, which X25519 ignores: the context covers enc itself."""
    for mutant in flipped_bits(wrap(bytes([8]) * 32).encode()):
        with pytest.raises(VeenError):
            WrappedReaderSecret.decode(mutant).unwrap(READER.secret)
