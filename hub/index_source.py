"""One verified look at a hub: manifests, heads, and whether each extends what was seen before.

Nothing leaves this module that is not signed by a key the trust file vouches for and consistent
with the heads it was given [wire: trust; SSOT 5.2].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hub.client.chain import KeyChain
from hub.client.http import Call, HubHttp
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import HubId, Label, ManifestId, MmrRoot, PublicKey, StreamSeq
from hub.wire import cbor
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import NO_MANIFEST, Manifest
from hub.wire.proof import ConsistencyProof
from hub.wire.receipt import Receipt
from hub.wire.trust import KeyStatus, TrustFile

MANIFESTS_PER_LOOK_MAX: Final = 64
LABELS_PER_LOOK_MAX: Final = 256
ROTATIONS_MAX: Final = 10_000
# A refusal with one of these is evidence against the hub; any other is a failure to look.
EVIDENCE: Final = frozenset({
    ErrorCode.SIG, ErrorCode.PROOF, ErrorCode.TRUST, ErrorCode.EQUIVOCATION, ErrorCode.FORMAT,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The log we watch and the key that the realm vouches for."""

    hub_id: HubId
    hub_pk: PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A size of one label's log, its root, and up to where a CHECKPOINT was verified."""

    seq: StreamSeq
    root: MmrRoot
    checkpoint_seq: StreamSeq


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedHead:
    """The newest RECEIPT of a label with the CHECKPOINT it extends."""

    receipt: Receipt
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Evidence that something is wrong, in words for a person."""

    code: ErrorCode
    object: str
    detail: str


@dataclass(slots=True, kw_only=True)
class Look:
    """What one look found; manifests are oldest first."""

    hub_pk: PublicKey
    manifests: list[Manifest] = field(default_factory=list)
    newest_id: ManifestId | None = None
    heads: list[VerifiedHead] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)


def pin_from_trust(data: bytes, signature: bytes, trust_pk: PublicKey, hub_id: HubId) -> Pin:
    """The active key of one hub in a trust file that the realm's key signed."""
    trust = TrustFile.accept(data, signature, trust_pk=trust_pk)
    for hub in trust.hubs:
        if hub.hub_id == hub_id:
            for key in hub.keys:
                if key.status is KeyStatus.ACTIVE:
                    return Pin(hub_id=hub_id, hub_pk=key.pk)
    raise ProofError("the trust file names no active key of this hub", ErrorCode.TRUST)


class IndexSource:
    """Reads one hub over HTTP; `look` is its only verb."""

    def __init__(self, http: HubHttp, pin: Pin) -> None:
        self._http = http
        self._chain = KeyChain(
            pin.hub_pk,
            fetch_rotations=self._rotations,
            fetch_manifest=self._manifest,
            hub_id=pin.hub_id,
        )

    def look(
        self, *, known: Mapping[Label, Position], known_manifests: Collection[ManifestId]
    ) -> Look:
        """Fetch and verify what is new; `known` is ordered, the longest unseen label first."""
        self._chain.refresh()
        look = Look(hub_pk=self._chain.current)
        newest = self._newest_manifest(look)
        if newest is None:
            return look
        look.newest_id = newest.id
        self._walk_back(look, newest, known_manifests)
        for checkpoint in _choose(newest.checkpoints, known):
            label = checkpoint.label_curr
            try:
                head = self._head(checkpoint, known.get(label))
            except VeenError as refusal:
                if refusal.code not in EVIDENCE:
                    raise
                look.observations.append(_observe(refusal, f"label {label.hex()}"))
            else:
                look.heads.append(head)
        return look

    def _newest_manifest(self, look: Look) -> Manifest | None:
        try:
            data = self._http.call(Call(method="GET", path="/manifest_latest")).body
        except VeenError as refusal:
            if refusal.code is ErrorCode.NOTFOUND:
                return None
            raise
        try:
            manifest = Manifest.decode(data)
            self._verify_manifest(manifest)
        except VeenError as refusal:
            look.observations.append(_observe(refusal, "manifest latest"))
            return None
        return manifest

    def _walk_back(
        self, look: Look, newest: Manifest, known_manifests: Collection[ManifestId]
    ) -> None:
        """Follow `previous` until known ground, the start of the log, or the bound of one look."""
        manifest = newest
        found: list[Manifest] = []
        while manifest.id not in known_manifests and len(found) < MANIFESTS_PER_LOOK_MAX:
            found.append(manifest)
            if manifest.previous == NO_MANIFEST:
                break
            try:
                previous = Manifest.decode(self._manifest(manifest.previous))
                if previous.id != manifest.previous:
                    raise ProofError("another manifest than the one asked for")
                self._verify_manifest(previous)
                _check_growth(previous, manifest)
            except VeenError as refusal:
                if refusal.code not in EVIDENCE | {ErrorCode.NOTFOUND}:
                    raise
                look.observations.append(_observe(refusal, f"manifest {manifest.previous.hex()}"))
                break
            manifest = previous
        look.manifests = found[::-1]

    def _verify_manifest(self, manifest: Manifest) -> None:
        if manifest.hub_pk not in self._chain.keys:
            raise ProofError("a manifest by no key of this log", ErrorCode.TRUST)
        manifest.verify(manifest.hub_pk)

    def _head(self, checkpoint: Checkpoint, known: Position | None) -> VerifiedHead:
        label = checkpoint.label_curr
        query = {"label": label.hex()}
        receipt = Receipt.decode(
            self._http.call(Call(method="GET", path="/head", query=query)).body
        )
        if receipt.label != label:
            raise ProofError("the head is of another label")
        signer = self._chain.signer(receipt)
        head = (receipt.stream_seq, receipt.mmr_root)
        if not self._chain.is_current(signer):
            cover = self._chain.cover(label, receipt.stream_seq)
            if cover is None:
                raise ProofError("a superseded key signed beyond its end", ErrorCode.TRUST)
            self._check_extends(label, head, (cover.size, cover.root))
        if known is None or known.checkpoint_seq != checkpoint.upto_seq:
            self._check_extends(label, (checkpoint.upto_seq, checkpoint.mmr_root), head)
        if known is not None:
            self._check_extends(label, (known.seq, known.root), head)
        return VerifiedHead(receipt=receipt, checkpoint=checkpoint)

    def _check_extends(self, label: Label, old: tuple[int, bytes], new: tuple[int, bytes]) -> None:
        """Raise V.EQUIVOCATION unless the new signed log begins with the old one."""
        (old_seq, old_root), (new_seq, new_root) = old, new
        if old_seq == new_seq and old_root == new_root:
            return
        said = f"{old_seq} root {old_root.hex()} and {new_seq} root {new_root.hex()}"
        if new_seq <= old_seq:
            raise ProofError(f"the log went back or split: {said}", ErrorCode.EQUIVOCATION)
        query = {"label": label.hex(), "from_size": str(old_seq), "to_size": str(new_seq)}
        answer = self._http.call(Call(method="GET", path="/consistency", query=query))
        try:
            ConsistencyProof.decode(answer.body).verify(
                old_root, new_root, from_size=old_seq, to_size=new_seq
            )
        except VeenError as refusal:
            raise ProofError(
                f"no proof that the log only grew: {said}", ErrorCode.EQUIVOCATION
            ) from refusal

    def _rotations(self) -> list[bytes]:
        body = self._http.call(Call(method="GET", path="/rotations")).body
        return cbor.split_sequence(body, items_max=ROTATIONS_MAX)

    def _manifest(self, manifest_id: ManifestId) -> bytes:
        query = {"id": manifest_id.hex()}
        return self._http.call(Call(method="GET", path="/manifest", query=query)).body


def _choose(checkpoints: Iterable[Checkpoint], known: Mapping[Label, Position]) -> list[Checkpoint]:
    """New labels first, then the longest unseen: every label gets its turn."""
    by_label = {checkpoint.label_curr: checkpoint for checkpoint in checkpoints}
    new = [checkpoint for label, checkpoint in by_label.items() if label not in known]
    seen = [by_label[label] for label in known if label in by_label]
    return [*new, *seen][:LABELS_PER_LOOK_MAX]


def _check_growth(older: Manifest, newer: Manifest) -> None:
    """Labels never disappear, and no checkpoint goes back."""
    for checkpoint in older.checkpoints:
        now = newer.checkpoint(checkpoint.label_curr)
        if now is None or now.upto_seq < checkpoint.upto_seq:
            detail = f"label {checkpoint.label_curr.hex()} shrank between two manifests"
            raise ProofError(detail, ErrorCode.EQUIVOCATION)


def _observe(refusal: VeenError, name: str) -> Observation:
    return Observation(code=refusal.code, object=name, detail=refusal.detail)
