from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto import hashing, hpke
from hub.errors import WireError
from hub.types import Hash
from hub.wire import attachment
from tests.support import vectors
from tests.support.strategies import bytes32, flipped_bits
from tests.support.vectors import Section, unhex
from tests.support.wire_objects import dh_secret

VECTORS = vectors.load("attachments")
MESSAGE_B = vectors.message("B")
AAD = unhex(MESSAGE_B["derived"]["aad"])
READER = dh_secret("receiver_dh")


def _context() -> hpke.SealContext:
    ephemeral = unhex(MESSAGE_B["inputs"]["hpke_ephemeral_sk"])
    return hpke.seal_setup(READER.public, ephemeral=ephemeral)


@pytest.mark.parametrize("entry", VECTORS["attachments"], ids=lambda entry: entry["index"])
def test_the_sealed_attachments_of_the_vectors(entry: Section) -> None:
    index, plaintext, expected = entry["index"], unhex(entry["plaintext"]), entry["aad_based"]
    context = _context()
    assert attachment.att_key(context, index) == unhex(entry["k_att"])
    assert attachment.att_nonce(AAD, index) == unhex(expected["n_att"])
    sealed = attachment.seal(context, AAD, index, plaintext)
    assert sealed == unhex(expected["ciphertext"])
    assert attachment.coid(sealed) == unhex(expected["coid"])
    reader = hpke.open_setup(context.enc, READER)
    assert attachment.open_(reader, AAD, index, sealed) == plaintext


@pytest.mark.parametrize("entry", VECTORS["attachments"], ids=lambda entry: entry["index"])
def test_the_circular_nonce_of_the_text_is_not_ours(entry: Section) -> None:
    # `literal` hashes msg_id in the place of the aad; it shows that only that input differs.
    msg_id = unhex(MESSAGE_B["derived"]["msg_id"])
    assert attachment.att_nonce(msg_id, entry["index"]) == unhex(entry["literal"]["n_att"])
    with pytest.raises(WireError):
        attachment.open_(_context(), AAD, entry["index"], unhex(entry["literal"]["ciphertext"]))


@pytest.mark.parametrize("entry", VECTORS["roots"], ids=lambda entry: entry["count"])
def test_the_roots_of_the_vectors(entry: Section) -> None:
    coids = [Hash(unhex(coid)) for coid in VECTORS["coids"][: entry["count"]]]
    assert attachment.att_root(coids) == unhex(entry["att_root"])


@pytest.mark.parametrize("entry", VECTORS["upstream_inputs"])
def test_the_roots_over_given_ciphertexts(entry: Section) -> None:
    coids = [attachment.coid(text.encode()) for text in entry["ciphertexts"]]
    assert attachment.att_root(coids) == unhex(entry["att_root"])


def test_the_root_of_nothing_and_of_the_sealed_ones() -> None:
    assert VECTORS["index_base"] == 0
    assert attachment.att_root([]) == unhex(VECTORS["empty_root"])
    coids = [Hash(unhex(entry["aad_based"]["coid"])) for entry in VECTORS["attachments"]]
    assert attachment.att_root(coids) == unhex(VECTORS["aad_based_att_root"])


@given(st.lists(bytes32.map(Hash), max_size=40))
def test_the_root_equals_that_of_a_recursive_reading(coids: list[Hash]) -> None:
    peaks: list[bytes] = []
    rest: list[bytes] = list(coids)
    while rest:  # the largest power of two from the left is one perfect tree
        size = 1 << (len(rest).bit_length() - 1)
        peaks.append(_perfect(rest[:size]))
        rest = rest[size:]
    assert attachment.att_root(coids) == hashing.ATT_ROOT(b"".join(reversed(peaks)))


def _perfect(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    half = len(leaves) // 2
    return hashing.ATT_NODE(_perfect(leaves[:half]) + _perfect(leaves[half:]))


def test_order_and_place_of_attachments_are_bound() -> None:
    sealed = [attachment.seal(_context(), AAD, index, b"same") for index in range(3)]
    coids = [attachment.coid(one) for one in sealed]
    assert len(set(coids)) == 3
    assert attachment.att_root(coids) != attachment.att_root(coids[::-1])
    with pytest.raises(WireError):
        attachment.open_(_context(), AAD, 1, sealed[0])


def test_every_flipped_bit_of_a_sealed_attachment_is_refused() -> None:
    for changed in flipped_bits(attachment.seal(_context(), AAD, 0, b"plain")):
        with pytest.raises(WireError):
            attachment.open_(_context(), AAD, 0, changed)
