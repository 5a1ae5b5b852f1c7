"""The leaves of a whole coverage fold to its signed root, so nothing was left out [SSOT 5].

Each task hashes the perfect subtrees of its own range; the driver lays them side by side. What was
pruned before the coverage enters as peaks that the log claims: the root proves them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hub import mmr
from hub.wire.proof import bag, lay, node_hash, tiles
from queryapi.contract.codes import QueryCode, QueryError, failed_at
from spark_jobs.query_batch import batches
from spark_jobs.query_damage import checking
from spark_jobs.query_plan import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A perfect subtree over leaves index * 2^height and on."""

    height: int
    index: int
    node: bytes


def fold_chunk(chunk: Chunk) -> list[Tile]:
    """The subtrees over the leaves of a chunk, left to right."""
    leaves = list(_leaves(chunk))
    found, at = [], 0
    for height, index in tiles(chunk.first - 1, chunk.last):
        size = 1 << height
        found.append(Tile(height=height, index=index, node=_top(leaves[at : at + size])))
        at += size
    return found


def _leaves(chunk: Chunk) -> Iterator[bytes]:
    for batch in batches(chunk):
        yield from batch.raw("leaf_hash").to_pylist()


def _top(level: list[bytes]) -> bytes:
    """The top of a perfect tree."""
    while len(level) > 1:
        level = [node_hash(level[place], level[place + 1]) for place in range(0, len(level), 2)]
    return level[0]


def root_of(before: Sequence[bytes], folded: Sequence[Sequence[Tile]]) -> bytes:
    """The root over earlier peaks, highest first, and the subtrees of all chunks in order."""
    peaks = list(before)
    for chunk in folded:
        for tile in chunk:
            lay(peaks, tile.index << tile.height, tile.height, tile.node)
    return bag(peaks[::-1])


def find_break(chunks: Sequence[Chunk], before: Sequence[bytes]) -> QueryError:
    """Where a log that does not fold leaves its own roots: a failure that names the sequence."""
    peaks = list(before)
    for chunk in chunks:
        seq = chunk.first
        with checking(chunk):
            pairs = list(_pairs(chunk))
        for leaf, root in pairs:
            mmr.append(peaks, seq - 1, leaf)
            if mmr.root(peaks) != root:
                reason = "its leaf does not lead to the root of its RECEIPT"
                return failed_at(QueryCode.EVIDENCE_FAILED, chunk.stream, seq, reason)
            seq += 1
    last = chunks[-1]
    reason = "the leaves do not fold to the signed root of the coverage"
    return failed_at(QueryCode.EVIDENCE_FAILED, last.stream, last.last, reason)


def _pairs(chunk: Chunk) -> Iterator[tuple[bytes, bytes]]:
    for batch in batches(chunk):
        leaves, roots = batch.raw("leaf_hash"), batch.raw("mmr_root")
        yield from zip(leaves.to_pylist(), roots.to_pylist(), strict=True)


def whole(chunk: Chunk) -> Chunk:
    """The chunk with all its rows, whatever the question leaves out."""
    return replace(chunk, is_windowed=False, probe=None)
