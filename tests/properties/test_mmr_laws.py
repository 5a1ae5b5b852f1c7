"""C10: Laws of the MMR over all small sizes, and against a model that shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from hub import mmr
from tests.support.memory_log import MemoryLog, naive_root, numbered_leaves
from tests.support.strategies import bytes32

LOG = MemoryLog(numbered_leaves(130))


def test_inclusion_holds_for_every_sequence_and_size_up_to_130() -> None:
    for size in range(1, 131):
        for seq in range(1, size + 1):
            proof = mmr.prove(seq, size, LOG.node)
            assert proof.leaf_hash == LOG.leaves[seq - 1]
            proof.verify(stream_seq=seq, mmr_size=size, root=LOG.roots[size])


def test_a_proof_holds_the_peaks_before_its_leaf_for_every_size_up_to_130() -> None:
    for size in range(1, 131):
        for seq in range(1, size + 1):
            peaks = mmr.peaks_before(mmr.prove(seq, size, LOG.node), seq, size)
            assert peaks == mmr.peaks_at(seq - 1, LOG.node)


def test_consistency_holds_for_every_pair_of_sizes_up_to_70() -> None:
    for to_size in range(1, 71):
        for from_size in range(1, to_size + 1):
            mmr.prove_consistency(from_size, to_size, LOG.node).verify(
                LOG.roots[from_size], LOG.roots[to_size], from_size=from_size, to_size=to_size
            )


def test_range_holds_for_every_range_and_size_up_to_40() -> None:
    for size in range(1, 41):
        for first in range(1, size + 1):
            for last in range(first, size + 1):
                mmr.prove_range(first, last, size, LOG.node).verify(
                    LOG.leaves[first - 1 : last], LOG.roots[size], first=first, last=last, size=size
                )


class _LevelModel:
    """Keeps every level as a list; a peak is the last node of each level of odd length."""

    def __init__(self) -> None:
        self.levels: list[list[bytes]] = [[]]

    def append(self, leaf: bytes) -> bytes:
        node, height = leaf, 0
        while True:
            if height == len(self.levels):
                self.levels.append([])
            level = self.levels[height]
            level.append(node)
            if len(level) % 2:
                break
            node = sha256(b"veen/mmr-node\x00" + level[-2] + level[-1]).digest()
            height += 1
        peaks = [level[-1] for level in self.levels if len(level) % 2]
        return (
            peaks[0] if len(peaks) == 1 else sha256(b"veen/mmr-root\x00" + b"".join(peaks)).digest()
        )


def test_random_appends_give_the_roots_of_the_naive_model(
    rng: random.Random, scaled: Callable[[int, int], int]
) -> None:
    """Every root against the level model, and some against the model in O(n)."""
    count = scaled(10_000, 1_000_000)
    recomputed = {*range(1, 65), count, *rng.sample(range(1, count), scaled(20, 8))}
    model = _LevelModel()
    peaks: list[bytes] = []
    leaves: list[bytes] = []
    for size in range(count):
        leaves.append(rng.randbytes(32))
        mmr.append(peaks, size, leaves[-1])
        root = mmr.root(peaks)
        assert root == model.append(leaves[-1])
        if size + 1 in recomputed:
            assert root == naive_root(leaves)


@given(st.lists(bytes32, min_size=1, max_size=40))
def test_equal_logs_have_equal_roots(leaves: list[bytes]) -> None:
    assert MemoryLog(leaves).roots == MemoryLog(list(leaves)).roots


@given(st.lists(bytes32, min_size=1, max_size=40), st.data())
def test_a_log_split_anywhere_goes_on_from_its_peaks(
    leaves: list[bytes], data: st.DataObject
) -> None:
    """Peaks and size are all the state there is: a restart continues as if there were none."""
    whole = MemoryLog(leaves)
    cut = data.draw(st.integers(1, len(leaves)))
    peaks = mmr.peaks_at(cut, whole.node)
    for size in range(cut, len(leaves)):
        mmr.append(peaks, size, leaves[size])
    assert mmr.root(peaks) == whole.roots[-1]


@given(st.lists(bytes32, min_size=1, max_size=40), st.data())
def test_another_leaf_anywhere_gives_another_root(leaves: list[bytes], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(leaves) - 1))
    other = data.draw(bytes32.filter(lambda leaf: leaf != leaves[place]))
    changed = [*leaves[:place], other, *leaves[place + 1 :]]
    assert MemoryLog(changed).roots[-1] != MemoryLog(leaves).roots[-1]
