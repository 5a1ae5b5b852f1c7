"""Offline verification: every check that was made is listed, with separate verdicts [SSOT 5.2, 7].

Nothing here opens a socket. A verdict holds only when at least one check of its kind was made and
none failed; what was not checked is said to be so.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from hub.errors import ErrorCode, ProofError
from hub.types import Label, ManifestId, MmrRoot, PublicKey, Signature
from hub.verify_report import Check, Pins, Report, Verdict, merge
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.proof import ConsistencyProof, MmrProof
from hub.wire.receipt import Receipt
from hub.wire.trust import TrustFile

__all__ = [
    "Check",
    "Evidence",
    "Pins",
    "Report",
    "Verdict",
    "merge",
    "verify_evidence",
    "verify_rotations",
    "verify_trust_file",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is at hand about one message; bytes as they were received."""

    receipt: bytes | None = None
    msg: bytes | None = None
    proof: bytes | None = None
    against: tuple[bytes, ...] = ()  # further RECEIPTs of the label, whose roots are signed
    checkpoint: bytes | None = None
    manifest: bytes | None = None
    consistency: bytes | None = None


def verify_evidence(evidence: Evidence, pins: Pins, *, now: int | None = None,
                    max_age_s: int | None = None) -> Report:  # fmt: skip
    """Check everything that the pieces at hand allow."""
    report = Report("message")
    integrity = Verdict.INTEGRITY
    receipt = msg = proof = None
    if evidence.receipt is not None:
        data = evidence.receipt
        receipt = report.check(integrity, "receipt is canonical", lambda: Receipt.decode(data))
    if evidence.msg is not None:
        msg_bytes = evidence.msg
        msg = report.check(integrity, "message is canonical", lambda: Msg.decode(msg_bytes))
    if msg is not None:
        _check_msg(report, msg)
    if evidence.proof is not None:
        proof_bytes = evidence.proof
        proof = report.check(integrity, "proof is canonical", lambda: MmrProof.decode(proof_bytes))
    ends = find_statements(report, evidence, pins)
    if receipt is None and msg is not None:
        report.check(Verdict.BINDING, "message comes with its receipt", _no_receipt_of_msg)
    if receipt is not None:
        _check_receipt(report, receipt, msg=msg, pins=pins, ends=ends, proof=proof)
    if proof is not None:
        _check_proof(report, proof, receipt, ends)
    if evidence.consistency is not None and receipt is not None:
        _check_consistency(report, evidence.consistency, receipt, ends)
    if max_age_s is not None and now is not None and receipt is not None:
        _check_age(report, receipt, now, max_age_s)
    return report


def _check_msg(report: Report, msg: Msg) -> None:
    report.check(Verdict.INTEGRITY, "ct_hash is that of the ciphertext (I1)", msg.check_ct_hash)
    report.check(Verdict.INTEGRITY, "message is signed by its client_id", msg.verify)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRoot:
    """A trusted key says: after `size` messages the label has this root."""

    label: Label
    size: int
    root: MmrRoot
    source: str


@dataclass(slots=True)
class Statements:
    """What trusted keys say of whole logs."""

    roots: list[SignedRoot] = field(default_factory=list)
    manifests: dict[ManifestId, Manifest] = field(default_factory=dict)

    def of(self, label: Label) -> list[SignedRoot]:
        """The roots of one label."""
        return [one for one in self.roots if one.label == label]

    def add_checkpoint(self, one: Checkpoint) -> None:
        """A checkpoint whose signature was checked."""
        self.roots.append(
            SignedRoot(
                label=one.label_curr, size=one.upto_seq, root=one.mmr_root, source="checkpoint"
            )
        )

    def add_receipt(self, one: Receipt) -> None:
        """A receipt whose signature was checked."""
        self.roots.append(
            SignedRoot(label=one.label, size=one.stream_seq, root=one.mmr_root, source="receipt")
        )


def find_statements(report: Report, evidence: Evidence, pins: Pins) -> Statements:
    """Check the signed statements at hand and keep those that count."""
    found = Statements()
    if evidence.checkpoint is not None:
        data = evidence.checkpoint
        checkpoint = report.check(
            Verdict.INTEGRITY, "checkpoint is canonical", lambda: Checkpoint.decode(data)
        )
        if checkpoint is not None and _is_active(report, "checkpoint", checkpoint, pins):
            found.add_checkpoint(checkpoint)
    for place, against in enumerate(evidence.against, 2):
        name = f"receipt {place}"
        receipt = report.check(
            Verdict.INTEGRITY,
            f"{name} is canonical",
            lambda one=against: Receipt.decode(one),  # type: ignore[misc]
        )
        if receipt is not None and _is_active(report, name, receipt, pins):
            found.add_receipt(receipt)
    if evidence.manifest is not None:
        manifest_bytes = evidence.manifest
        manifest = report.check(
            Verdict.INTEGRITY, "manifest is canonical", lambda: Manifest.decode(manifest_bytes)
        )
        if manifest is not None and report.check(
            Verdict.INTEGRITY,
            "manifest and its checkpoints are signed by a pinned key",
            lambda: _verify_manifest(manifest, pins),
        ):
            found.manifests[manifest.id] = manifest
            for one in manifest.checkpoints:
                found.add_checkpoint(one)
    return found


def _is_active(report: Report, name: str, signed: Receipt | Checkpoint, pins: Pins) -> bool:
    judge = functools.partial(_require_active, pins, signed)
    return report.check(Verdict.INTEGRITY, f"{name} is signed by an active key", judge) is not None


def _require_active(pins: Pins, signed: Receipt | Checkpoint) -> bool:
    if pins.signer(signed) not in pins.active:
        raise ProofError("the key is superseded or revoked", ErrorCode.TRUST)
    return True


def _verify_manifest(manifest: Manifest, pins: Pins) -> bool:
    key = manifest.hub_pk
    if key not in pins.active and pins.ended.get(key) != manifest.id:
        detail = "the manifest is of no active key and is no ended key's last one"
        raise ProofError(detail, ErrorCode.TRUST)
    manifest.verify(key)
    return True


def _check_receipt(
    report: Report,
    receipt: Receipt,
    *,
    msg: Msg | None,
    pins: Pins,
    ends: Statements,
    proof: MmrProof | None,
) -> None:
    signer = report.check(
        Verdict.INTEGRITY, "receipt is signed by a pinned key", lambda: pins.signer(receipt)
    )
    if msg is not None:
        report.check(
            Verdict.BINDING,
            "receipt is for this message (I2)",
            lambda: check_same_leaf(msg, receipt),
        )
    if signer is not None and signer in pins.ended:
        report.check(
            Verdict.INTEGRITY,
            "leaf is included under the last manifest of the superseded key",
            lambda: check_ended(receipt, pins.ended[signer], ends, proof),
        )


def check_same_leaf(msg: Msg, receipt: Receipt) -> None:
    if msg.label != receipt.label or msg.leaf_hash() != receipt.leaf_hash:
        raise ProofError("label or leaf_hash differ: the receipt is for another message")


def check_ended(
    receipt: Receipt, last: ManifestId | None, ends: Statements, proof: MmrProof | None
) -> None:
    manifest = None if last is None else ends.manifests.get(last)
    if manifest is None or proof is None:
        detail = "needed: the manifest that ended the key, and a proof against it"
        raise ProofError(detail, ErrorCode.TRUST)
    checkpoint = manifest.checkpoint(receipt.label)
    if checkpoint is None or receipt.stream_seq > checkpoint.upto_seq:
        raise ProofError("the receipt is later than the key's last manifest", ErrorCode.TRUST)
    if proof.leaf_hash != receipt.leaf_hash:
        raise ProofError("the proof is of another leaf")
    proof.verify(
        stream_seq=receipt.stream_seq, mmr_size=checkpoint.upto_seq, root=checkpoint.mmr_root
    )


def _check_proof(
    report: Report, proof: MmrProof, receipt: Receipt | None, ends: Statements
) -> None:
    if receipt is None:
        report.check(Verdict.POSITION, "proof comes with the receipt of its place", _no_receipt)
        return
    report.check(
        Verdict.BINDING, "proof is for the receipt's leaf", lambda: check_same_proof(proof, receipt)
    )
    own = Statements()
    own.add_receipt(receipt)
    roots = [*ends.of(receipt.label), *own.roots]
    source = report.check(
        Verdict.POSITION,
        f"leaf stands at {receipt.stream_seq} under a signed root (I3)",
        lambda: check_position(proof, receipt, roots),
    )
    if source is not None:
        report.note(f"root of size {source.size}, signed in a {source.source}")


def _no_receipt_of_msg() -> None:
    raise ProofError("no receipt for this message is at hand: nobody promised it a place")


def _no_receipt() -> None:
    raise ProofError("a proof carries no place; only the receipt says it")


def check_position(proof: MmrProof, receipt: Receipt, roots: Sequence[SignedRoot]) -> SignedRoot:
    """The first signed root under which the leaf stands at the receipt's place.

    A proof is against one size, and only the verifier's own statements say which sizes have a root.
    """
    reasons = []
    for one in roots:
        try:
            proof.verify(stream_seq=receipt.stream_seq, mmr_size=one.size, root=one.root)
        except ProofError as refusal:
            reasons.append(f"{one.source} of size {one.size}: {refusal.detail}")
            continue
        return one
    raise ProofError("; ".join(reasons) or "no signed root is at hand")


def check_same_proof(proof: MmrProof, receipt: Receipt) -> None:
    if proof.leaf_hash != receipt.leaf_hash:
        raise ProofError("the proof is of another leaf")


def _check_consistency(report: Report, data: bytes, receipt: Receipt, ends: Statements) -> None:
    proof = report.check(
        Verdict.INTEGRITY,
        "consistency proof is canonical",
        lambda: ConsistencyProof.decode(data),
    )
    if proof is None:
        return

    def judge() -> None:
        for one in ends.of(receipt.label):
            if one.size == proof.to_size:
                proof.verify(
                    receipt.mmr_root, one.root, from_size=receipt.stream_seq, to_size=one.size
                )
                return
        raise ProofError(f"no signed root of size {proof.to_size} is at hand")

    name = f"log of {receipt.stream_seq} is a prefix of the log of {proof.to_size}"
    report.check(Verdict.CONSISTENCY, name, judge)


def _check_age(report: Report, receipt: Receipt, now: int, max_age_s: int) -> None:
    def judge() -> None:
        age_s = now - receipt.hub_ts
        if age_s > max_age_s:
            raise ProofError(f"the receipt is {age_s} s old, allowed are {max_age_s}")

    report.check(Verdict.FRESHNESS, f"receipt is at most {max_age_s} s old", judge)


def verify_rotations(hub_pk: PublicKey, rotations: Sequence[bytes]) -> Report:
    """Whether the records lead from the pinned key to one current key without contradiction."""
    report = Report("rotations")
    report.check(
        Verdict.CONSISTENCY,
        "records form one chain through the pinned key, each signed by both keys",
        lambda: Pins.of_key(hub_pk, rotations),
    )
    return report


def verify_trust_file(
    data: bytes, signature: bytes | None, trust_pk: PublicKey, held: TrustFile | None = None
) -> Report:
    """Whether a trust file is canonical, signed by the realm and not older than the held one.

    A signature that is missing (None) is a check that fails, as a wrong one is.
    """

    def signed(trust: TrustFile) -> bytes:
        if signature is None:
            raise ProofError("no signature lies beside it", ErrorCode.TRUST)
        trust.verify(Signature(signature), trust_pk)
        return signature

    report = Report("trust file")
    trust = report.check(
        Verdict.INTEGRITY, "trust file is canonical", lambda: TrustFile.decode(data)
    )
    if trust is not None:
        report.check(
            Verdict.INTEGRITY,
            "signed by the realm's trust key",
            lambda: signed(trust),
        )
        if held is not None and signature is not None:
            report.check(
                Verdict.FRESHNESS,
                f"serial {trust.serial} is not below the held {held.serial}",
                lambda: TrustFile.accept(data, signature, trust_pk=trust_pk, held=held),
            )
    return report
