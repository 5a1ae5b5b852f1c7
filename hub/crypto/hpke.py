"""HPKE base mode: X25519, HKDF-SHA256, ChaCha20-Poly1305, with the exporter [SSOT 3.2, 4.2].

RFC 9180 in the one suite that a profile may name: KEM 0x0020, KDF 0x0001, AEAD 0x0003. A context
belongs to one MSG: `seal` is called once, and `export` gives the keys of the body and attachments.
Written over libsodium's X25519 because it takes a third less time (docs/adr/0005-hpke.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
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
_SECRET: Final = _SUITE + b"secret"
_SHARED_SECRET: Final = b"\x00\x20" + _KEM + b"shared_secret"


_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class _Hmac:
    """HMAC-SHA256 under one key of at most a block, fed once and copied for each message.

    hmac.digest costs four times as much, most of it in finding the hash by its name each time.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = key.ljust(_BLOCK_BYTES, b"\x00")
        assert len(block) == _BLOCK_BYTES
        self._inner = sha256(block.translate(_INNER))
        self._outer = sha256(block.translate(_OUTER))

    def __call__(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


_UNKEYED: Final = _Hmac(b"")


def _hmac(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 for a key that is used once."""
    block = key.ljust(_BLOCK_BYTES, b"\x00")
    assert len(block) == _BLOCK_BYTES
    inner = sha256(block.translate(_INNER) + message).digest()
    return sha256(block.translate(_OUTER) + inner).digest()


def _expand(prk: bytes, suite: bytes, labelled: bytes, length: int) -> bytes:
    """LabeledExpand; `labelled` is the label followed by its info."""
    info = length.to_bytes(2, "big") + suite + labelled
    if length <= _HASH_BYTES:
        return _hmac(prk, info + b"\x01")[:length]
    assert length <= 255 * _HASH_BYTES
    blocks = [b""]
    for counter in range(1, -(-length // _HASH_BYTES) + 1):
        blocks.append(_hmac(prk, blocks[-1] + info + bytes((counter,))))
    return b"".join(blocks)[:length]


class _Labels:
    """What the key schedule expands its secret with, spelled once for each `info`."""

    __slots__ = ("base_nonce", "exporter", "key")

    def __init__(self, info: bytes) -> None:
        psk_id_hash = _UNKEYED(_SUITE + b"psk_id_hash")
        schedule = b"\x00" + psk_id_hash + _UNKEYED(_SUITE + b"info_hash" + info)
        self.key = b"\x00\x20" + _SUITE + b"key" + schedule + b"\x01"
        self.base_nonce = b"\x00\x0c" + _SUITE + b"base_nonce" + schedule + b"\x01"
        self.exporter = b"\x00\x20" + _SUITE + b"exp" + schedule + b"\x01"


# A deployment uses two values of info.
_labels: Final = lru_cache(maxsize=16)(_Labels)


def _dh(secret: bytes, public: bytes) -> bytes:
    """X25519; libsodium refuses the all-zero outcome of a small-order point, as the RFC asks."""
    if len(public) != ENC_BYTES:
        raise WireError(f"an X25519 public key has 32 bytes, not {len(public)}")
    try:
        return bindings.crypto_scalarmult(secret, public)
    except SodiumError as refusal:
        raise WireError("not a usable X25519 public key") from refusal


def _shared_secret(dh: bytes, enc: bytes, pk_r: bytes) -> bytes:
    prk = _UNKEYED(_KEM + b"eae_prk" + dh)
    return _hmac(prk, _SHARED_SECRET + enc + pk_r + b"\x01")


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
        "_aead", "_base_nonce", "_exporter", "_keyed", "_labels", "_used", "shared_secret",
    )  # fmt: skip

    def __init__(self, shared_secret: bytes, info: bytes) -> None:
        assert len(shared_secret) == SECRET_BYTES
        self.shared_secret = shared_secret
        self._labels = labels = _labels(info)
        self._keyed = keyed = _Hmac(_hmac(shared_secret, _SECRET))
        self._aead = ChaCha20Poly1305(keyed(labels.key))
        self._base_nonce = keyed(labels.base_nonce)[:_NONCE_BYTES]
        self._exporter = b""
        self._used = 0

    def _nonce(self) -> bytes:
        if not self._used:
            return self._base_nonce
        number = int.from_bytes(self._base_nonce, "big") ^ self._used
        return number.to_bytes(_NONCE_BYTES, "big")

    def export(self, context: bytes, length: int = 32) -> bytes:
        """A secret bound to this context and to the name given."""
        if not self._exporter:
            self._exporter = self._keyed(self._labels.exporter)
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


def seal_setups(pk_rs: Sequence[bytes], *, info: bytes = b"") -> list[SealContext]:
    """`seal_setup` for many readers' keys, or one key many times; each context is its own.

    Nothing but libsodium runs between one X25519 and the next, so other threads get on meanwhile.
    """
    random = bindings.randombytes(SECRET_BYTES * len(pk_rs))
    secrets = [random[at : at + SECRET_BYTES] for at in range(0, len(random), SECRET_BYTES)]
    publics = list(map(bindings.crypto_scalarmult_base, secrets))
    outcomes = list(map(_dh, secrets, pk_rs))
    return [
        SealContext(_shared_secret(dh, public, pk_r), info, public)
        for dh, public, pk_r in zip(outcomes, publics, pk_rs, strict=True)
    ]


def open_setup(enc: bytes, sk_r: bytes | DhSecret, *, info: bytes = b"") -> OpenContext:
    """The context of a received enc; a DhSecret saves deriving its public half each time."""
    pair = sk_r if isinstance(sk_r, DhSecret) else DhSecret(sk_r)
    return OpenContext(_shared_secret(_dh(pair.secret, enc), enc, pair.public), info)


def open_from_shared_secret(shared_secret: bytes, info: bytes = b"") -> OpenContext:
    """The context of one message, disclosed without the reader's key (evidence packs)."""
    if len(shared_secret) != SECRET_BYTES:
        raise WireError(f"a shared secret has 32 bytes, not {len(shared_secret)}")
    return OpenContext(shared_secret, info)
