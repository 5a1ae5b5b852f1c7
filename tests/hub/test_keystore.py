from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from hub import keystore
from hub.errors import ErrorCode, VeenError

SECRETS = {"issuer": b"\x01" * 32, "admin": b"\x02" * 32}


def refused(code: ErrorCode = ErrorCode.KEYSTORE) -> pytest.RaisesExc[VeenError]:
    return pytest.raises(VeenError, check=lambda error: error.code is code)


@pytest.fixture(scope="module")
def blob() -> bytes:
    return keystore.seal(SECRETS, b"open sesame")


def test_what_was_sealed_opens_with_its_passphrase(blob: bytes) -> None:
    assert keystore.open_(blob, b"open sesame") == SECRETS


def test_two_seals_of_one_secret_share_no_salt_and_no_nonce(blob: bytes) -> None:
    other = keystore.seal(SECRETS, b"open sesame")
    assert blob[26:66] != other[26:66]
    assert blob[66:] != other[66:]


def test_a_wrong_passphrase_is_refused(blob: bytes) -> None:
    with refused():
        keystore.open_(blob, b"open sesamf")


def test_an_empty_passphrase_is_refused() -> None:
    with refused():
        keystore.seal(SECRETS, b"")


def test_flipped_bits_are_refused(blob: bytes, rng: random.Random) -> None:
    """Every part is bound: magic, cost, salt, nonce, ciphertext, tag."""
    places = [*range(0, 26, 5), 26, 41, 42, 65, 66, len(blob) - 1]
    for place in places:
        damaged = bytearray(blob)
        # In the cost only low bits: a high one asks for gigabytes and is refused without trying.
        damaged[place] ^= 1 << (rng.randrange(8) if not 18 <= place < 26 else 0)
        with refused():
            keystore.open_(bytes(damaged), b"open sesame")


@pytest.mark.parametrize("length", [0, 1, 18, 65, 66, 81])
def test_a_cut_file_is_refused(blob: bytes, length: int) -> None:
    with refused():
        keystore.open_(blob[:length], b"open sesame")


@pytest.mark.parametrize(("passes", "kib"), [(0, 65536), (17, 65536), (3, 7), (3, 2**31)])
def test_an_absurd_stretching_cost_is_refused_before_it_is_paid(
    blob: bytes, passes: int, kib: int
) -> None:
    hostile = blob[:18] + passes.to_bytes(4, "big") + kib.to_bytes(4, "big") + blob[26:]
    with refused():
        keystore.open_(hostile, b"open sesame")


def test_files_are_written_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keys.enc"
    keystore.write(path, SECRETS, b"p")
    assert path.stat().st_mode & 0o777 == 0o600
    assert keystore.read(path, b"p") == SECRETS
    assert [item.name for item in path.parent.iterdir()] == ["keys.enc"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.key"
    keystore.write_key_file(path, b"\x07" * 32)
    path.chmod(mode)
    with refused():
        keystore.read_key_file(path)


def test_key_files_are_hex_and_a_newline(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    keystore.write_key_file(path, b"\x07" * 32)
    assert path.read_bytes() == b"07" * 32 + b"\n"
    assert keystore.read_key_file(path) == b"\x07" * 32


@pytest.mark.parametrize("content", [b"", b"07" * 31, b"07" * 33, b"zz" * 32, b"07 " * 32, b"\xff"])
def test_anything_else_is_no_key_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with refused():
        keystore.read_key_file(path)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent"):
        with refused():
            keystore.read_key_file(path)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.key"
    keystore.write_key_file(path, b"\x01" * 32)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="No space"):
        keystore.write_key_file(path, b"\x02" * 32)
    assert keystore.read_key_file(path) == b"\x01" * 32
