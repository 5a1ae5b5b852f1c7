from __future__ import annotations

from collections.abc import Callable

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import mmr
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import Hash, LeafHash, StreamSeq
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof, Step
from tests.support.memory_log import MemoryLog, numbered_leaves
from tests.support.strategies import bytes32, flipped_bits, uint64
from tests.support.vectors import Section, load, unhex

ROOTS, PROOFS, MORE, NEGATIVE = map(load, ("mmr_roots", "mmr_proofs", "mmr_more", "cbor_negative"))
VECTOR_LOG = MemoryLog(unhex(leaf) for leaf in ROOTS["leaves"])
LOG = MemoryLog(numbered_leaves(130))

steps = st.builds(Step, dir=st.integers(0, 1), sib=bytes32)
paths = st.lists(steps, max_size=8).map(tuple)
hashes = st.lists(bytes32, max_size=8).map(tuple)


def _verify(proof: MmrProof, claim: Section) -> None:
    root = unhex(claim["mmr_root"])
    proof.verify(stream_seq=claim["stream_seq"], mmr_size=claim["mmr_size"], root=root)


@pytest.mark.parametrize("section", ["receipt_time", "checkpoint_time"])
def test_inclusion_proofs_are_those_of_the_vectors(section: str) -> None:
    for vector in PROOFS[section]:
        proof = mmr.prove(vector["stream_seq"], vector["mmr_size"], VECTOR_LOG.node)
        assert proof.encode().hex() == vector["mmr_proof_cbor"]
        decoded = MmrProof.decode(unhex(vector["mmr_proof_cbor"]))
        assert decoded == proof
        assert decoded.leaf_hash.hex() == vector["leaf_hash"]
        assert [{"dir": s.dir, "sib": s.sib.hex()} for s in decoded.path] == vector["path"]
        assert [peak.hex() for peak in decoded.peaks_after] == vector["peaks_after"]
        _verify(decoded, vector)


@pytest.mark.parametrize("vector", PROOFS["must_fail"], ids=lambda vector: vector["name"])
def test_inclusion_proofs_that_must_fail_do(vector: Section) -> None:
    proof = MmrProof.decode(unhex(vector["mmr_proof_cbor"]))
    with pytest.raises(ProofError) as refusal:
        _verify(proof, vector)
    assert refusal.value.code is ErrorCode.PROOF


@pytest.mark.parametrize("vector", NEGATIVE["mmr_proof"], ids=lambda vector: vector["name"])
def test_other_spellings_of_an_mmr_proof_are_refused(vector: Section) -> None:
    with pytest.raises(VeenError) as refusal:
        MmrProof.decode(unhex(vector["cbor"]))
    assert refusal.value.code is ErrorCode.FORMAT


def test_consistency_proofs_are_those_of_the_vectors() -> None:
    for vector in MORE["consistency"]:
        sizes = {"from_size": vector["from_size"], "to_size": vector["to_size"]}
        proof = mmr.prove_consistency(**sizes, node=LOG.node)
        assert proof.encode().hex() == vector["proof_cbor"]
        decoded = ConsistencyProof.decode(unhex(vector["proof_cbor"]))
        assert decoded == proof
        decoded.verify(unhex(vector["old_root"]), unhex(vector["new_root"]), **sizes)


def test_range_proofs_are_those_of_the_vectors() -> None:
    for vector in MORE["range"]:
        first, last, size = vector["from"], vector["to"], vector["size"]
        proof = mmr.prove_range(first, last, size, LOG.node)
        assert proof.encode().hex() == vector["proof_cbor"]
        decoded = RangeProof.decode(unhex(vector["proof_cbor"]))
        assert decoded == proof
        leaves, root = LOG.leaves[first - 1 : last], unhex(vector["root"])
        decoded.verify(leaves, root, first=first, last=last, size=size)


@given(st.builds(MmrProof, leaf_hash=bytes32, path=paths, peaks_after=hashes))
def test_an_mmr_proof_decodes_to_itself(proof: MmrProof) -> None:
    assert MmrProof.decode(proof.encode()) == proof


@given(
    st.builds(
        ConsistencyProof,
        from_size=uint64,
        to_size=uint64,
        old_peaks=hashes,
        paths=st.lists(paths, max_size=5).map(tuple),
        new_peaks=hashes,
    )
)
def test_a_consistency_proof_decodes_to_itself(proof: ConsistencyProof) -> None:
    assert ConsistencyProof.decode(proof.encode()) == proof


@given(st.builds(RangeProof, size=uint64, first=uint64, last=uint64, left=hashes, right=hashes))
def test_a_range_proof_decodes_to_itself(proof: RangeProof) -> None:
    assert RangeProof.decode(proof.encode()) == proof


def _check_no_bit_survives(data: bytes, verify: Callable[[bytes], None]) -> None:
    verify(data)
    for mutant in flipped_bits(data):
        with pytest.raises(VeenError) as refusal:
            verify(mutant)
        assert refusal.value.code in {ErrorCode.FORMAT, ErrorCode.PROOF}


def test_no_flipped_bit_of_an_mmr_proof_survives() -> None:
    def verify(data: bytes) -> None:
        MmrProof.decode(data).verify(stream_seq=5, mmr_size=11, root=LOG.roots[11])

    _check_no_bit_survives(mmr.prove(5, 11, LOG.node).encode(), verify)


def test_no_flipped_bit_of_a_consistency_proof_survives() -> None:
    def verify(data: bytes) -> None:
        ConsistencyProof.decode(data).verify(LOG.roots[11], LOG.roots[21], from_size=11, to_size=21)

    _check_no_bit_survives(mmr.prove_consistency(11, 21, LOG.node).encode(), verify)


def test_no_flipped_bit_of_a_range_proof_survives() -> None:
    def verify(data: bytes) -> None:
        RangeProof.decode(data).verify(LOG.leaves[3:7], LOG.roots[11], first=4, last=7, size=11)

    _check_no_bit_survives(mmr.prove_range(4, 7, 11, LOG.node).encode(), verify)


@pytest.mark.parametrize(("seq", "size"), [(0, 5), (6, 5), (-1, 5), (1, 0), (1, 2**64)])
def test_a_position_outside_the_log_is_refused_whatever_the_proof(seq: int, size: int) -> None:
    with pytest.raises(ProofError, match="no sequence"):
        mmr.prove(1, 5, LOG.node).verify(stream_seq=seq, mmr_size=size, root=LOG.roots[5])


def test_an_interior_node_is_never_taken_for_a_leaf() -> None:
    """The shorter path from a parent reproduces the root, but not at a leaf's position."""
    honest = mmr.prove(1, 4, LOG.node)
    forged = MmrProof(
        leaf_hash=LeafHash(LOG.node(1, 0)), path=honest.path[1:], peaks_after=honest.peaks_after
    )
    for seq in range(1, 5):
        with pytest.raises(ProofError):
            forged.verify(stream_seq=seq, mmr_size=4, root=LOG.roots[4])


def test_sizes_have_to_come_from_a_signed_statement() -> None:
    """A root does not commit to its size: geometry of equal shape reproduces it under both.

    That is why verifiers take mmr_size from the RECEIPT or CHECKPOINT that signs the root with it.
    """
    assert (5).bit_count() == (6).bit_count()
    proof = mmr.prove(1, 5, LOG.node)
    proof.verify(stream_seq=1, mmr_size=6, root=LOG.roots[5])
    with pytest.raises(ProofError):
        proof.verify(stream_seq=1, mmr_size=6, root=LOG.roots[6])


@pytest.mark.parametrize("claim", [{"from_size": 10}, {"to_size": 22}])
def test_a_consistency_proof_of_other_sizes_is_refused(claim: dict[str, int]) -> None:
    proof = mmr.prove_consistency(11, 21, LOG.node)
    with pytest.raises(ProofError, match="speaks of"):
        proof.verify(LOG.roots[11], LOG.roots[21], **claim)


@pytest.mark.parametrize("claim", [{"first": 3}, {"last": 8}, {"size": 12}])
def test_a_range_proof_of_another_range_is_refused(claim: dict[str, int]) -> None:
    proof = mmr.prove_range(4, 7, 11, LOG.node)
    with pytest.raises(ProofError, match="speaks of"):
        proof.verify(LOG.leaves[3:7], LOG.roots[11], **claim)


@pytest.mark.parametrize(("from_size", "to_size"), [(0, 5), (6, 5), (0, 0)])
def test_a_consistency_proof_between_impossible_sizes_is_refused(
    from_size: int, to_size: int
) -> None:
    proof = ConsistencyProof(
        from_size=from_size, to_size=to_size, old_peaks=(), paths=(), new_peaks=()
    )
    with pytest.raises(ProofError, match="begins"):
        proof.verify(LOG.roots[5], LOG.roots[5])


@pytest.mark.parametrize(("first", "last", "size"), [(0, 1, 1), (2, 1, 2), (1, 3, 2), (1, 0, 0)])
def test_a_range_that_cannot_be_is_refused(first: int, last: int, size: int) -> None:
    proof = RangeProof(size=size, first=StreamSeq(first), last=StreamSeq(last), left=(), right=())
    with pytest.raises(ProofError, match="no range"):
        proof.verify([], LOG.roots[1])


@pytest.mark.parametrize(("start", "end"), [(3, 6), (2, 7), (4, 7), (3, 8)])
def test_a_range_with_one_leaf_more_or_less_is_refused(start: int, end: int) -> None:
    with pytest.raises(ProofError):
        mmr.prove_range(4, 7, 11, LOG.node).verify(LOG.leaves[start:end], LOG.roots[11])


def test_a_range_of_huge_claimed_size_is_refused_at_once() -> None:
    proof = RangeProof(size=2**64 - 1, first=StreamSeq(1), last=StreamSeq(2**64 - 1),
                       left=(), right=())  # fmt: skip
    with pytest.raises(ProofError, match="leaves for"):
        proof.verify(LOG.leaves, LOG.roots[1])


def test_proofs_longer_than_any_log_are_refused_while_reading() -> None:
    step = Step(dir=0, sib=Hash(bytes(32)))
    long_path = MmrProof(leaf_hash=LeafHash(bytes(32)), path=(step,) * 65, peaks_after=())
    long_peaks = MmrProof(leaf_hash=LeafHash(bytes(32)), path=(), peaks_after=(step.sib,) * 65)
    for proof in (long_path, long_peaks):
        with pytest.raises(VeenError, match="65 items"):
            MmrProof.decode(proof.encode())


def test_trailing_bytes_are_refused_by_every_proof() -> None:
    readers: list[tuple[Callable[[bytes], object], bytes]] = [
        (MmrProof.decode, mmr.prove(2, 3, LOG.node).encode()),
        (ConsistencyProof.decode, mmr.prove_consistency(2, 3, LOG.node).encode()),
        (RangeProof.decode, mmr.prove_range(2, 2, 3, LOG.node).encode()),
    ]
    for decode, data in readers:
        assert decode(data)
        with pytest.raises(VeenError, match="trailing"):
            decode(data + b"\x00")


def test_a_general_library_writes_and_reads_the_same_proofs() -> None:
    proofs = (
        mmr.prove(5, 11, LOG.node),
        mmr.prove_consistency(11, 21, LOG.node),
        mmr.prove_range(4, 7, 11, LOG.node),
    )
    for proof in proofs:
        assert cbor2.dumps(cbor2.loads(proof.encode())) == proof.encode()
