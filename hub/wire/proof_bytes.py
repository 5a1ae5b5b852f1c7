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
    ProofWalk().check(
        data, leaf_hash=leaf_hash, stream_seq=stream_seq, mmr_size=mmr_size, root=root
    )


class ProofWalk:
    """Proofs of a range one after the other; for one thread.

    Neighbours share most of their path. Where the running node has become that of the proof before
    and all bytes from there on are those of that proof, they prove what they proved: nothing of it
    is hashed again.
    """

    __slots__ = ("_data", "_height", "_index", "_nodes", "_root", "_size")

    def __init__(self) -> None:
        self._size = 0  # of the last proof that held; none yet
        self._root = b""
        self._index = 0
        self._height = 0
        self._data = b""
        self._nodes: list[bytes] = []  # of its path, the leaf first

    def check(
        self, data: bytes, *, leaf_hash: bytes, stream_seq: int, mmr_size: int, root: bytes
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
        _check_frame(data, leaf_hash, height, others)
        # One height is one tree, so there is a common node; up to it the path is of this leaf only.
        is_near = (height, mmr_size, root) == (self._height, self._size, self._root)
        shared = (index ^ self._index).bit_length() if is_near else height
        nodes = _fold(data, index, leaf_hash, shared)
        at = _PATH_AT + 2 + _STEP_BYTES * shared
        if is_near and nodes[-1] == self._nodes[shared] and data[at:] == self._data[at:]:
            nodes += self._nodes[shared + 1 :]
        else:
            nodes += _fold(data, index, nodes.pop(), height, shared)
            peaks = _peaks(data, _PATH_AT + 4 + _STEP_BYTES * height, others)
            rank = peak_rank(height, mmr_size)
            if bag([*peaks[:rank], nodes[-1], *peaks[rank:]]) != root:
                raise ProofError("the proof does not reproduce the root")
        self._size, self._root = mmr_size, root
        self._index, self._height = index, height
        self._data, self._nodes = data, nodes


def _check_frame(data: bytes, leaf_hash: bytes, height: int, others: int) -> None:
    peaks_at = _PATH_AT + 2 + _STEP_BYTES * height
    if (
        len(data) != peaks_at + 2 + _PEAK_BYTES * others
        or data[:_PATH_AT] != _HEAD + leaf_hash
        or data[_PATH_AT : _PATH_AT + 2] != bytes((3, 0x80 + height))
        or data[peaks_at : peaks_at + 2] != bytes((4, 0x80 + others))
    ):
        raise ProofError("the proof is of another leaf, place or size")


def _fold(data: bytes, index: int, node: bytes, end: int, start: int = 0) -> list[bytes]:
    """The running nodes of some levels of the path, the one it begins with included."""
    nodes = [node]
    position = _PATH_AT + 2 + _STEP_BYTES * start
    for level in range(start, end):
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
        nodes.append(node)
        position += _STEP_BYTES
    return nodes


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
