"""Which head of a log is believed: one whose root a pinned key vouches for [KEX0.1]."""

from __future__ import annotations

from collections.abc import Sequence

from hub.client.chain import KeyChain
from hub.client.follow import head_from_proof
from hub.errors import ErrorCode, ProofError
from hub.types import Label, PublicKey
from hub.wire.receipt import Receipt
from spark_jobs.sources import OpenLog


def open_chain(log: OpenLog, pinned: PublicKey, parent_keys: Sequence[PublicKey] = ()) -> KeyChain:
    """The keys of the log that the pinned one leads to, as its rotation records say."""
    chain = KeyChain(pinned, fetch_rotations=log.rotations, fetch_manifest=log.manifest)
    chain.trust_parent(parent_keys)
    chain.refresh()
    return chain


def check_head(log: OpenLog, chain: KeyChain, label: Label, seq: int) -> Receipt:
    """The RECEIPT at `seq`, or V.TRUST unless its root stands under a signature that counts.

    A superseded key counts up to the statement that ended it: the root must be a prefix of that
    statement's.
    """
    receipt = Receipt.decode(log.receipt(label, seq))
    if receipt.label != label or receipt.stream_seq != seq:
        raise ProofError(f"the receipt at {seq} is of another place")
    if chain.is_current(chain.signer(receipt)):
        return receipt
    cover = chain.cover(label, seq)
    if cover is None:
        detail = f"{seq} is signed by a superseded key beyond the manifest that ended it"
        raise ProofError(detail, ErrorCode.TRUST)
    if cover.size == seq:
        if cover.root != receipt.mmr_root:
            detail = f"the root at {seq} is not the one that ended the key"
            raise ProofError(detail, ErrorCode.EQUIVOCATION)
    else:
        log.consistency(label, seq, cover.size).verify(
            receipt.mmr_root, cover.root, from_size=seq, to_size=cover.size
        )
    return receipt


def claimed_peaks(log: OpenLog, label: Label, size: int) -> list[bytes]:
    """The peaks of the first `size` leaves, highest first, as the log claims them.

    They fold to the root of the RECEIPT there; who goes on from them to a root that is signed has
    proved them.
    """
    if size == 0:
        return []
    receipt = Receipt.decode(log.receipt(label, size))
    return list(head_from_proof(receipt, log.proof(label, size, size)).peaks)
