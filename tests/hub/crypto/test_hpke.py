from __future__ import annotations

import pyhpke
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from hub.crypto import hpke
from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, WireError
from tests.support import vectors
from tests.support.strategies import bytes32, flipped_bits
from tests.support.vectors import unhex
from tests.support.wire_objects import dh_secret

SUITE = pyhpke.CipherSuite.new(
    pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256,
    pyhpke.KDFId.HKDF_SHA256,
    pyhpke.AEADId.CHACHA20_POLY1305,
)
READER = dh_secret("receiver_dh")
# Points of small order: X25519 with any of them gives zero, a secret everybody knows.
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
]


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_contexts_of_the_vectors(letter: str) -> None:
    vector = vectors.message(letter)
    inputs, derived = vector["inputs"], vector["derived"]
    header, aad = unhex(inputs["payload_hdr_cbor"]), unhex(derived["aad"])
    sender = hpke.seal_setup(READER.public, ephemeral=unhex(inputs["hpke_ephemeral_sk"]))
    assert sender.enc == unhex(derived["enc"])
    assert sender.shared_secret == unhex(derived["hpke_shared_secret"])
    assert sender.seal(header, aad) == unhex(derived["hpke_ct_hdr"])
    assert sender.export(b"veen/body-k") == unhex(derived["k_body"])
    for reader in (
        hpke.open_setup(sender.enc, READER),
        hpke.open_setup(sender.enc, READER.secret),
        hpke.open_from_shared_secret(sender.shared_secret),
    ):
        assert reader.open(unhex(derived["hpke_ct_hdr"]), aad) == header
        assert reader.export(b"veen/body-k") == unhex(derived["k_body"])


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_key_schedule_of_the_vectors(letter: str) -> None:
    vector = vectors.message(letter)
    derived, header = vector["derived"], unhex(vector["inputs"]["payload_hdr_cbor"])
    context = hpke.open_from_shared_secret(unhex(derived["hpke_shared_secret"]))
    context.export(b"")
    assert context._base_nonce == unhex(derived["hpke_base_nonce"])
    assert context._exporter == unhex(derived["hpke_exporter_secret"])
    # The AEAD object does not show its key, so both seal the same bytes instead.
    nonce, aad = bytes(12), unhex(derived["aad"])
    by_vector = ChaCha20Poly1305(unhex(derived["hpke_key"]))
    assert context._aead.encrypt(nonce, header, aad) == by_vector.encrypt(nonce, header, aad)


@given(bytes32, st.binary(max_size=40), st.lists(st.binary(max_size=60), max_size=4))
def test_another_library_opens_what_this_one_seals(
    secret: bytes, info: bytes, plaintexts: list[bytes]
) -> None:
    pair = DhSecret(secret)
    ours = hpke.seal_setup(pair.public, info=info)
    theirs = SUITE.create_recipient_context(
        ours.enc, SUITE.kem.deserialize_private_key(secret), info=info
    )
    for plaintext in plaintexts:  # the nonce counts up on both sides
        assert theirs.open(ours.seal(plaintext, b"aad"), b"aad") == plaintext
    assert theirs.export(b"name", 32) == ours.export(b"name")


@given(bytes32, st.binary(max_size=40), st.lists(st.binary(max_size=60), max_size=4))
def test_this_one_opens_what_another_library_seals(
    secret: bytes, info: bytes, plaintexts: list[bytes]
) -> None:
    pair = DhSecret(secret)
    public = SUITE.kem.deserialize_public_key(pair.public)
    enc, theirs = SUITE.create_sender_context(public, info=info)
    ours = hpke.open_setup(enc, pair, info=info)
    for plaintext in plaintexts:
        assert ours.open(theirs.seal(plaintext, b"aad"), b"aad") == plaintext


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64, 65, 255 * 32])
def test_exports_of_any_length_equal_another_library_s(length: int) -> None:
    sender = hpke.seal_setup(READER.public)
    theirs = SUITE.create_recipient_context(
        sender.enc, SUITE.kem.deserialize_private_key(READER.secret)
    )
    if length:
        assert sender.export(b"name", length) == theirs.export(b"name", length)
    assert len(sender.export(b"name", length)) == length


def test_every_flipped_bit_of_enc_ciphertext_and_aad_is_refused() -> None:
    sender = hpke.seal_setup(READER.public)
    sealed = sender.seal(b"plain", b"aad")
    # Bit 255 of enc does not change the point, but it is hashed into the secret.
    for enc in flipped_bits(sender.enc):
        with pytest.raises(WireError):
            hpke.open_setup(enc, READER).open(sealed, b"aad")
    for changed in flipped_bits(sealed):
        with pytest.raises(WireError):
            hpke.open_setup(sender.enc, READER).open(changed, b"aad")
    for aad in flipped_bits(b"aad"):
        with pytest.raises(WireError):
            hpke.open_setup(sender.enc, READER).open(sealed, aad)


def test_a_refused_ciphertext_leaves_the_context_where_it_was() -> None:
    sender = hpke.seal_setup(READER.public)
    reader = hpke.open_setup(sender.enc, READER)
    sealed = sender.seal(b"plain", b"")
    for size in range(len(sealed)):
        with pytest.raises(WireError):
            reader.open(sealed[:size], b"")
    assert reader.open(sealed, b"") == b"plain"


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_point_of_small_order_is_refused_at_both_ends(point: str) -> None:
    for setup in (
        lambda: hpke.seal_setup(unhex(point)),
        lambda: hpke.open_setup(unhex(point), READER),
    ):
        with pytest.raises(WireError) as refusal:
            setup()
        assert refusal.value.code is ErrorCode.FORMAT


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    for setup in (
        lambda: hpke.seal_setup(bytes(size)),
        lambda: hpke.open_setup(bytes(size), READER),
        lambda: hpke.open_from_shared_secret(bytes(size)),
    ):
        with pytest.raises(WireError):
            setup()


def test_every_context_has_an_enc_of_its_own() -> None:
    contexts = [hpke.seal_setup(READER.public) for _ in range(64)]
    assert len({context.enc for context in contexts}) == 64
    assert len({context.export(b"veen/body-k") for context in contexts}) == 64


def test_another_reader_cannot_open() -> None:
    sender = hpke.seal_setup(READER.public)
    with pytest.raises(WireError, match="does not open"):
        hpke.open_setup(sender.enc, DhSecret.generate()).open(sender.seal(b"", b""), b"")


def test_a_key_never_shows_its_secret_half() -> None:
    assert READER.secret.hex()[:8] not in repr(READER)
    assert READER.public.hex()[:8] in repr(READER)


@pytest.mark.parametrize(
    "name", [name for name in vectors.load("identifiers")["keys"] if name.startswith("hpke_eph")]
)
def test_the_public_half_follows_from_the_secret(name: str) -> None:
    assert dh_secret(name).public == unhex(vectors.load("identifiers")["keys"][name]["pk"])
