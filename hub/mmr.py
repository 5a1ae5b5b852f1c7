"""The Merkle mountain range of one label: append, root and proofs, integers and hashes [SSOT 5].

While a log is written its peaks stand in a list from highest to lowest, so that an append works at
the end of the list only. On the wire peaks go by increasing height: that list, reversed.
Every node is named by (height, index): it covers leaves index * 2^height up to the next multiple.
Stored nodes are in post-order, each parent right behind its right child, so appending a leaf
appends to the node file and never changes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hub.crypto.hashing import MMR_ROOT
from hub.types import Hash, LeafHash, MmrRoot, StreamSeq
from hub.wire.proof import (
    ConsistencyProof,
    MmrProof,
    Path,
    RangeProof,
    Step,
    node_context,
    peak_height,
    peak_heights,
    peak_rank,
    tiles,
)

NodeSource: TypeAlias = Callable[[int, int], bytes]  # (height, index) -> hash


def append(peaks: list[bytes], size: int, leaf: bytes) -> list[bytes]:
    """Append the leaf of 0-based index `size`; change peaks in place, return the new nodes.

    The nodes are in post-order: the leaf, then each parent it completes.
    """
    nodes = [leaf]
    while size & 1:
        context = node_context()
        context.update(peaks.pop() + leaf)
        leaf = context.digest()
        nodes.append(leaf)
        size >>= 1
    peaks.append(leaf)
    return nodes


def root(peaks: list[bytes]) -> MmrRoot:
    """The root over peaks from highest to lowest."""
    assert peaks, "an empty log has no root"
    return MmrRoot(peaks[0] if len(peaks) == 1 else MMR_ROOT(b"".join(peaks[::-1])))


def node_count(size: int) -> int:
    """How many nodes a log of `size` leaves has."""
    return 2 * size - size.bit_count()


def node_position(height: int, index: int) -> int:
    """The place of a node in the post-order node file, counted from 0."""
    last_leaf = ((index + 1) << height) - 1
    return node_count(last_leaf) + height


def peaks_at(size: int, node: NodeSource) -> list[bytes]:
    """The peaks of the first `size` leaves, from highest to lowest."""
    return [node(height, (size >> height) - 1) for height in reversed(peak_heights(size))]


def root_at(size: int, node: NodeSource) -> MmrRoot:
    """The root of the first `size` leaves."""
    return root(peaks_at(size, node))


def prove(seq: int, size: int, node: NodeSource) -> MmrProof:
    """Inclusion of sequence `seq` (1-based) in the log of `size` leaves."""
    assert 1 <= seq <= size, (seq, size)
    index = seq - 1
    height = peak_height(index, size)
    others = [node(other, (size >> other) - 1) for other in peak_heights(size) if other != height]
    return MmrProof(
        leaf_hash=LeafHash(node(0, index)),
        path=_path(0, index, height, node),
        peaks_after=_hashes(others),
    )


def peaks_before(proof: MmrProof, seq: int, size: int) -> list[bytes]:
    """The peaks of the log before sequence `seq`, from highest to lowest, out of its proof.

    What stands left of the leaf, other peaks and siblings alike, tiles all leaves before it; so a
    proof that was verified lets a reader go on from there with a tree of its own.
    """
    height = peak_height(seq - 1, size)
    left = proof.peaks_after[peak_rank(height, size) :]
    return [*reversed(left), *(step.sib for step in reversed(proof.path) if step.dir)]


def prove_consistency(from_size: int, to_size: int, node: NodeSource) -> ConsistencyProof:
    """The first `from_size` leaves are a prefix of the first `to_size`."""
    assert 1 <= from_size <= to_size, (from_size, to_size)
    paths = []
    for height in peak_heights(from_size):
        index = (from_size >> height) - 1
        paths.append(_path(height, index, peak_height(index << height, to_size), node))
    return ConsistencyProof(
        from_size=from_size,
        to_size=to_size,
        old_peaks=_hashes(peaks_at(from_size, node)[::-1]),
        paths=tuple(paths),
        new_peaks=_hashes(peaks_at(to_size, node)[::-1]),
    )


def prove_range(first: int, last: int, size: int, node: NodeSource) -> RangeProof:
    """Leaves first..last (1-based, inclusive) are exactly those of the log of `size` leaves."""
    assert 1 <= first <= last <= size, (first, last, size)
    return RangeProof(
        size=size,
        first=StreamSeq(first),
        last=StreamSeq(last),
        left=_hashes([node(height, index) for height, index in tiles(0, first - 1)]),
        right=_hashes([node(height, index) for height, index in tiles(last, size)]),
    )


def _path(height: int, index: int, top: int, node: NodeSource) -> Path:
    """The siblings from the node (height, index) up to its ancestor of height `top`."""
    return tuple(
        [
            Step(dir=index >> up & 1, sib=Hash(node(height + up, (index >> up) ^ 1)))
            for up in range(top - height)
        ]
    )


def _hashes(nodes: Sequence[bytes]) -> tuple[Hash, ...]:
    return tuple([Hash(item) for item in nodes])
