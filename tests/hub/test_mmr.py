from __future__ import annotations

import pytest

from hub import mmr
from tests.support.memory_log import MemoryLog, naive_peaks, naive_root, numbered_leaves
from tests.support.vectors import Section, load, unhex

ROOTS = load("mmr_roots")
PATTERNS = {key: value for key, value in ROOTS["upstream_inputs"].items() if key != "note"}


def _check_states(leaves: list[bytes], states: list[Section]) -> None:
    assert [state["size"] for state in states] == list(range(1, len(leaves) + 1))
    log = MemoryLog(leaves)
    for state in states:
        peaks = mmr.peaks_at(state["size"], log.node)
        assert [peak.hex() for peak in reversed(peaks)] == state["peaks"]
        assert log.roots[state["size"]] == unhex(state["mmr_root"])
        assert mmr.root_at(state["size"], log.node) == unhex(state["mmr_root"])


def test_peaks_and_roots_are_those_of_the_vectors() -> None:
    leaves = [unhex(leaf) for leaf in ROOTS["leaves"]]
    _check_states(leaves, ROOTS["states"])


def test_no_leaf_pattern_of_the_vectors_is_new() -> None:
    assert PATTERNS.keys() == {"leaves_11_22_33", "leaves_01_to_05"}


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [("leaves_11_22_33", (0x11, 0x22, 0x33)), ("leaves_01_to_05", (1, 2, 3, 4, 5))],
)
def test_roots_of_other_leaf_patterns_are_those_of_the_vectors(
    pattern: str, numbers: tuple[int, ...]
) -> None:
    _check_states([bytes([number]) * 32 for number in numbers], PATTERNS[pattern])


def test_a_single_peak_is_the_root_itself() -> None:
    log = MemoryLog(numbered_leaves(64))
    for size in (1, 2, 4, 8, 16, 32, 64):
        assert [log.roots[size]] == mmr.peaks_at(size, log.node)


def test_an_empty_log_has_no_root() -> None:
    with pytest.raises(AssertionError):
        mmr.root([])


def test_append_returns_the_leaf_and_each_parent_it_completes() -> None:
    peaks: list[bytes] = []
    counts = [len(mmr.append(peaks, size, leaf)) for size, leaf in enumerate(numbered_leaves(16))]
    assert counts == [1, 2, 1, 3, 1, 2, 1, 4, 1, 2, 1, 3, 1, 2, 1, 5]


def test_append_never_changes_a_stored_node() -> None:
    log = MemoryLog()
    for leaf in numbered_leaves(70):
        before = list(log.nodes)
        log.append(leaf)
        assert log.nodes[: len(before)] == before
        assert len(log.nodes) == mmr.node_count(len(log.leaves))


def test_every_node_stands_at_its_position() -> None:
    log = MemoryLog(numbered_leaves(100))
    seen = set()
    for height in range(7):
        for index in range(100 >> height):
            covered = log.leaves[index << height : (index + 1) << height]
            assert [log.node(height, index)] == naive_peaks(covered)
            seen.add(mmr.node_position(height, index))
    assert seen == set(range(mmr.node_count(100)))


def test_peaks_of_every_earlier_size_come_from_stored_nodes() -> None:
    log = MemoryLog(numbered_leaves(130))
    for size in range(1, 131):
        assert mmr.peaks_at(size, log.node)[::-1] == naive_peaks(log.leaves[:size])
        assert mmr.root_at(size, log.node) == naive_root(log.leaves[:size])


@pytest.mark.parametrize("claim", [(0, 5), (6, 5)])
def test_nothing_outside_the_log_can_be_proved(claim: tuple[int, int]) -> None:
    log = MemoryLog(numbered_leaves(5))
    with pytest.raises(AssertionError):
        mmr.prove(*claim, log.node)
    with pytest.raises(AssertionError):
        mmr.prove_consistency(*claim, log.node)
    with pytest.raises(AssertionError):
        mmr.prove_range(claim[0], 5, 5, log.node)
