"""HPKE base mode: X25519, HKDF-SHA256, ChaCha20-Poly1305, with the exporter [SSOT 3.2, 4.2].

RFC 9180 in the one suite that a profile may name: KEM 0x0020, KDF 0x0001, AEAD 0x0003. A context
belongs to one MSG: `seal` is called once, and `export` gives the keys of the body and attachments.
Written over libsodium's X25519 because it takes a third less time (docs/adr/0005-hpke.md).
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from nacl import bindings
from nacl.exceptions import RuntimeError as SodiumError

from hub.errors import WireError
from hub.types import DhKey

SECRET_BYTES: Final = 32
ENC_BYTES: Final = 32
TAG_BYTES: Final = 16
_HASH_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_KEM: Final = b"HPKE-v1KEM\x00\x20"
_SUITE: Final = b"HPKE-v1HPKE\x00\x20\x00\x01\x00\x03"


def _extract(salt: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt, ikm, "sha256")


def _expand(prk: bytes, suite: bytes, labelled: bytes, length: int) -> bytes:
    """LabeledExpand; `labelled` is the label followed by its info."""
    info = length.to_bytes(2, "big") + suite + labelled
    block = hmac.digest(prk, info + b"\x01", "sha256")
    if length <= _HASH_BYTES:
        return block[:length]
    assert length <= 255 * _HASH_BYTES
    blocks = [block]
    for counter in range(2, -(-length // _HASH_BYTES) + 1):
        blocks.append(hmac.digest(prk, blocks[-1] + info + bytes((counter,)), "sha256"))
    return b"".join(blocks)[:length]


@lru_cache(maxsize=16)
def _schedule_context(info: bytes) -> bytes:
    # Two of the five derivations depend on info alone, and a deployment uses two values of it.
    psk_id_hash = _extract(b"", _SUITE + b"psk_id_hash")
    return b"\x00" + psk_id_hash + _extract(b"", _SUITE + b"info_hash" + info)


def _dh(secret: bytes, public: bytes) -> bytes:
    """X25519; libsodium refuses the all-zero outcome of a small-order point, as the RFC asks."""
    if len(public) != ENC_BYTES:
        raise WireError(f"an X25519 public key has 32 bytes, not {len(public)}")
    try:
        return bindings.crypto_scalarmult(secret, public)
    except SodiumError as refusal:
        raise WireError("not a usable X25519 public key") from refusal


def _shared_secret(dh: bytes, enc: bytes, pk_r: bytes) -> bytes:
    prk = _extract(b"", _KEM + b"eae_prk" + dh)
    return _expand(prk, _KEM, b"shared_secret" + enc + pk_r, SECRET_BYTES)


class DhSecret:
    """An X25519 key pair held in memory; never printed."""

    __slots__ = ("public", "secret")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) == SECRET_BYTES
        self.secret = secret
        self.public = DhKey(bindings.crypto_scalarmult_base(secret))

    @classmethod
    def generate(cls) -> Self:
        """A new key from the operating system's randomness."""
        return cls(bindings.randombytes(SECRET_BYTES))

    def __repr__(self) -> str:
        return f"DhSecret(public={self.public.hex()[:8]}...)"


class _Context:
    """The key schedule both ends share; the exporter secret is derived when first asked for."""

    __slots__ = (
        "_aead", "_base_nonce", "_exporter", "_schedule", "_secret", "_used", "shared_secret",
    )  # fmt: skip

    def __init__(self, shared_secret: bytes, info: bytes) -> None:
        assert len(shared_secret) == SECRET_BYTES
        self.shared_secret = shared_secret
        self._schedule = _schedule_context(info)
        self._secret = _extract(shared_secret, _SUITE + b"secret")
        self._aead = ChaCha20Poly1305(_expand(self._secret, _SUITE, b"key" + self._schedule, 32))
        self._base_nonce = _expand(
            self._secret, _SUITE, b"base_nonce" + self._schedule, _NONCE_BYTES
        )
        self._exporter = b""
        self._used = 0

    def _nonce(self) -> bytes:
        number = int.from_bytes(self._base_nonce, "big") ^ self._used
        return number.to_bytes(_NONCE_BYTES, "big")

    def export(self, context: bytes, length: int = 32) -> bytes:
        """A secret bound to this context and to the name given."""
        if not self._exporter:
            self._exporter = _expand(self._secret, _SUITE, b"exp" + self._schedule, _HASH_BYTES)
        return _expand(self._exporter, _SUITE, b"sec" + context, length)


class SealContext(_Context):
    """The sender's end; `enc` travels with the ciphertext."""

    __slots__ = ("enc",)

    def __init__(self, shared_secret: bytes, info: bytes, enc: bytes) -> None:
        super().__init__(shared_secret, info)
        self.enc = enc

    def seal(self, plaintext: bytes, aad: bytes) -> bytes:
        """Seal at the next sequence number."""
        sealed = self._aead.encrypt(self._nonce(), plaintext, aad)
        self._used += 1
        return sealed


class OpenContext(_Context):
    """The reader's end."""

    __slots__ = ()

    def open(self, ciphertext: bytes, aad: bytes) -> bytes:
        """Open at the next sequence number; E.FORMAT leaves that number where it was."""
        try:
            plaintext = self._aead.decrypt(self._nonce(), ciphertext, aad)
        except InvalidTag as refusal:
            raise WireError("does not open: wrong key, or changed bytes") from refusal
        self._used += 1
        return plaintext


def seal_setup(pk_r: bytes, *, info: bytes = b"", ephemeral: bytes | None = None) -> SealContext:
    """A fresh context to the reader's key; `ephemeral` is for published vectors only.

    Two messages under one ephemeral secret would share key and nonce.
    """
    pair = DhSecret.generate() if ephemeral is None else DhSecret(ephemeral)
    dh = _dh(pair.secret, pk_r)
    return SealContext(_shared_secret(dh, pair.public, pk_r), info, pair.public)


def open_setup(enc: bytes, sk_r: bytes | DhSecret, *, info: bytes = b"") -> OpenContext:
    """The context of a received enc; a DhSecret saves deriving its public half each time."""
    pair = sk_r if isinstance(sk_r, DhSecret) else DhSecret(sk_r)
    return OpenContext(_shared_secret(_dh(pair.secret, enc), enc, pair.public), info)


def open_from_shared_secret(shared_secret: bytes, info: bytes = b"") -> OpenContext:
    """The context of one message, disclosed without the reader's key (evidence packs)."""
    if len(shared_secret) != SECRET_BYTES:
        raise WireError(f"a shared secret has 32 bytes, not {len(shared_secret)}")
    return OpenContext(shared_secret, info)
