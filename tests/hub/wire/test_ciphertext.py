from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ErrorCode, WireError
from hub.limits import Limits
from hub.wire import ciphertext
from tests.support import vectors
from tests.support.strategies import bytes32
from tests.support.vectors import unhex

ENC = bytes(range(32))
LIMITS = Limits(hdr_bytes_max=20, body_bytes_max=30)


def _framed(hdr_len: int, body_len: int, rest: bytes) -> bytes:
    return ENC + hdr_len.to_bytes(4, "big") + body_len.to_bytes(4, "big") + rest


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_ciphertexts_of_the_vectors(letter: str) -> None:
    vector = vectors.message(letter)
    pad_block, derived = vector["inputs"]["pad_block"], vector["derived"]
    enc, hdr_ct, body_ct = (unhex(derived[n]) for n in ("enc", "hpke_ct_hdr", "aead_ct_body"))
    joined = ciphertext.join(enc, hdr_ct, body_ct, pad_block)
    assert joined == unhex(derived["ciphertext"])
    assert len(ciphertext.join(enc, hdr_ct, body_ct, 0)) == derived["ciphertext_unpadded_len"]
    parts = ciphertext.split(joined, pad_block)
    assert (parts.enc, parts.hdr_ct, parts.body_ct) == (enc, hdr_ct, body_ct)


@given(
    bytes32,
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.sampled_from([0, 1, 7, 256, 1024]),
)
def test_split_gives_back_what_was_joined(
    enc: bytes, hdr_ct: bytes, body_ct: bytes, pad_block: int
) -> None:
    joined = ciphertext.join(enc, hdr_ct, body_ct, pad_block)
    assert not pad_block or len(joined) % pad_block == 0
    ciphertext.check_framing(joined, pad_block)
    assert ciphertext.split(joined, pad_block) == ciphertext.Parts(
        enc=enc, hdr_ct=hdr_ct, body_ct=body_ct
    )


@pytest.mark.parametrize(
    ("data", "pad_block", "code"),
    [
        pytest.param(b"", 0, ErrorCode.FORMAT, id="empty"),
        pytest.param(bytes(39), 0, ErrorCode.FORMAT, id="shorter than its prefix"),
        pytest.param(_framed(2, 2, bytes(3)), 0, ErrorCode.FORMAT, id="body one byte short"),
        pytest.param(_framed(4, 0, bytes(3)), 0, ErrorCode.FORMAT, id="header one byte short"),
        pytest.param(_framed(1, 1, b"hb\x01"), 0, ErrorCode.FORMAT, id="padding not zero"),
        pytest.param(_framed(1, 1, b"hb" + bytes(5)), 8, ErrorCode.FORMAT, id="not a multiple"),
        pytest.param(_framed(21, 0, bytes(21)), 0, ErrorCode.SIZE, id="header over its limit"),
        pytest.param(_framed(0, 31, bytes(31)), 0, ErrorCode.SIZE, id="body over its limit"),
        pytest.param(_framed(2**32 - 1, 0, b""), 0, ErrorCode.SIZE, id="claim that cannot fit"),
    ],
)
def test_what_a_hub_refuses_without_reading(data: bytes, pad_block: int, code: ErrorCode) -> None:
    for check in (ciphertext.check_framing, ciphertext.split):
        with pytest.raises(WireError) as refusal:
            check(data, pad_block, LIMITS)
        assert refusal.value.code is code


def test_lengths_at_their_limits_and_padding_of_several_blocks_are_taken() -> None:
    ciphertext.check_framing(_framed(20, 30, bytes(50)), 0, LIMITS)
    ciphertext.check_framing(_framed(0, 0, bytes(24)), 8, LIMITS)
    ciphertext.check_framing(_framed(0, 0, bytes(24)), 0, LIMITS)
