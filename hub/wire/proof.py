"""mmr_proof and its two companions, consistency and range, bound to positions [SSOT 5.2].

None of them carries an index that is to be believed: every length and every direction is derived
from sizes the verifier knows from a signed statement, and then compared. A verifier that only
reproduced the root could be shown an interior node as a leaf, or one leaf at two places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Self

from hub.crypto.hashing import MMR_NODE, MMR_ROOT
from hub.errors import ProofError
from hub.limits import DEFAULT, Limits
from hub.types import UINT64_MAX, Hash, LeafHash, MmrRoot, StreamSeq
from hub.wire import cbor

VER: Final = 1
PEAKS_MAX: Final = 64  # sizes are 64-bit
TILES_MAX: Final = 2 * PEAKS_MAX  # tiles grow up to the tallest one and shrink again

# One update of a copied context costs half of Tag.__call__, and appends and range checks do
# nothing else.
node_context = sha256(MMR_NODE.name.encode() + b"\x00").copy


def node_hash(left: bytes, right: bytes) -> bytes:
    """The parent of two nodes of equal height."""
    context = node_context()
    context.update(left + right)
    return context.digest()


def bag(peaks: Sequence[bytes]) -> MmrRoot:
    """The root over peaks by increasing height; a single peak is the root itself."""
    assert peaks, "an empty log has no root"
    return MmrRoot(peaks[0] if len(peaks) == 1 else MMR_ROOT(b"".join(peaks)))


def peak_height(index: int, size: int) -> int:
    """The height of the tree that holds the 0-based leaf `index` in an MMR of `size` leaves.

    Trees stand from highest to lowest, one for each set bit of size, so the first bit in which
    index and size differ, read from the top, is the tree's own.
    """
    assert 0 <= index < size, (index, size)
    return (index ^ size).bit_length() - 1


def peak_rank(height: int, size: int) -> int:
    """Where the peak of this height stands among the peaks by increasing height."""
    return (size & ((1 << height) - 1)).bit_count()


def peak_heights(size: int) -> list[int]:
    """The heights of all peaks, increasing."""
    return [height for height in range(size.bit_length()) if size >> height & 1]


def tiles(start: int, end: int) -> Iterator[tuple[int, int]]:
    """(height, index) of the perfect subtrees over leaves start..end-1, each the tallest there."""
    while start < end:
        height = (end - start).bit_length() - 1
        if start:
            height = min(height, (start & -start).bit_length() - 1)
        yield height, start >> height
        start += 1 << height


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One level up: dir 0 says that the running node is the left child."""

    dir: int
    sib: Hash

    def encode(self) -> bytes:
        """The map {1 dir, 2 sib}."""
        return b"\xa2\x01%c\x02\x58\x20%b" % (self.dir, self.sib)

    @classmethod
    def read(cls, reader: cbor.Reader) -> Self:
        """The next item of a path."""
        reader.map_length(minimum=2, maximum=2)
        return cls(
            dir=reader.key(1).uint(maximum=1),
            sib=Hash(reader.key(2).bstr(32)),
        )


Path = tuple[Step, ...]


def _fold(node: bytes, path: Path, position: int, height: int) -> bytes:
    """Fold a node up a path of exactly `height` steps; `position` is its index at its level."""
    if len(path) != height:
        raise ProofError(f"path of {len(path)} steps, the position asks for {height}")
    for level, step in enumerate(path):
        if step.dir != position >> level & 1:
            raise ProofError(f"step {level} goes to the wrong side")
        node = node_hash(step.sib, node) if step.dir else node_hash(node, step.sib)
    return node


def _encode_path(path: Path) -> bytes:
    return cbor.head(cbor.ARRAY, len(path)) + b"".join([step.encode() for step in path])


def _read_path(reader: cbor.Reader, limits: Limits) -> Path:
    length = reader.array_length(maximum=limits.proof_len_max)
    return tuple([Step.read(reader) for _ in range(length)])


def _encode_hashes(hashes: Sequence[bytes]) -> bytes:
    return cbor.head(cbor.ARRAY, len(hashes)) + b"".join([b"\x58\x20" + item for item in hashes])


def _read_hashes(reader: cbor.Reader, maximum: int) -> tuple[Hash, ...]:
    return tuple([Hash(reader.bstr(32)) for _ in range(reader.array_length(maximum=maximum))])


@dataclass(frozen=True, slots=True, kw_only=True)
class MmrProof:
    """Inclusion of one leaf: map {1 ver, 2 leaf_hash, 3 path, 4 peaks_after}."""

    leaf_hash: LeafHash
    path: Path
    peaks_after: tuple[Hash, ...]  # every other peak, by increasing height

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"".join(
            (
                b"\xa4\x01\x01\x02\x58\x20",
                self.leaf_hash,
                b"\x03",
                _encode_path(self.path),
                b"\x04",
                _encode_hashes(self.peaks_after),
            )
        )

    @classmethod
    def decode(cls, data: bytes, limits: Limits = DEFAULT) -> Self:
        """Parse an mmr_proof or raise E.FORMAT."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=4, maximum=4)
        reader.key(1).uint(exactly=VER)
        leaf_hash = LeafHash(reader.key(2).bstr(32))
        path = _read_path(reader.key(3), limits)
        peaks_after = _read_hashes(reader.key(4), PEAKS_MAX)
        reader.end()
        return cls(leaf_hash=leaf_hash, path=path, peaks_after=peaks_after)

    def verify(self, *, stream_seq: int, mmr_size: int, root: bytes) -> None:
        """Raise unless leaf_hash stands at stream_seq of the log of mmr_size leaves and this root.

        mmr_size is stream_seq against a RECEIPT and upto_seq against a CHECKPOINT.
        """
        if not 1 <= stream_seq <= mmr_size <= UINT64_MAX:
            raise ProofError(f"no sequence {stream_seq} in a log of {mmr_size}")
        index = stream_seq - 1
        height = peak_height(index, mmr_size)
        if len(self.peaks_after) != mmr_size.bit_count() - 1:
            raise ProofError(f"{len(self.peaks_after)} other peaks do not fit size {mmr_size}")
        peak = _fold(self.leaf_hash, self.path, index & ((1 << height) - 1), height)
        rank = peak_rank(height, mmr_size)
        if bag([*self.peaks_after[:rank], peak, *self.peaks_after[rank:]]) != root:
            raise ProofError("the proof does not reproduce the root")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyProof:
    """The log of from_size is a prefix of the log of to_size; both sizes are claims."""

    from_size: int
    to_size: int
    old_peaks: tuple[Hash, ...]
    paths: tuple[Path, ...]  # paths[i] leads from old_peaks[i] to the new peak that holds it
    new_peaks: tuple[Hash, ...]

    def encode(self) -> bytes:
        """Map {ver, from_size, to_size, old_peaks, paths, new_peaks} in this order."""
        return b"".join(
            (
                b"\xa6\x63ver\x01\x69from_size",
                cbor.uint(self.from_size),
                b"\x67to_size",
                cbor.uint(self.to_size),
                b"\x69old_peaks",
                _encode_hashes(self.old_peaks),
                b"\x65paths",
                cbor.head(cbor.ARRAY, len(self.paths)),
                *map(_encode_path, self.paths),
                b"\x69new_peaks",
                _encode_hashes(self.new_peaks),
            )
        )

    @classmethod
    def decode(cls, data: bytes, limits: Limits = DEFAULT) -> Self:
        """Parse a consistency proof or raise E.FORMAT."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=6, maximum=6)
        reader.name("ver").uint(exactly=VER)
        from_size = reader.name("from_size").uint()
        to_size = reader.name("to_size").uint()
        old_peaks = _read_hashes(reader.name("old_peaks"), PEAKS_MAX)
        length = reader.name("paths").array_length(maximum=PEAKS_MAX)
        paths = tuple([_read_path(reader, limits) for _ in range(length)])
        new_peaks = _read_hashes(reader.name("new_peaks"), PEAKS_MAX)
        reader.end()
        return cls(
            from_size=from_size,
            to_size=to_size,
            old_peaks=old_peaks,
            paths=paths,
            new_peaks=new_peaks,
        )

    def verify(
        self,
        old_root: bytes,
        new_root: bytes,
        *,
        from_size: int | None = None,
        to_size: int | None = None,
    ) -> None:
        """Raise unless the old log is a prefix of the new one.

        A root does not commit to its size, so give the sizes of the signed statements the roots
        come from; without them only the proof's own claims are checked against each other.
        """
        _check_claim("from_size", self.from_size, from_size)
        _check_claim("to_size", self.to_size, to_size)
        if not 1 <= self.from_size <= self.to_size:
            raise ProofError(f"no log of {self.from_size} begins a log of {self.to_size}")
        heights = peak_heights(self.from_size)
        if not len(self.old_peaks) == len(self.paths) == len(heights):
            raise ProofError(f"peaks and paths do not fit size {self.from_size}")
        if len(self.new_peaks) != self.to_size.bit_count():
            raise ProofError(f"new peaks do not fit size {self.to_size}")
        for height, peak, path in zip(heights, self.old_peaks, self.paths, strict=True):
            first = self.from_size >> (height + 1) << (height + 1)  # leaves left of this peak
            top = peak_height(first, self.to_size)
            position = (first & ((1 << top) - 1)) >> height
            folded = _fold(peak, path, position, top - height)
            if folded != self.new_peaks[peak_rank(top, self.to_size)]:
                raise ProofError(f"the old peak of height {height} is not under its new peak")
        if bag(self.old_peaks) != old_root or bag(self.new_peaks) != new_root:
            raise ProofError("the proof does not reproduce both roots")


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeProof:
    """Leaves first..last of a log of `size`: map {1 ver, 2 size, 3 from, 4 to, 5 left, 6 right}."""

    size: int
    first: StreamSeq
    last: StreamSeq
    left: tuple[Hash, ...]  # perfect subtrees over the leaves before first
    right: tuple[Hash, ...]  # and over those after last, each listed left to right

    def encode(self) -> bytes:
        """Canonical bytes."""
        return b"".join(
            (
                b"\xa6\x01\x01\x02",
                cbor.uint(self.size),
                b"\x03",
                cbor.uint(self.first),
                b"\x04",
                cbor.uint(self.last),
                b"\x05",
                _encode_hashes(self.left),
                b"\x06",
                _encode_hashes(self.right),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a range proof or raise E.FORMAT."""
        reader = cbor.Reader(data)
        reader.map_length(minimum=6, maximum=6)
        reader.key(1).uint(exactly=VER)
        proof = cls(
            size=reader.key(2).uint(),
            first=StreamSeq(reader.key(3).uint()),
            last=StreamSeq(reader.key(4).uint()),
            left=_read_hashes(reader.key(5), PEAKS_MAX),
            right=_read_hashes(reader.key(6), TILES_MAX),
        )
        reader.end()
        return proof

    def verify(
        self,
        leaves: Sequence[bytes],
        root: bytes,
        *,
        first: int | None = None,
        last: int | None = None,
        size: int | None = None,
    ) -> None:
        """Raise unless these are exactly the leaves first..last under this root.

        As with consistency, give the range and size that are known from elsewhere.
        """
        _check_claim("from", self.first, first)
        _check_claim("to", self.last, last)
        _check_claim("size", self.size, size)
        if not 1 <= self.first <= self.last <= self.size:
            raise ProofError(f"no range {self.first}..{self.last} in a log of {self.size}")
        if len(leaves) != self.last - self.first + 1:
            raise ProofError(f"{len(leaves)} leaves for {self.first}..{self.last}")
        peaks: list[bytes] = []
        _lay_tiles(peaks, 0, self.first - 1, self.left)
        position = self.first - 1
        for leaf in leaves:
            lay(peaks, position, 0, leaf)
            position += 1
        _lay_tiles(peaks, self.last, self.size, self.right)
        if bag(peaks[::-1]) != root:
            raise ProofError("the range does not reproduce the root")


def lay(peaks: list[bytes], position: int, height: int, node: bytes) -> None:
    """Put a subtree behind `position` leaves, merging aligned neighbours of equal height.

    `peaks` stands from highest to lowest, so all work is at its end.
    """
    while position >> height & 1:
        node = node_hash(peaks.pop(), node)
        height += 1
    peaks.append(node)


def _lay_tiles(peaks: list[bytes], start: int, end: int, nodes: Sequence[bytes]) -> None:
    layout = list(tiles(start, end))
    if len(layout) != len(nodes):
        raise ProofError(f"{len(nodes)} subtrees for leaves {start + 1}..{end}")
    for (height, index), node in zip(layout, nodes, strict=True):
        lay(peaks, index << height, height, node)


def _check_claim(name: str, claimed: int, known: int | None) -> None:
    if known is not None and claimed != known:
        raise ProofError(f"the proof speaks of {name} {claimed}, not {known}")
