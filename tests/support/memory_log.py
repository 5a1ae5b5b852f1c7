"""A log of leaves in memory with its stored nodes, and a slow model that shares no code with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from hub import mmr
from hub.types import MmrRoot


def numbered_leaves(count: int) -> list[bytes]:
    """The leaves of mmr_more.json, as many as wanted."""
    return [sha256(b"veen-vectors/mmr-leaf/%d" % number).digest() for number in range(1, count + 1)]


class MemoryLog:
    """Appends through hub.mmr, keeps nodes in post-order and the root of every size."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.peaks: list[bytes] = []
        self.nodes: list[bytes] = []
        self.leaves: list[bytes] = []
        self.roots: list[MmrRoot] = [MmrRoot(b"")]  # roots[size]
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        self.nodes += mmr.append(self.peaks, len(self.leaves), leaf)
        self.leaves.append(leaf)
        self.roots.append(mmr.root(self.peaks))

    def node(self, height: int, index: int) -> bytes:
        return self.nodes[mmr.node_position(height, index)]


def naive_tree(leaves: Sequence[bytes]) -> bytes:
    """The top of a perfect tree, level by level."""
    level = list(leaves)
    while len(level) > 1:
        level = [
            sha256(b"veen/mmr-node\x00" + level[place] + level[place + 1]).digest()
            for place in range(0, len(level), 2)
        ]
    return level[0]


def naive_peaks(leaves: Sequence[bytes]) -> list[bytes]:
    """The peaks by increasing height: cut off the tallest tree that fits, again and again."""
    peaks: list[bytes] = []
    start = 0
    for height in reversed(range(len(leaves).bit_length())):
        if len(leaves) - start >= 2**height:
            peaks.insert(0, naive_tree(leaves[start : start + 2**height]))
            start += 2**height
    return peaks


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """The root from nothing but the leaves, in O(n)."""
    peaks = naive_peaks(leaves)
    return peaks[0] if len(peaks) == 1 else sha256(b"veen/mmr-root\x00" + b"".join(peaks)).digest()
