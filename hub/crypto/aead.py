"""XChaCha20-Poly1305 for bodies and attachments [SSOT 3.2, 4.2]."""

from __future__ import annotations

from typing import Final

from nacl import bindings
from nacl.exceptions import CryptoError

from hub.errors import WireError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24
TAG_BYTES: Final = 16


def seal(key: bytes, nonce24: bytes, plaintext: bytes, aad: bytes) -> bytes:
    """Ciphertext and tag; the caller never seals two plaintexts under one (key, nonce)."""
    assert len(key) == KEY_BYTES
    assert len(nonce24) == NONCE_BYTES
    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, aad, nonce24, key)


def open_(key: bytes, nonce24: bytes, ciphertext: bytes, aad: bytes) -> bytes:
    """The plaintext, or E.FORMAT when key, nonce, aad or a single bit differs."""
    assert len(key) == KEY_BYTES
    assert len(nonce24) == NONCE_BYTES
    if len(ciphertext) < TAG_BYTES:
        raise WireError(f"does not open: {len(ciphertext)} bytes are less than a tag")
    try:
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(ciphertext, aad, nonce24, key)
    except CryptoError as refusal:
        raise WireError("does not open: wrong key, or changed bytes") from refusal
