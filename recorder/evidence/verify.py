"""Offline judgement of an evidence pack: every check named, verdicts apart [SDR0 3.2.5, 3.4].

Everything is checked under the keys that the pack itself names; whether one of them is the hub that
the verifier trusts is a check of its own, so "signer unknown" is told apart from "does not hold".
The page `veen-verify.html` makes the same checks, by the same names, in the same order.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from hub.errors import ErrorCode, ProofError, VeenError
from hub.label import derive, stream_id
from hub.types import MmrRoot, PublicKey
from hub.verify import Evidence, Pins, Report, Verdict, verify_evidence
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.proof import MmrProof, bag, node_hash, peak_height, peak_rank
from hub.wire.receipt import Receipt
from hub.wire.trust import TrustFile
from recorder.event import format_time
from recorder.evidence.chain import Chain, read_chain
from recorder.evidence.content import SEALED, Reading, read_content
from recorder.evidence.pack import Pack
from recorder.projection import receipt_id

Trust: TypeAlias = PublicKey | TrustFile | None


class Signer(StrEnum):
    """Whether the verifier knows who signed."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The report and what the pack speaks of, as far as it could be read."""

    report: Report
    signer: Signer = Signer.UNKNOWN
    pack: Pack | None = None
    msg: Msg | None = None
    receipt: Receipt | None = None
    manifest: Manifest | None = None
    reading: Reading = SEALED

    def is_valid(self) -> bool:
        """Whether every check held, that of the signer included."""
        return self.report.is_valid()

    def word(self) -> str:
        """The verdict in one word, as the page prints it."""
        if self.is_valid():
            return "valid"
        failed = [check.name for check in self.report.checks if not check.ok]
        return "signer unknown" if failed == [TRUSTED] else "not valid"

    def to_json(self) -> dict[str, object]:
        """One document."""
        found = {**self.report.to_json(), "word": self.word(), "signer": self.signer.value}
        return {**found, "content": self.reading.content.value, "event": self._event()}

    def _event(self) -> dict[str, object]:
        """What the pack is about; fields of the body only where it was opened."""
        if self.pack is None or self.msg is None or self.receipt is None:
            return {}
        event, schema, body = self.reading.event, self.reading.schema, self.reading.body
        found: dict[str, object] = {
            "hub_id": self.pack.hub_id.hex(),
            "stream": self.pack.stream,
            "label": self.receipt.label.hex(),
            "hub_commit_seq": self.receipt.stream_seq,
            "hub_commit_time": self.receipt.hub_ts,
            "principal_id": self.msg.client_id.hex(),
            "receipt_id": receipt_id(self.receipt.leaf_hash),
            "manifest_id": None if self.manifest is None else self.manifest.id.hex(),
            "signed_by": None if self.manifest is None else self.manifest.hub_pk.hex(),
        }
        if event is not None:
            found |= {
                "subject_id": event.subject_id,
                "event_type": event.event_type,
                "event_time": format_time(event.event_time),
                "origin": event.origin,
                "payload": event.payload,
            }
        elif schema is not None and body is not None:
            found |= {"schema": schema.hex(), "body": body.hex()}
        return found


CANONICAL = "pack is canonical"
CHAIN = "rotation records form one chain from the log's first key"
TRUSTED = "signer is the hub you trust"
CHECKPOINT = "checkpoint is the manifest's own for this label"
REACHES = "proof reaches the manifest's checkpoint"
FOLLOWS = "receipt's root follows from the same proof"
NAMED = "label is that of the stream name"


def verify_pack(data: bytes, trust: Trust, *, routing_key: bytes | None = None) -> Judgement:
    """Check everything; `trust` is the hub's key, a checked trust file, or None when unknown."""
    report = Report("evidence pack")
    pack = report.check(Verdict.INTEGRITY, CANONICAL, lambda: Pack.decode(data))
    if pack is None:
        return Judgement(report=report)
    parts = _Parts.read(pack)
    chain = report.check(Verdict.CONSISTENCY, CHAIN, lambda: read_chain(pack, parts.manifest))
    trusted = report.check(
        Verdict.INTEGRITY, TRUSTED, lambda: _check_trust(trust, pack, parts.manifest, chain)
    )
    pieces = Evidence(receipt=pack.receipt, msg=pack.msg, proof=pack.proof, manifest=pack.manifest)
    found = verify_evidence(pieces, _pins(trust if trusted else None, chain, parts.manifest))
    report.checks += found.checks
    report.code = report.code or found.code
    report.check(Verdict.BINDING, CHECKPOINT, parts.check_checkpoint)
    report.check(Verdict.POSITION, REACHES, parts.check_reaches)
    report.check(Verdict.CONSISTENCY, FOLLOWS, parts.check_follows)
    if routing_key is not None:
        report.check(Verdict.BINDING, NAMED, lambda: parts.check_named(routing_key))
    return Judgement(
        report=report,
        signer=Signer.TRUSTED if trusted else Signer.UNKNOWN,
        pack=pack,
        msg=parts.msg,
        receipt=parts.receipt,
        manifest=parts.manifest,
        reading=read_content(report, parts.msg, pack.opening),
    )


def _check_trust(trust: Trust, pack: Pack, manifest: Manifest | None, chain: Chain | None) -> bool:
    if chain is None or manifest is None:
        raise ProofError("signer unknown: the pack does not say who signed", ErrorCode.TRUST)
    if isinstance(trust, TrustFile):
        hub, _ = trust.find(manifest.hub_pk)
        if hub.hub_id != pack.hub_id:
            raise ProofError("the trust file names another log for this key", ErrorCode.TRUST)
    elif trust not in chain.keys:
        said = "no fingerprint was given" if trust is None else f"{trust.hex()} is none of its keys"
        # In short only: a whole one would be copied from here instead of asked for.
        detail = f"signer unknown: {said}; the pack is of the hub {chain.keys[-1].hex()[:8]}..."
        raise ProofError(detail, ErrorCode.TRUST)
    return True


def _pins(trust: Trust, chain: Chain | None, manifest: Manifest | None) -> Pins:
    if isinstance(trust, TrustFile):
        return Pins.of_trust_file(trust)
    if chain is not None:
        return chain.pins()
    return Pins(active=frozenset() if manifest is None else frozenset({manifest.hub_pk}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The objects inside; None where they are not canonical, which `verify_evidence` reports."""

    pack: Pack
    msg: Msg | None = None
    receipt: Receipt | None = None
    proof: MmrProof | None = None
    manifest: Manifest | None = None

    @classmethod
    def read(cls, pack: Pack) -> _Parts:
        found: dict[str, Msg | Receipt | MmrProof | Manifest] = {}
        for name, kind in _KINDS.items():
            with contextlib.suppress(VeenError):
                found[name] = kind.decode(getattr(pack, name))
        return cls(pack=pack, **found)  # type: ignore[arg-type]

    def check_checkpoint(self) -> None:
        self._checkpoint()

    def _checkpoint(self) -> Checkpoint:
        checkpoint = Checkpoint.decode(self.pack.checkpoint)
        if self.manifest is None or self.receipt is None:
            raise ProofError("receipt or manifest is not readable")
        found = self.manifest.checkpoint(self.receipt.label)
        if found is None or found.encode() != self.pack.checkpoint:
            raise ProofError("the manifest has another checkpoint for this label, or none")
        return checkpoint

    def check_reaches(self) -> None:
        checkpoint = self._checkpoint()
        if self.proof is None or self.receipt is None:
            raise ProofError("the proof is not readable")
        self.proof.verify(
            stream_seq=self.receipt.stream_seq,
            mmr_size=checkpoint.upto_seq,
            root=checkpoint.mmr_root,
        )

    def check_follows(self) -> None:
        self.check_reaches()
        assert self.proof is not None
        assert self.receipt is not None
        size = self._checkpoint().upto_seq
        if earlier_root(self.proof, self.receipt.stream_seq, size) != self.receipt.mmr_root:
            raise ProofError("the log of the receipt is no prefix of the log of the checkpoint")

    def check_named(self, routing_key: bytes) -> None:
        if self.receipt is None:
            raise ProofError("the receipt is not readable")
        if derive(routing_key, stream_id(self.pack.stream)) != self.receipt.label:
            raise ProofError("the label is that of another stream, or of another realm")


_KINDS: dict[str, type[Msg | Receipt | MmrProof | Manifest]] = {
    "msg": Msg,
    "receipt": Receipt,
    "proof": MmrProof,
    "manifest": Manifest,
}


def earlier_root(proof: MmrProof, seq: int, size: int) -> MmrRoot:
    """The root that the log of `seq` leaves had, from a proof of its last leaf in one of `size`.

    The siblings to the left of the path and the taller peaks are just the peaks of that log, so no
    further proof is needed to see that the receipt's log is a prefix. The proof must hold already.
    """
    index = seq - 1
    height = peak_height(index, size)
    place = index & ((1 << height) - 1)
    node, peaks = bytes(proof.leaf_hash), []
    for level, step in enumerate(proof.path):
        below = (1 << level) - 1
        if not place >> level & 1:
            continue  # what stands to the right came later
        if place & below == below:
            node = node_hash(step.sib, node)  # this leaf completed the tree
        else:
            peaks.append(bytes(step.sib))
    taller = proof.peaks_after[peak_rank(height, size) :]
    return bag([node, *peaks, *taller])
