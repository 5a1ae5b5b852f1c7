from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto import aead
from hub.errors import ErrorCode, WireError
from tests.support import vectors
from tests.support.strategies import bytes32, flipped_bits
from tests.support.vectors import unhex

KEY = bytes(range(32))
NONCE = bytes(range(24))


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_sealed_body_of_the_vectors(letter: str) -> None:
    vector = vectors.message(letter)
    derived, body = vector["derived"], unhex(vector["inputs"]["body"])
    key, nonce, aad = (unhex(derived[name]) for name in ("k_body", "body_nonce", "aad"))
    assert aead.seal(key, nonce, body, aad) == unhex(derived["aead_ct_body"])
    assert aead.open_(key, nonce, unhex(derived["aead_ct_body"]), aad) == body


@given(bytes32, st.binary(min_size=24, max_size=24), st.binary(max_size=300), st.binary())
def test_what_was_sealed_opens(key: bytes, nonce: bytes, plaintext: bytes, aad: bytes) -> None:
    sealed = aead.seal(key, nonce, plaintext, aad)
    assert len(sealed) == len(plaintext) + aead.TAG_BYTES
    assert aead.open_(key, nonce, sealed, aad) == plaintext


def test_every_flipped_bit_of_key_nonce_ciphertext_and_aad_is_refused() -> None:
    parts = [KEY, NONCE, aead.seal(KEY, NONCE, b"plain", b"aad"), b"aad"]
    for place in range(4):
        for changed in flipped_bits(parts[place]):
            changed_parts = parts.copy()
            changed_parts[place] = changed
            key, nonce, sealed, aad = changed_parts
            with pytest.raises(WireError, match="does not open"):
                aead.open_(key, nonce, sealed, aad)


@pytest.mark.parametrize("size", range(aead.TAG_BYTES))
def test_less_than_a_tag_is_refused(size: int) -> None:
    with pytest.raises(WireError) as refusal:
        aead.open_(KEY, NONCE, bytes(size), b"")
    assert refusal.value.code is ErrorCode.FORMAT
