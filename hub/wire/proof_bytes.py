"""An mmr_proof checked straight from its bytes, for readers of long ranges [SSOT 5.2].

Place, size and leaf are known from signed objects, so every byte of a canonical proof but its
hashes is known too: they are compared, the hashes folded, and no object is made. It accepts exactly
what `MmrProof.decode` followed by `verify` accepts, at a quarter of the cost.
"""

from __future__ import annotations

from typing import Final

from hub.errors import ProofError
from hub.types import UINT64_MAX
from hub.wire.proof import MmrProof, bag, node_context, peak_height, peak_rank

_HEAD: Final = b"\xa4\x01\x01\x02\x58\x20"
_LEFT: Final = b"\xa2\x01\x00\x02\x58\x20"  # dir 0: the running node is the left child
_RIGHT: Final = b"\xa2\x01\x01\x02\x58\x20"
_STEP_BYTES: Final = 38
_PEAK_BYTES: Final = 34
_PATH_AT: Final = len(_HEAD) + 32
_SHORT: Final = 24  # an array of fewer items has a head of one byte


def check_proof(
    data: bytes, *, leaf_hash: bytes, stream_seq: int, mmr_size: int, root: bytes
) -> None:
    """Raise unless these bytes prove this leaf at this sequence under this root."""
    if not 1 <= stream_seq <= mmr_size <= UINT64_MAX:
        raise ProofError(f"no sequence {stream_seq} in a log of {mmr_size}")
    index = stream_seq - 1
    height = peak_height(index, mmr_size)
    others = mmr_size.bit_count() - 1
    if height >= _SHORT or others >= _SHORT:
        _check_parsed(data, leaf_hash=leaf_hash, seq=stream_seq, size=mmr_size, root=root)
        return
    peaks_at = _PATH_AT + 2 + _STEP_BYTES * height
    if (
        len(data) != peaks_at + 2 + _PEAK_BYTES * others
        or data[:_PATH_AT] != _HEAD + leaf_hash
        or data[_PATH_AT : _PATH_AT + 2] != bytes((3, 0x80 + height))
        or data[peaks_at : peaks_at + 2] != bytes((4, 0x80 + others))
    ):
        raise ProofError("the proof is of another leaf, place or size")
    node = leaf_hash
    position = _PATH_AT + 2
    for level in range(height):
        step = data[position : position + _STEP_BYTES]
        context = node_context()
        if index >> level & 1:
            expected, pair = _RIGHT, step[6:] + node
        else:
            expected, pair = _LEFT, node + step[6:]
        if step[:6] != expected:
            raise ProofError(f"step {level} goes to the wrong side")
        context.update(pair)
        node = context.digest()
        position += _STEP_BYTES
    peaks = _peaks(data, peaks_at + 2, others)
    rank = peak_rank(height, mmr_size)
    if bag([*peaks[:rank], node, *peaks[rank:]]) != root:
        raise ProofError("the proof does not reproduce the root")


def _peaks(data: bytes, position: int, count: int) -> list[bytes]:
    found = []
    for start in range(position, position + _PEAK_BYTES * count, _PEAK_BYTES):
        if data[start : start + 2] != b"\x58\x20":
            raise ProofError("a peak is not a hash")
        found.append(data[start + 2 : start + _PEAK_BYTES])
    return found


def _check_parsed(data: bytes, *, leaf_hash: bytes, seq: int, size: int, root: bytes) -> None:
    proof = MmrProof.decode(data)
    if proof.leaf_hash != leaf_hash:
        raise ProofError("the proof is of another leaf")
    proof.verify(stream_seq=seq, mmr_size=size, root=root)
