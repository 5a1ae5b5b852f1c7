"""Corrupt-proof probes: every field of every small proof is changed, and none is accepted (C9).

A wrong size is tried with the root signed for that size, and with the old root wherever the two
sizes differ in shape; where they do not, the root alone cannot tell them apart (test_proof.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest

from hub import mmr
from hub.errors import ProofError
from hub.types import Hash, LeafHash, StreamSeq
from hub.wire.proof import (
    ConsistencyProof,
    MmrProof,
    Path,
    RangeProof,
    Step,
    peak_height,
    peak_rank,
)
from tests.support.memory_log import MemoryLog, numbered_leaves

LOG = MemoryLog(numbered_leaves(140))
STRANGER = Hash(bytes(range(32)))  # no node of the log
MUTATIONS_MIN = 12


def _flipped(node: bytes) -> Hash:
    return Hash(bytes((node[0] ^ 1,)) + node[1:])


def _hash_changes(hashes: tuple[Hash, ...]) -> Iterator[tuple[Hash, ...]]:
    """Each one changed, left out or doubled; one more at either end; neighbours swapped."""
    for place, item in enumerate(hashes):
        before, after = hashes[:place], hashes[place + 1 :]
        yield (*before, _flipped(item), *after)
        yield (*before, STRANGER, *after)
        yield (*before, *after)
        yield (*before, item, item, *after)
        if after:
            yield (*before, after[0], item, *after[1:])
    yield (*hashes, STRANGER)
    yield (STRANGER, *hashes)
    if len(hashes) > 1:
        yield hashes[::-1]


def _path_changes(path: Path) -> Iterator[Path]:
    """Each side turned; then the siblings as above, with the sides kept and with the step."""
    for place, step in enumerate(path):
        yield (*path[:place], replace(step, dir=1 - step.dir), *path[place + 1 :])
    yield from (
        tuple([Step(dir=step.dir, sib=sib) for step, sib in zip(path, siblings, strict=True)])
        for siblings in _hash_changes(tuple([step.sib for step in path]))
        if len(siblings) == len(path)
    )
    for side in (0, 1):
        extra = Step(dir=side, sib=STRANGER)
        yield (*path, extra)
        yield (extra, *path)
    if path:
        yield path[1:]
        yield path[:-1]
        yield (*path, path[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """An inclusion proof and what it is said to prove."""

    proof: MmrProof
    seq: int
    size: int
    root: bytes

    def verify(self) -> None:
        self.proof.verify(stream_seq=self.seq, mmr_size=self.size, root=self.root)


def _same_shape(seq: int, size: int, other_size: int) -> bool:
    """Whether a proof of seq looks alike under both sizes: equal path, equal place among peaks."""
    if seq > other_size:
        return False
    shapes = set()
    for claimed in (size, other_size):
        height = peak_height(seq - 1, claimed)
        within = (seq - 1) & ((1 << height) - 1)
        shapes.add((height, within, claimed.bit_count(), peak_rank(height, claimed)))
    return len(shapes) == 1


def _inclusion_changes(claim: _Claim) -> Iterator[_Claim]:
    proof, seq, size = claim.proof, claim.seq, claim.size
    for leaf in (_flipped(proof.leaf_hash), STRANGER, LOG.leaves[seq], LOG.roots[size + 1]):
        yield replace(claim, proof=replace(proof, leaf_hash=LeafHash(leaf)))
    for path in _path_changes(proof.path):
        yield replace(claim, proof=replace(proof, path=path))
    for peaks in _hash_changes(proof.peaks_after):
        yield replace(claim, proof=replace(proof, peaks_after=peaks))
    for step in proof.path[:1]:  # the leaf and its neighbour in each other's place
        yield replace(
            claim,
            proof=replace(
                proof,
                leaf_hash=LeafHash(step.sib),
                path=(replace(step, sib=Hash(proof.leaf_hash)), *proof.path[1:]),
            ),
        )
        parent = LeafHash(LOG.node(1, (seq - 1) >> 1))  # an interior node shown as a leaf
        yield replace(claim, proof=replace(proof, leaf_hash=parent, path=proof.path[1:]))
    for other in {0, seq - 1, seq + 1, size, size + 1, 1, seq ^ 1} - {seq}:
        yield replace(claim, seq=other)
    for other in {0, size - 1, size + 1, size + 2, 2 * size, seq - 1} - {size}:
        if not _same_shape(seq, size, other):
            yield replace(claim, size=other)
        yield replace(claim, size=other, root=LOG.roots[other])
    for root in (_flipped(claim.root), STRANGER, LOG.roots[size + 1], b""):
        yield replace(claim, root=root)


def _count_refusals(changes: Iterable[Callable[[], None]]) -> int:
    refused = 0
    for verify in changes:
        try:
            verify()
        except ProofError:
            refused += 1
        else:
            raise AssertionError(f"accepted: {verify}")
    return refused


def test_no_changed_inclusion_proof_is_accepted() -> None:
    """All sizes 1 to 64, all leaves, at least twelve mutations of each."""
    total = 0
    for size in range(1, 65):
        for seq in range(1, size + 1):
            proof = mmr.prove(seq, size, LOG.node)
            claim = _Claim(proof=proof, seq=seq, size=size, root=LOG.roots[size])
            claim.verify()
            changes = _inclusion_changes(claim)
            refused = _count_refusals(change.verify for change in changes if change != claim)
            assert refused >= MUTATIONS_MIN
            total += refused
    assert total >= 25_000


def _consistency_changes(proof: ConsistencyProof) -> Iterator[ConsistencyProof]:
    for peaks in _hash_changes(proof.old_peaks):
        yield replace(proof, old_peaks=peaks)
    for peaks in _hash_changes(proof.new_peaks):
        yield replace(proof, new_peaks=peaks)
    for place, path in enumerate(proof.paths):
        before, after = proof.paths[:place], proof.paths[place + 1 :]
        for changed in _path_changes(path):
            yield replace(proof, paths=(*before, changed, *after))
        yield replace(proof, paths=(*before, *after))
        yield replace(proof, paths=(*before, path, path, *after))
    if len(proof.paths) > 1:
        yield replace(proof, paths=proof.paths[::-1])
    for other in (proof.from_size - 1, proof.from_size + 1):
        yield replace(proof, from_size=other)
    for other in (proof.to_size - 1, proof.to_size + 1):
        yield replace(proof, to_size=other)


def test_no_changed_consistency_proof_is_accepted(scaled: Callable[[int, int], int]) -> None:
    for to_size in range(1, scaled(33, 65)):
        for from_size in range(1, to_size + 1):
            old_root, new_root = LOG.roots[from_size], LOG.roots[to_size]
            known = {"from_size": from_size, "to_size": to_size}
            proof = mmr.prove_consistency(from_size, to_size, LOG.node)
            proof.verify(old_root, new_root, **known)
            refused = _count_refusals(
                partial(changed.verify, old_root, new_root, **known)
                for changed in _consistency_changes(proof)
                if changed != proof
            )
            assert refused >= MUTATIONS_MIN


def test_no_consistency_proof_holds_between_other_roots() -> None:
    for from_size in range(1, 34):
        proof = mmr.prove_consistency(from_size, 33, LOG.node)
        for other in range(1, 34):
            roots = [(LOG.roots[other], LOG.roots[33])] if other != from_size else []
            roots += [(LOG.roots[from_size], LOG.roots[other])] if other != 33 else []
            assert _count_refusals(partial(proof.verify, *pair) for pair in roots) == len(roots)


def test_a_rewritten_history_has_no_consistency_proof() -> None:
    """A fork that changed one old leaf cannot show that it grew from the old log."""
    for place in range(11):
        leaves = list(LOG.leaves[:21])
        leaves[place] = STRANGER
        fork = MemoryLog(leaves)
        own = mmr.prove_consistency(11, 21, fork.node)
        grafted = replace(own, old_peaks=mmr.prove_consistency(11, 21, LOG.node).old_peaks)
        for proof in (own, grafted):
            with pytest.raises(ProofError):
                proof.verify(LOG.roots[11], fork.roots[21])


_RangeCase = tuple[RangeProof, list[bytes]]


def _range_changes(proof: RangeProof, leaves: list[bytes]) -> Iterator[_RangeCase]:
    for left in _hash_changes(proof.left):
        yield replace(proof, left=left), leaves
    for right in _hash_changes(proof.right):
        yield replace(proof, right=right), leaves
    for changed in _hash_changes(tuple(map(Hash, leaves))):
        yield proof, list(changed)
    yield proof, []
    for other in (-1, 1):
        yield replace(proof, size=proof.size + other), leaves
        yield replace(proof, first=StreamSeq(proof.first + other)), leaves
        yield replace(proof, last=StreamSeq(proof.last + other)), leaves
    yield (
        replace(proof, first=StreamSeq(proof.first + 1), last=StreamSeq(proof.last + 1)),
        leaves,
    )


def test_no_changed_range_proof_is_accepted(scaled: Callable[[int, int], int]) -> None:
    for size in range(1, scaled(13, 33)):
        for first in range(1, size + 1):
            for last in range(first, size + 1):
                proof = mmr.prove_range(first, last, size, LOG.node)
                leaves = LOG.leaves[first - 1 : last]
                known = {"first": first, "last": last, "size": size}
                proof.verify(leaves, LOG.roots[size], **known)
                refused = _count_refusals(
                    partial(changed.verify, changed_leaves, LOG.roots[size], **known)
                    for changed, changed_leaves in _range_changes(proof, leaves)
                    if (changed, changed_leaves) != (proof, leaves)
                )
                assert refused >= MUTATIONS_MIN
