"""Ciphertext: enc, two lengths, sealed header, sealed body, zero padding [SSOT 4.2]."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from hub.errors import ErrorCode, WireError
from hub.limits import DEFAULT, Limits

ENC_BYTES: Final = 32
PREFIX_BYTES: Final = 40
_LENGTHS: Final = Struct(">II")


class Parts(NamedTuple):
    """What a ciphertext holds besides its padding."""

    enc: bytes
    hdr_ct: bytes
    body_ct: bytes


def join(enc: bytes, hdr_ct: bytes, body_ct: bytes, pad_block: int) -> bytes:
    """The padded ciphertext; padding hides the length of the body up to one block."""
    assert len(enc) == ENC_BYTES
    joined = enc + _LENGTHS.pack(len(hdr_ct), len(body_ct)) + hdr_ct + body_ct
    if pad_block:
        joined += bytes(-len(joined) % pad_block)
    return joined


def check_framing(ciphertext: bytes, pad_block: int, limits: Limits = DEFAULT) -> None:
    """What a hub can check without reading: E.SIZE for a length over its limit, else E.FORMAT."""
    _frame(ciphertext, pad_block, limits)


def split(ciphertext: bytes, pad_block: int, limits: Limits = DEFAULT) -> Parts:
    """The parts, after the same checks as at admission."""
    hdr_end, body_end = _frame(ciphertext, pad_block, limits)
    return Parts(
        enc=ciphertext[:ENC_BYTES],
        hdr_ct=ciphertext[PREFIX_BYTES:hdr_end],
        body_ct=ciphertext[hdr_end:body_end],
    )


def _frame(ciphertext: bytes, pad_block: int, limits: Limits) -> tuple[int, int]:
    """The ends of header and body."""
    size = len(ciphertext)
    if size < PREFIX_BYTES:
        raise WireError(f"ciphertext of {size} bytes is shorter than its prefix")
    hdr_len, body_len = _LENGTHS.unpack_from(ciphertext, ENC_BYTES)
    # Bounds before structure, so that a claim over the limit has one answer whatever follows it.
    if hdr_len > limits.hdr_bytes_max:
        raise WireError(f"hdr_len {hdr_len} is over {limits.hdr_bytes_max}", ErrorCode.SIZE)
    if body_len > limits.body_bytes_max:
        raise WireError(f"body_len {body_len} is over {limits.body_bytes_max}", ErrorCode.SIZE)
    hdr_end = PREFIX_BYTES + hdr_len
    body_end = hdr_end + body_len
    if body_end > size:
        raise WireError(f"header and body end at {body_end}, the ciphertext at {size}")
    if pad_block and size % pad_block:
        raise WireError(f"ciphertext of {size} bytes is not a multiple of {pad_block}")
    if ciphertext[body_end:] != bytes(size - body_end):
        raise WireError("padding is not zero")
    return hdr_end, body_end
