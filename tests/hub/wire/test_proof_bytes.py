"""Checking a proof from its bytes says what decoding and verifying it says."""

from __future__ import annotations

import random

import pytest

from hub import mmr
from hub.errors import ProofError, VeenError
from hub.wire.proof import MmrProof
from hub.wire.proof_bytes import ProofWalk, check_proof
from tests.support.memory_log import MemoryLog, numbered_leaves

LOG = MemoryLog(numbered_leaves(70))


def slow(data: bytes, *, leaf_hash: bytes, stream_seq: int, mmr_size: int, root: bytes) -> None:
    proof = MmrProof.decode(data)
    if proof.leaf_hash != leaf_hash:
        raise ProofError("another leaf")
    proof.verify(stream_seq=stream_seq, mmr_size=mmr_size, root=root)


def accepts(judge: object, data: bytes, **claim: object) -> bool:
    try:
        judge(data, **claim)  # type: ignore[operator]
    except VeenError:
        return False
    return True


def test_every_proof_of_every_size_up_to_70_is_accepted() -> None:
    for size in range(1, 71):
        for seq in range(1, size + 1):
            check_proof(
                mmr.prove(seq, size, LOG.node).encode(),
                leaf_hash=LOG.leaves[seq - 1],
                stream_seq=seq,
                mmr_size=size,
                root=LOG.roots[size],
            )


def test_both_judges_agree_on_mutated_proofs_and_claims(rng: random.Random) -> None:
    refused = 0
    for _ in range(4000):
        size = rng.randint(1, 70)
        seq = rng.randint(1, size)
        data = bytearray(mmr.prove(seq, size, LOG.node).encode())
        claim = {
            "leaf_hash": LOG.leaves[seq - 1],
            "stream_seq": seq,
            "mmr_size": size,
            "root": LOG.roots[size],
        }
        match rng.randrange(6):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                data += b"\x00"
            case 3:
                claim["stream_seq"] = rng.randint(0, 71)
            case 4:
                claim["mmr_size"] = rng.randint(0, 71)
            case 5:
                claim["leaf_hash"] = LOG.leaves[rng.randrange(70)]
        verdict = accepts(check_proof, bytes(data), **claim)
        assert verdict == accepts(slow, bytes(data), **claim)
        refused += not verdict
    assert refused > 3000


def test_a_walk_over_a_range_says_what_each_proof_alone_is_worth(rng: random.Random) -> None:
    """Whatever was checked before it, and in whatever order; also under another root."""
    walk, refused, held = ProofWalk(), 0, 0
    seq, size = 1, 70
    for _ in range(6000):
        if rng.random() < 0.05:
            size = rng.randint(1, 70)
        seq = seq % size + 1 if rng.random() < 0.8 else rng.randint(1, size)
        data = bytearray(mmr.prove(seq, size, LOG.node).encode())
        claim = {
            "leaf_hash": LOG.leaves[seq - 1],
            "stream_seq": seq,
            "mmr_size": size,
            "root": LOG.roots[size],
        }
        match rng.randrange(8):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                claim["root"] = LOG.roots[rng.randint(1, 70)]
            case 2:
                claim["stream_seq"] = rng.randint(1, size)
        verdict = accepts(walk.check, bytes(data), **claim)
        assert verdict == accepts(slow, bytes(data), **claim)
        refused += not verdict
        held += verdict
    assert refused > 1000
    assert held > 3000


@pytest.mark.parametrize("size", [2**24, 2**24 + 1, 2**25 - 1])
def test_a_tall_log_is_judged_too(size: int) -> None:
    def node(height: int, index: int) -> bytes:
        return height.to_bytes(16) + index.to_bytes(16)

    proof = mmr.prove(1, size, node)
    with pytest.raises(ProofError):  # the nodes are no hashes of each other
        check_proof(
            proof.encode(), leaf_hash=node(0, 0), stream_seq=1, mmr_size=size, root=bytes(32)
        )
