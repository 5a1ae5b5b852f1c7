"""Secrets at rest: a sealed keystore and plain key files, both for the owner only [spec-1 22].

Keystore file: an 18-byte magic with version, u32be argon2id passes, u32be memory in KiB, salt[16],
nonce[24], then XChaCha20-Poly1305 over a canonical CBOR map of name to secret. Everything before
the ciphertext is bound as aad, so parameters cannot be weakened without failing to open.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Final

from hub.crypto import aead
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import Disk
from hub.wire import cbor

KEY_FILE_BYTES: Final = 32
_MAGIC: Final = b"veen-keystore-v1\n\x00"
_COST: Final = Struct(">II")
_SALT_BYTES: Final = 16
# 64 MiB and three passes: about a quarter of a second, the low-memory choice of RFC 9106.
_PASSES: Final = 3
_MEMORY_KIB: Final = 64 * 1024
# A hostile file may ask for any cost, so what is honoured has a ceiling.
_PASSES_MAX: Final = 16
_MEMORY_KIB_MAX: Final = 1024 * 1024
_FILE_BYTES_MAX: Final = 1024 * 1024
_WIDER_THAN_OWNER: Final = 0o077


def seal(secrets: Mapping[str, bytes], passphrase: bytes) -> bytes:
    """The bytes of a keystore holding these secrets."""
    if not passphrase:
        raise VeenError(ErrorCode.KEYSTORE, "an empty passphrase protects nothing")
    nonce = os.urandom(aead.NONCE_BYTES)
    salt = os.urandom(_SALT_BYTES)
    header = _MAGIC + _COST.pack(_PASSES, _MEMORY_KIB) + salt + nonce
    plaintext = cbor.encode(dict(sorted(secrets.items())))
    return header + aead.seal(
        _stretch(passphrase, salt, _PASSES, _MEMORY_KIB), nonce, plaintext, header
    )


def open_(blob: bytes, passphrase: bytes) -> dict[str, bytes]:
    """The secrets by name; K.KEYSTORE for a wrong passphrase or a single changed bit."""
    header_bytes = len(_MAGIC) + _COST.size + _SALT_BYTES + aead.NONCE_BYTES
    if len(blob) < header_bytes + aead.TAG_BYTES or not blob.startswith(_MAGIC):
        raise VeenError(ErrorCode.KEYSTORE, "not a keystore of version 1")
    passes, memory_kib = _COST.unpack_from(blob, len(_MAGIC))
    if not (1 <= passes <= _PASSES_MAX and 8 <= memory_kib <= _MEMORY_KIB_MAX):
        raise VeenError(ErrorCode.KEYSTORE, "the keystore asks for an unusable stretching cost")
    salt_start = len(_MAGIC) + _COST.size
    salt = blob[salt_start : salt_start + _SALT_BYTES]
    nonce = blob[salt_start + _SALT_BYTES : header_bytes]
    key = _stretch(passphrase, salt, passes, memory_kib)
    try:
        plaintext = aead.open_(key, nonce, blob[header_bytes:], blob[:header_bytes])
        found = cbor.decode(plaintext)
    except VeenError as refusal:
        raise VeenError(
            ErrorCode.KEYSTORE, "wrong passphrase, or the file was changed"
        ) from refusal
    if not isinstance(found, Mapping):
        raise VeenError(ErrorCode.KEYSTORE, "the keystore does not hold a map of secrets")
    secrets: dict[str, bytes] = {}
    for name, secret in found.items():
        if not isinstance(name, str) or not isinstance(secret, bytes):
            raise VeenError(ErrorCode.KEYSTORE, "the keystore does not hold a map of secrets")
        secrets[name] = secret
    return secrets


def _stretch(passphrase: bytes, salt: bytes, passes: int, memory_kib: int) -> bytes:
    from nacl.bindings import crypto_pwhash_alg, crypto_pwhash_ALG_ARGON2ID13  # noqa: PLC0415

    return crypto_pwhash_alg(
        aead.KEY_BYTES, passphrase, salt, passes, memory_kib * 1024, crypto_pwhash_ALG_ARGON2ID13
    )


def write(path: Path, secrets: Mapping[str, bytes], passphrase: bytes) -> None:
    """Replace a keystore whole or not at all, mode 0600."""
    write_private(path, seal(secrets, passphrase))


def read(path: Path, passphrase: bytes) -> dict[str, bytes]:
    """Open a keystore file that only its owner can read."""
    return open_(read_private(path), passphrase)


def is_keystore(data: bytes) -> bool:
    """Whether these bytes claim to be a keystore."""
    return data.startswith(_MAGIC)


def write_key_file(path: Path, secret: bytes, disk: Disk | None = None) -> None:
    """A 32-byte secret as hex and newline, mode 0600."""
    assert len(secret) == KEY_FILE_BYTES
    write_private(path, secret.hex().encode() + b"\n", disk)


def read_key_file(path: Path) -> bytes:
    """The 32-byte secret of a hex key file that only its owner can read."""
    return parse_key(read_private(path), path)


def parse_key(data: bytes, path: Path) -> bytes:
    """The 32-byte secret written as hex in a key file."""
    text = data.strip()
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != KEY_FILE_BYTES or len(text) != 2 * KEY_FILE_BYTES:
        raise VeenError(ErrorCode.KEYSTORE, f"{path} does not hold 64 hex digits")
    return secret


def read_private(path: Path) -> bytes:
    """The bytes of a small regular file whose mode shuts out everyone but the owner."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as absent:
        reason = absent.strerror or "cannot be opened"
        raise VeenError(ErrorCode.KEYSTORE, f"{path}: {reason}") from absent
    try:
        # The mode is asked of the open file, so that nobody swaps it between check and use.
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise VeenError(ErrorCode.KEYSTORE, f"{path} is not a regular file")
        if found.st_mode & _WIDER_THAN_OWNER:
            mode = stat.S_IMODE(found.st_mode)
            raise VeenError(ErrorCode.KEYSTORE, f"{path} has mode {mode:04o}, expected 0600")
        data = os.read(fd, _FILE_BYTES_MAX + 1)
    finally:
        os.close(fd)
    if len(data) > _FILE_BYTES_MAX:
        raise VeenError(ErrorCode.KEYSTORE, f"{path} is larger than any key file")
    return data


def write_private(path: Path, data: bytes, disk: Disk | None = None) -> None:
    """Replace a small file whole or not at all, mode 0600."""
    disk = disk or Disk()
    disk.mkdir(path.parent)
    # A scratch file left by a crash may have another mode; a new one gets ours from the start.
    disk.unlink(path.with_name(path.name + ".tmp"))
    disk.write_atomic(path, data)
