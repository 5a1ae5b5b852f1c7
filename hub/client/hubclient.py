"""The client side of the data plane: every answer is checked before it is believed [SSOT 9]."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hub.client.batch import batch_answers, batch_call
from hub.client.chain import KeyChain
from hub.client.follow import Follower, mmr_headers
from hub.client.heads import EquivocationError, HeadStore, keep_evidence
from hub.client.http import CBOR, OCTETS, Answer, Call, HubHttp
from hub.client.outbox import Outbox
from hub.client.producer import Producer
from hub.crypto.hashing import ATT_PUT, h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.limits import DEFAULT as LIMITS
from hub.storage.disk import Disk
from hub.streamitem import StreamItem
from hub.types import (
    AuthRef,
    ClientId,
    Hash,
    HubId,
    Label,
    LeafHash,
    ManifestId,
    PublicKey,
    UnixSeconds,
)
from hub.wire import cbor
from hub.wire.captoken import CapToken
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.proof import ConsistencyProof, MmrProof, RangeProof
from hub.wire.receipt import Receipt

if TYPE_CHECKING:
    from ssl import SSLContext


class HubClient:
    """Talks to one hub whose key is pinned; without a pinned key there is no client.

    With a state directory it remembers what it verified of each label and keeps outboxes there;
    without one both live in memory, which is for tests and throw-away readers. parent_keys are
    those of the log this one was forked from; they count up to the heads its fork record names.
    """

    def __init__(
        self,
        url: str,
        hub_pk: PublicKey,
        *,
        state_dir: Path | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
        hub_id: HubId | None = None,
        parent_keys: Sequence[PublicKey] = (),
        ssl_context: SSLContext | None = None,
    ) -> None:
        if not hub_pk:
            raise VeenError(ErrorCode.TRUST, "no pinned hub key; nothing is trusted on first use")
        self.http = HubHttp(url, token=token, timeout_s=timeout_s, ssl_context=ssl_context)
        self._state_dir = state_dir
        if state_dir is not None:
            Disk().mkdir(state_dir)
        self.heads = HeadStore(None if state_dir is None else state_dir / "heads")
        self.chain = KeyChain(
            hub_pk,
            fetch_rotations=self.rotations,
            fetch_manifest=self._manifest_bytes,
            hub_id=hub_id,
        )
        self.chain.trust_parent(parent_keys)
        if state_dir is not None:
            try:
                self._check_pin(state_dir / "hub.pin")
            except VeenError:
                self.http.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Save what was verified and drop the connection."""
        try:
            self.heads.save()
        finally:
            self.http.close()

    def _check_pin(self, path: Path) -> None:
        """A state directory belongs to the log it was first used with, through its rotations."""
        pinned = self.chain.pinned.hex()
        kept = path.read_text("ascii", errors="replace").strip() if path.exists() else None
        if kept == pinned:
            return
        if kept is not None:
            self.chain.refresh()
            if kept not in {key.hex() for key in self.chain.keys}:
                detail = f"{path.parent} belongs to the hub {kept[:16]}..., not {pinned[:16]}..."
                raise VeenError(ErrorCode.TRUST, detail)
        Disk().write_atomic(path, pinned.encode() + b"\n")

    # -- writing ------------------------------------------------------------------------------

    def producer(
        self,
        key: SigningKey,
        *,
        auth_ref: AuthRef | None = None,
        retries_max: int = 6,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> Producer:
        """The right to author with this key, held until closed; S.LOCKED when another holds it."""
        folder = None if self._state_dir is None else self._state_dir / "outbox"
        outbox = Outbox(folder, ClientId(key.public))
        return Producer(
            self,
            key,
            outbox,
            auth_ref=auth_ref,
            retries_max=retries_max,
            sleep=sleep,
            now=now,
        )

    def send_batch(self, messages: Sequence[bytes]) -> Iterator[Receipt | VeenError]:
        """Submit MSG bytes in one request; item i answers message i. Checks no receipt."""
        if not messages:
            return
        if len(messages) == 1:
            yield from self.send_pipelined(messages)
            return
        yield from batch_answers(self.http.call(batch_call(messages)).body, len(messages))

    def send_pipelined(self, messages: Sequence[bytes]) -> Iterator[Receipt | VeenError]:
        """Submit MSG bytes as single requests sent back to back, answers in order."""
        calls = [
            Call(method="POST", path="/submit", body=message, content_type=CBOR)
            for message in messages
        ]
        window = 32  # more would fill both sockets' buffers while nobody reads
        for start in range(0, len(calls), window):
            for answer in self._pipeline(calls[start : start + window]):
                yield answer if isinstance(answer, VeenError) else Receipt.decode(answer.body)

    def _pipeline(self, calls: Sequence[Call]) -> Iterator[Answer | VeenError]:
        if len(calls) > 1:
            yield from self.http.pipeline(calls)
            return
        try:
            yield self.http.call(calls[0])
        except VeenError as refusal:
            if refusal.code in (ErrorCode.UNREACHABLE, ErrorCode.PROTOCOL):
                raise
            yield refusal

    def check_own_receipt(
        self,
        receipt: Receipt,
        label: Label,
        leaf_hash: LeafHash,
        signer: PublicKey | None = None,
    ) -> None:
        """Raise unless a trusted key promises a place in this label to exactly our leaf."""
        if receipt.label != label or receipt.leaf_hash != leaf_hash:
            raise ProofError("the receipt is for another message")
        self.check_receipt(receipt, signer)

    def check_receipt(self, receipt: Receipt, signer: PublicKey | None = None) -> None:
        """Raise unless signed by a trusted key and in one log with what is known of its label.

        `signer` is the key of the log under which the caller has verified it already.
        """
        if signer is None:
            signer = self.chain.signer(receipt)
        if not self.chain.is_current(signer):
            self._check_covered(receipt)
        self._observe(receipt)

    def _observe(self, receipt: Receipt) -> None:
        try:
            self.heads.observe(receipt)
        except EquivocationError as found:
            self.keep(receipt.label, found)
            raise

    def keep(self, label: Label, found: EquivocationError) -> None:
        """Store both statements as evidence, where this client has a state directory."""
        folder = None if self._state_dir is None else self._state_dir / "evidence"
        keep_evidence(folder, label, found)

    def _check_covered(self, receipt: Receipt) -> None:
        """A superseded key counts only under the statement that ended it."""
        cover = self.chain.cover(receipt.label, receipt.stream_seq)
        if cover is None:
            detail = "signed by a superseded key beyond the manifest that ended it"
            raise ProofError(detail, ErrorCode.TRUST)
        proof, _, _ = self.proof(receipt.label, receipt.stream_seq, size=cover.size)
        if proof.leaf_hash != receipt.leaf_hash:
            raise ProofError("the receipt names another leaf than the log", ErrorCode.TRUST)
        proof.verify(stream_seq=receipt.stream_seq, mmr_size=cover.size, root=cover.root)

    def authorize(self, token: CapToken) -> tuple[AuthRef, UnixSeconds]:
        """Have a capability admitted; returns auth_ref and expires_at."""
        call = Call(method="POST", path="/authorize", body=token.encode())
        found = cbor.decode(self.http.call(call).body)
        if not isinstance(found, Mapping):
            raise WireError("the answer of /authorize is not a map")
        fields = {str(name): value for name, value in found.items()}
        auth_ref, expires_at = fields.get("auth_ref"), fields.get("expires_at")
        if auth_ref != token.auth_ref() or not isinstance(expires_at, int):
            raise WireError("the answer of /authorize is about another token")
        return token.auth_ref(), UnixSeconds(expires_at)

    def put_attachment(
        self, sealed: bytes, *, key: SigningKey | None = None, auth_ref: AuthRef | None = None
    ) -> Hash:
        """Store a sealed attachment under its hash."""
        coid = Hash(h(sealed))
        headers = {}
        if key is not None and auth_ref is not None:
            signature = key.sign(ATT_PUT(auth_ref, coid))
            headers = {"Veen-Auth-Ref": auth_ref.hex(), "Veen-Sig": signature.hex()}
        self.http.call(
            Call(
                method="PUT",
                path=f"/attachment/{coid.hex()}",
                body=sealed,
                content_type=OCTETS,
                headers=headers,
            )
        )
        return coid

    def report_equivocation(self, ours: Receipt, theirs: Receipt) -> None:
        """Hand two contradicting receipts to the hub's own findings."""
        body = b"\x82" + ours.encode() + theirs.encode()
        self.http.call(Call(method="POST", path="/report_equivocation", body=body))

    # -- reading; what comes back is parsed, and verified where it says so ----------------------

    def get(self, path: str, **query: str | int | None) -> Answer:
        """A read of the data plane."""
        texts = {name: str(value) for name, value in query.items() if value is not None}
        return self.http.call(Call(method="GET", path=path, query=texts))

    def profile(self) -> dict[str, object]:
        """What the hub says of itself; nothing of it is trusted."""
        found = cbor.decode(self.get("/profile").body)
        if not isinstance(found, Mapping):
            raise WireError("/profile is not a map")
        return {str(name): value for name, value in found.items()}

    def rotations(self) -> list[bytes]:
        """Rotation and fork records as bytes; the chain judges them."""
        answer = self.get("/rotations")
        return cbor.split_sequence(answer.body, items_max=LIMITS.stream_limit_max)

    def head(self, label: Label) -> Receipt:
        """The newest RECEIPT of a label, verified."""
        return self._checked(self.get("/head", label=label.hex()), label)

    def receipt(self, label: Label, stream_seq: int) -> Receipt:
        """The RECEIPT at one place, verified."""
        receipt = self._checked(self.get("/receipt", label=label.hex(), seq=stream_seq), label)
        if receipt.stream_seq != stream_seq:
            raise ProofError("the receipt is for another sequence")
        return receipt

    def receipt_by_leaf(self, leaf_hash: LeafHash) -> Receipt:
        """The RECEIPT of a leaf, parsed only: the caller knows which label it must be of."""
        return Receipt.decode(self.get("/receipt", leaf_hash=leaf_hash.hex()).body)

    def _checked(self, answer: Answer, label: Label) -> Receipt:
        receipt = Receipt.decode(answer.body)
        if receipt.label != label:
            raise ProofError("the receipt is of another label")
        self.check_receipt(receipt)
        return receipt

    def proof(
        self, label: Label, stream_seq: int, *, size: int | None = None
    ) -> tuple[MmrProof, int, bytes]:
        """An inclusion proof with the size and root it claims; not verified."""
        answer = self.get("/proof", label=label.hex(), seq=stream_seq, size=size)
        mmr_size, root = mmr_headers(answer.headers)
        return MmrProof.decode(answer.body), mmr_size, root

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        """A consistency proof; not verified."""
        answer = self.get("/consistency", label=label.hex(), from_size=from_size, to_size=to_size)
        return ConsistencyProof.decode(answer.body)

    def range_proof(
        self, label: Label, first: int, last: int, *, size: int | None = None
    ) -> RangeProof:
        """A range proof; not verified."""
        query: dict[str, str | int | None] = {"from": first, "to": last, "size": size}
        return RangeProof.decode(self.get("/range_proof", label=label.hex(), **query).body)

    def checkpoint_latest(self, label: Label) -> Checkpoint:
        """The newest CHECKPOINT of a label, its signature verified."""
        checkpoint = Checkpoint.decode(self.get("/checkpoint_latest", label=label.hex()).body)
        if checkpoint.label_curr != label:
            raise ProofError("the checkpoint is of another label")
        self.chain.signer(checkpoint)
        return checkpoint

    def manifest(self, manifest_id: ManifestId | None = None) -> Manifest:
        """A checkpoint manifest, verified under a key of the log."""
        if manifest_id is None:
            data = self.get("/manifest_latest").body
        else:
            data = self._manifest_bytes(manifest_id)
        manifest = Manifest.decode(data)
        if manifest_id is not None and manifest.id != manifest_id:
            raise ProofError("the manifest has another id")
        self.chain.refresh()
        if manifest.hub_pk not in self.chain.keys:
            raise ProofError("the manifest is of a key that is not trusted", ErrorCode.TRUST)
        manifest.verify(manifest.hub_pk)
        return manifest

    def _manifest_bytes(self, manifest_id: ManifestId) -> bytes:
        return self.get("/manifest", id=manifest_id.hex()).body

    def follow(
        self,
        label: Label,
        from_seq: int = 1,
        *,
        verify: bool = True,
        with_proof: bool = False,
        to_seq: int | None = None,
        poll_s: float | None = None,
        page: int = 500,
    ) -> Iterator[StreamItem]:
        """The messages of a label in order, each verified against the log before it.

        Ends at to_seq or at the head; with poll_s it asks again after so many seconds, for ever.
        """
        follower = Follower(self, label, verify=verify, with_proof=with_proof, page=page)
        return follower.run(from_seq, to_seq=to_seq, poll_s=poll_s)

    def attachment(self, coid: Hash) -> bytes:
        """A sealed attachment whose hash was checked."""
        sealed = self.get(f"/attachment/{coid.hex()}").body
        if h(sealed) != coid:
            raise ProofError("the attachment's bytes do not have this coid")
        return sealed
