from __future__ import annotations

import dataclasses
from typing import Final

import pytest

from hub.admission.form import check_form
from hub.crypto import hashing
from hub.errors import ErrorCode, VeenError
from hub.limits import DEFAULT, Limits
from hub.types import Hash, ProfileId
from hub.wire.msg import Msg
from hub.wire.profile import DEFAULT_PROFILES
from tests.support import vectors
from tests.support.strategies import flipped_bits
from tests.support.vectors import Section, unhex

PROFILES: Final = {profile.id: profile for profile in DEFAULT_PROFILES}
A, B = (unhex(vectors.message(letter)["msg_cbor"]) for letter in "AB")
UNKNOWN: Final = ProfileId(bytes([9]) * 32)

# The vectors name details of an older table; a name that is not here fails the test.
CODES: Final = {
    "CBOR_INVALID": ErrorCode.FORMAT,
    "FIELD_SIZE": ErrorCode.FORMAT,
    "VERSION": ErrorCode.FORMAT,
    "CT_HASH": ErrorCode.FORMAT,
    "PROFILE": ErrorCode.PROFILE,
    "SIG_INVALID": ErrorCode.SIG,
}


def _refusal(data: bytes, limits: Limits = DEFAULT) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        check_form(data, PROFILES, limits)
    return refusal.value.code


def _changed(data: bytes, **fields: object) -> bytes:
    msg: Msg = dataclasses.replace(Msg.decode(data), **fields)  # type: ignore[arg-type]
    return msg.encode()


def _with_ciphertext(ciphertext: bytes) -> bytes:
    return _changed(B, ciphertext=ciphertext, ct_hash=Hash(hashing.h(ciphertext)))


@pytest.mark.parametrize("data", [A, B], ids="AB")
def test_the_messages_of_the_vectors_are_well_formed(data: bytes) -> None:
    msg = check_form(data, PROFILES)
    msg.verify()
    assert msg.encode() == data


@pytest.mark.parametrize(
    "entry", vectors.load("cbor_negative")["msg"], ids=lambda entry: entry["name"]
)
def test_the_negative_vectors_are_refused_with_the_code_of_the_table(entry: Section) -> None:
    expected = CODES[entry["expected_detail_enum"]]
    data = unhex(entry["cbor"])
    if expected is not ErrorCode.SIG:
        assert _refusal(data) is expected
        return
    msg = check_form(data, PROFILES)  # Form is in order: signatures are the next step's work.
    with pytest.raises(VeenError) as refusal:
        msg.verify()
    assert refusal.value.code is ErrorCode.SIG


def test_the_size_limit_is_inclusive() -> None:
    assert check_form(B, PROFILES, Limits(msg_bytes_max=len(B))).encode() == B
    assert _refusal(B, Limits(msg_bytes_max=len(B) - 1)) is ErrorCode.SIZE


def _prefixed(hdr_len: int, body_len: int, size: int) -> bytes:
    lengths = hdr_len.to_bytes(4, "big") + body_len.to_bytes(4, "big")
    return (bytes(32) + lengths).ljust(size, b"\x00")


@pytest.mark.parametrize(
    ("ciphertext", "code"),
    [
        pytest.param(bytes(0), ErrorCode.FORMAT, id="shorter than its prefix"),
        pytest.param(_prefixed(100, 117, 256), ErrorCode.FORMAT, id="parts longer than the whole"),
        pytest.param(_prefixed(0, 0, 255), ErrorCode.FORMAT, id="not a multiple of pad_block"),
        pytest.param(_prefixed(0, 0, 255) + b"\x01", ErrorCode.FORMAT, id="padding not zero"),
        pytest.param(_prefixed(16_385, 0, 16_640), ErrorCode.SIZE, id="header over its limit"),
        pytest.param(_prefixed(0, 1_048_321, 256), ErrorCode.SIZE, id="body over its limit"),
    ],
)
def test_ciphertext_framing_is_checked_without_reading(ciphertext: bytes, code: ErrorCode) -> None:
    assert _refusal(_with_ciphertext(ciphertext)) is code


def test_the_first_fault_in_the_order_of_the_table_decides() -> None:
    wrong_hash = {"ct_hash": Hash(bytes(32))}
    over = _prefixed(16_385, 0, 16_640)
    # Size before structure.
    assert _refusal(b"\xff" * 100, Limits(msg_bytes_max=99)) is ErrorCode.SIZE
    # Structure before profile.
    assert _refusal(_changed(B, profile_id=UNKNOWN) + b"\x00") is ErrorCode.FORMAT
    # Profile before framing and ct_hash.
    unknown = _changed(B, profile_id=UNKNOWN, ciphertext=over, **wrong_hash)
    assert _refusal(unknown) is ErrorCode.PROFILE
    # Framing before ct_hash.
    assert _refusal(_changed(B, ciphertext=over, **wrong_hash)) is ErrorCode.SIZE
    # ct_hash is the last of this step.
    assert _refusal(_changed(B, **wrong_hash)) is ErrorCode.FORMAT


def test_a_profile_is_taken_only_when_it_is_configured() -> None:
    with pytest.raises(VeenError) as refusal:
        check_form(B, {})
    assert refusal.value.code is ErrorCode.PROFILE


def test_a_flipped_bit_has_one_of_four_codes_and_none_passes() -> None:
    for changed in flipped_bits(B):
        with pytest.raises(VeenError) as refusal:
            check_form(changed, PROFILES).verify()
        assert refusal.value.code in {
            ErrorCode.FORMAT,
            ErrorCode.SIZE,
            ErrorCode.PROFILE,
            ErrorCode.SIG,
        }
