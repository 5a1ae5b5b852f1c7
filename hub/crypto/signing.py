"""Ed25519 over 32-byte digests; verify raises [SSOT 3.2]."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TypeAlias

from nacl import bindings
from nacl.exceptions import BadSignatureError

from hub.errors import ErrorCode, ProofError
from hub.types import PublicKey, Signature

# PyNaCl verifies in 55-62 microseconds where `cryptography` takes 105-109, and both release the
# GIL; libsodium also refuses small-order keys and non-canonical S.


def verify(public_key: bytes, signature: bytes, digest: bytes) -> None:
    """Raise E.SIG unless public_key signed exactly this digest."""
    try:
        bindings.crypto_sign_open(signature + digest, public_key)
    except (BadSignatureError, ValueError) as refusal:
        raise does_not_verify() from refusal


def does_not_verify() -> ProofError:
    """What `verify` raises."""
    return ProofError("signature does not verify", ErrorCode.SIG)


Signed: TypeAlias = tuple[bytes, bytes, bytes]  # public key, signature, digest


def are_valid(signed: Sequence[Signed]) -> bool:
    """Whether every one of them verifies; `verify` says which does not."""
    return count_valid(signed) == len(signed)


def count_valid(signed: Sequence[Signed]) -> int:
    """How many verify, up to the first that does not.

    Hardly anything but libsodium runs between one signature and the next, so a thread that checks
    many seldom takes the GIL from one that is busy with something else.
    """
    keys = [key for key, _, _ in signed]
    messages = [signature + digest for _, signature, digest in signed]
    count = 0
    try:
        for _ in map(bindings.crypto_sign_open, messages, keys):
            count += 1
    except (BadSignatureError, ValueError):
        pass
    return count


class SigningKey:
    """An Ed25519 key pair held in memory; never printed."""

    __slots__ = ("_secret", "public", "seed")

    def __init__(self, seed: bytes) -> None:
        assert len(seed) == bindings.crypto_sign_SEEDBYTES
        public, self._secret = bindings.crypto_sign_seed_keypair(seed)
        self.seed = seed
        self.public = PublicKey(public)

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key from the operating system's randomness."""
        return cls(bindings.randombytes(bindings.crypto_sign_SEEDBYTES))

    def sign(self, digest: bytes) -> Signature:
        """Sign a 32-byte Ht digest."""
        return Signature(bindings.crypto_sign(digest, self._secret)[:64])

    def sign_all(self, digests: Sequence[bytes]) -> list[Signature]:
        """Sign many in a row; nothing but libsodium runs between one and the next."""
        signed = map(bindings.crypto_sign, digests, repeat(self._secret))
        return [Signature(one[:64]) for one in signed]

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()[:8]}...)"
