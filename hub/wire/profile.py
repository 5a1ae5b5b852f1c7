"""Profile: the parameters every MSG names by hash [SSOT 3.2]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

from hub.crypto import hashing
from hub.errors import WireError
from hub.types import ProfileId
from hub.wire import cbor

# The only values of v0.0.1, by map key; keys 6 and 7 are the two numbers that vary.
_FIXED: Final[dict[int, cbor.Value]] = {
    1: "xchacha20poly1305",
    2: "hkdf-sha256",
    3: "ed25519",
    4: "x25519",
    5: "X25519-HKDF-SHA256-CHACHA20POLY1305",
    8: "sha256",
}
_TEXT_BYTES_MAX: Final = 64
_NUMBER_MAX: Final = 2**31 - 1  # of what people write; more is a slip of the hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """epoch_sec 0 means labels that never rotate; pad_block 0 means no padding."""

    epoch_sec: int
    pad_block: int
    id: ProfileId = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", ProfileId(hashing.PROFILE(self.encode())))

    def encode(self) -> bytes:
        """Canonical CBOR: map keys 1 to 8 ascending."""
        fields = _FIXED | {6: self.epoch_sec, 7: self.pad_block}
        return cbor.encode({key: fields[key] for key in sorted(fields)})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a profile or raise E.FORMAT; another algorithm is another version."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=8, maximum=8)
        for key in range(1, 6):
            _read_fixed(reader, key)
        epoch_sec = reader.key(6).uint()
        pad_block = reader.key(7).uint()
        _read_fixed(reader, 8)
        reader.end()
        return cls(epoch_sec=epoch_sec, pad_block=pad_block)


def parse_profile(text: str) -> Profile:
    """`EPOCH_SEC:PAD_BLOCK`, as people write it on command lines and in settings."""
    epoch_sec, _, pad_block = text.partition(":")
    if not (text.isascii() and epoch_sec.isdigit() and pad_block.isdigit()):
        raise WireError(f"{text!r} is not EPOCH_SEC:PAD_BLOCK, for example 3600:256")
    profile = int(epoch_sec), int(pad_block)
    if max(profile) > _NUMBER_MAX:
        raise WireError(f"{text!r} has a number over {_NUMBER_MAX}")
    return Profile(epoch_sec=profile[0], pad_block=profile[1])


def _read_fixed(reader: cbor.Reader, key: int) -> None:
    found = reader.key(key).tstr(maximum=_TEXT_BYTES_MAX)
    if found != _FIXED[key]:
        raise WireError(f"profile key {key}: {found!r}, expected {_FIXED[key]!r}")


PRODUCT: Final = Profile(epoch_sec=0, pad_block=256)
DEFAULT_PROFILES: Final = tuple(Profile(epoch_sec=0, pad_block=pad) for pad in (0, 256, 1024))
