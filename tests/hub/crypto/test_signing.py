from __future__ import annotations

import pytest

from hub.crypto import signing
from hub.crypto.signing import Signed, SigningKey
from hub.errors import ErrorCode, VeenError
from tests.support import vectors
from tests.support.strategies import flipped_bits
from tests.support.vectors import unhex

KEYS = {
    name: entry
    for name, entry in vectors.load("identifiers")["keys"].items()
    if name.endswith("_sign")
}
DIGEST = bytes(range(32))
# The order of the base point: S + L signs the same where a verifier does not insist on S < L.
L = 2**252 + 27742317777372353535851937790883648493


@pytest.mark.parametrize("name", KEYS)
def test_the_public_keys_of_the_vectors_follow_from_their_seeds(name: str) -> None:
    assert SigningKey(unhex(KEYS[name]["seed"])).public == unhex(KEYS[name]["pk"])


def test_every_flipped_bit_of_key_signature_and_digest_is_refused() -> None:
    key = SigningKey.generate()
    parts = [bytes(key.public), bytes(key.sign(DIGEST)), DIGEST]
    signing.verify(*parts)
    for place in range(3):
        for changed in flipped_bits(parts[place]):
            changed_parts = parts.copy()
            changed_parts[place] = changed
            with pytest.raises(VeenError) as refusal:
                signing.verify(*changed_parts)
            assert refusal.value.code is ErrorCode.SIG


def test_a_second_signature_by_adding_the_group_order_is_refused() -> None:
    key = SigningKey.generate()
    signature = key.sign(DIGEST)
    number = int.from_bytes(signature[32:], "little") + L
    with pytest.raises(VeenError):
        signing.verify(key.public, signature[:32] + number.to_bytes(32, "little"), DIGEST)


def test_a_public_key_of_small_order_verifies_nothing() -> None:
    identity = bytes([1]) + bytes(31)
    with pytest.raises(VeenError):
        signing.verify(identity, identity + bytes(32), DIGEST)


@pytest.mark.parametrize("sizes", [(31, 64), (33, 64), (0, 64), (32, 63), (32, 65), (32, 0)])
def test_another_size_of_key_or_signature_is_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(VeenError) as refusal:
        signing.verify(bytes(sizes[0]), bytes(sizes[1]), DIGEST)
    assert refusal.value.code is ErrorCode.SIG


def test_many_at_once_are_signed_and_judged_as_one_by_one() -> None:
    key = SigningKey.generate()
    digests = [bytes([number]) * 32 for number in range(5)]
    signatures = key.sign_all(digests)
    assert signatures == [key.sign(digest) for digest in digests]
    signed: list[Signed] = [(key.public, *pair) for pair in zip(signatures, digests, strict=True)]
    assert signing.are_valid(signed)
    assert signing.are_valid([])
    other = SigningKey.generate()
    assert signing.are_valid([*signed, (other.public, other.sign(DIGEST), DIGEST)])
    for place in range(5):
        for changed in [*flipped_bits(signatures[place])][::37]:
            spoilt: Signed = (key.public, changed, digests[place])
            row = [*signed[:place], spoilt, *signed[place + 1 :]]
            assert not signing.are_valid(row)
            assert signing.count_valid(row) == place
        others: list[Signed] = [
            (other.public, signatures[place], digests[place]),
            (key.public, signatures[place], digests[place - 1]),
            (key.public, signatures[place][:63], digests[place]),
            (key.public[:31], signatures[place], digests[place]),
        ]
        for one in others:
            assert not signing.are_valid([*signed[:place], one, *signed[place + 1 :]])


def test_a_key_never_shows_its_seed() -> None:
    key = SigningKey.generate()
    assert key.public.hex()[:8] in repr(key)
    assert key.seed.hex()[:8] not in repr(key)
