from __future__ import annotations

import pytest
from hypothesis import given

from hub.errors import WireError
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT, Profile, parse_profile
from tests.support import vectors
from tests.support.strategies import flipped_bits, uint64
from tests.support.vectors import Section, unhex


@pytest.mark.parametrize("entry", vectors.load("profiles")["profiles"])
def test_the_bytes_and_the_id_of_the_vectors(entry: Section) -> None:
    profile = Profile(epoch_sec=entry["epoch_sec"], pad_block=entry["pad_block"])
    assert profile.encode() == unhex(entry["cbor"])
    assert profile.id == unhex(entry["profile_id"])
    assert Profile.decode(unhex(entry["cbor"])) == profile


def test_the_text_key_form_of_the_legacy_dialect_is_refused() -> None:
    with pytest.raises(WireError):
        Profile.decode(unhex(vectors.load("profiles")["legacy_text_key_profile"]["cbor"]))


@given(uint64, uint64)
def test_decode_gives_back_what_was_encoded(epoch_sec: int, pad_block: int) -> None:
    profile = Profile(epoch_sec=epoch_sec, pad_block=pad_block)
    assert Profile.decode(profile.encode()) == profile


def test_a_flipped_bit_is_refused_or_makes_another_profile() -> None:
    for changed in flipped_bits(PRODUCT.encode()):
        try:
            other = Profile.decode(changed)
        except WireError:
            continue
        # Only the two numbers can change, and then the id does.
        assert other.encode() == changed
        assert other.id != PRODUCT.id


def test_the_product_profile_is_the_settled_one() -> None:
    expected = "97cc14b67f5d900b91289748f05ecabc3e4b898dcee3698aa3d1f1a9697b72b9"
    assert PRODUCT.id.hex() == expected
    assert [(one.epoch_sec, one.pad_block) for one in DEFAULT_PROFILES] == [
        (0, 0),
        (0, 256),
        (0, 1024),
    ]


def test_a_profile_is_written_as_its_two_numbers() -> None:
    assert parse_profile("0:256") == PRODUCT
    assert parse_profile("3600:1024") == Profile(epoch_sec=3600, pad_block=1024)


@pytest.mark.parametrize(
    "text", ["", "3600", "3600:", ":256", "-1:0", "1:2:3", "1:\u0662", "9" * 20 + ":0"]
)
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(WireError):
        parse_profile(text)
