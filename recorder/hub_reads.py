"""What the web process asks the hub, with its read token; every statement is verified [SSOT 5.2].

The pinned key comes from the realm's trust file, never from an answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

from hub.client.chain import KeyChain
from hub.client.follow import next_query
from hub.client.http import Call, HubHttp
from hub.errors import ErrorCode, ProofError, VeenError
from hub.services import HUB_TIMEOUT_S, hub_connection
from hub.types import HubId, Label, ManifestId
from hub.wire import cbor
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from recorder.codes import RecordCode, RecordError

ROTATIONS_MAX: Final = 10_000
HEADS_AT_ONCE_MAX: Final = 32  # more would fill both sockets' buffers while nobody reads
MANIFESTS_KEPT_MAX: Final = 8
PROOFS_PER_PAGE: Final = 1_000
RETRY_AFTER_S: Final = 5


def hub_unavailable(reason: str = "The hub cannot be reached.") -> RecordError:
    """503, and when to come back."""
    return RecordError(RecordCode.HUB_UNAVAILABLE, reason, retry_after_s=RETRY_AFTER_S)


class _Verified:
    """The last few manifests that verified, so that a busy route does not check them again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[HubId, ManifestId], Manifest] = OrderedDict()

    def get(self, hub_id: HubId, manifest_id: ManifestId) -> Manifest | None:
        with self._lock:
            return self._found.get((hub_id, manifest_id))

    def put(self, hub_id: HubId, manifest: Manifest) -> None:
        with self._lock:
            self._found[hub_id, manifest.id] = manifest
            while len(self._found) > MANIFESTS_KEPT_MAX:
                self._found.popitem(last=False)


_VERIFIED: Final = _Verified()


class HubReads:
    """One connection to the hub of this bundle for the length of a request."""

    def __init__(self) -> None:
        try:
            pin, url, token = hub_connection()
        except VeenError as missing:
            raise hub_unavailable() from missing
        self.hub_id = pin.hub_id
        self._http = HubHttp(url, token=token, timeout_s=HUB_TIMEOUT_S)
        self._chain = KeyChain(
            pin.hub_pk,
            fetch_rotations=self.rotations,
            fetch_manifest=self._manifest_bytes,
            hub_id=pin.hub_id,
        )
        self._is_fresh = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def rotations(self) -> list[bytes]:
        """Rotation and fork records as the hub keeps them."""
        answer = self._http.call(Call(method="GET", path="/rotations"))
        return cbor.split_sequence(answer.body, items_max=ROTATIONS_MAX)

    def heads(self, labels: Sequence[Label]) -> dict[Label, Receipt]:
        """The newest RECEIPT of each label that has any, signed by a key of this log."""
        found: dict[Label, Receipt] = {}
        for start in range(0, len(labels), HEADS_AT_ONCE_MAX):
            some = labels[start : start + HEADS_AT_ONCE_MAX]
            calls = [Call(method="GET", path="/head", query={"label": one.hex()}) for one in some]
            # All answers are read before one is judged: judging asks the same connection.
            answers = list(self._http.pipeline(calls))
            for label, answer in zip(some, answers, strict=True):
                if isinstance(answer, VeenError):
                    if answer.code is not ErrorCode.NOTFOUND:
                        raise answer
                    continue
                found[label] = self._checked_head(label, Receipt.decode(answer.body))
        return found

    def _checked_head(self, label: Label, receipt: Receipt) -> Receipt:
        if receipt.label != label:
            raise ProofError("the head is of another label")
        self._refresh()
        if self._chain.is_current(self._chain.signer(receipt)):
            return receipt
        cover = self._chain.cover(label, receipt.stream_seq)
        if cover is None or (cover.size, cover.root) != (receipt.stream_seq, receipt.mmr_root):
            raise ProofError("a superseded key signed beyond its end", ErrorCode.TRUST)
        return receipt

    def receipt(self, label: Label, stream_seq: int) -> Receipt:
        """The RECEIPT at one place, signed by a key of this log that could speak of it."""
        query = {"label": label.hex(), "seq": str(stream_seq)}
        answer = self._http.call(Call(method="GET", path="/receipt", query=query))
        receipt = Receipt.decode(answer.body)
        if receipt.label != label or receipt.stream_seq != stream_seq:
            raise ProofError("another receipt than the one asked for")
        self._refresh()
        signer = self._chain.signer(receipt)
        if not self._chain.is_current(signer) and self._chain.cover(label, stream_seq) is None:
            raise ProofError("a superseded key signed beyond its end", ErrorCode.TRUST)
        return receipt

    def _refresh(self) -> None:
        if not self._is_fresh:
            self._chain.refresh()
            self._is_fresh = True

    def manifest(self, manifest_id: ManifestId | None = None) -> Manifest | None:
        """A manifest that verifies under a key of this log, the newest by default."""
        if manifest_id is not None:
            known = _VERIFIED.get(self.hub_id, manifest_id)
            if known is not None:
                return known
        try:
            if manifest_id is None:
                data = self._http.call(Call(method="GET", path="/manifest_latest")).body
            else:
                data = self._manifest_bytes(manifest_id)
        except VeenError as refusal:
            if refusal.code is ErrorCode.NOTFOUND:
                return None
            raise
        manifest = Manifest.decode(data)
        known = _VERIFIED.get(self.hub_id, manifest.id)
        if known is None:
            if manifest_id not in (None, manifest.id):
                raise ProofError("another manifest than the one asked for")
            self._refresh()
            if manifest.hub_pk not in self._chain.keys:
                raise ProofError("a manifest by no key of this log", ErrorCode.TRUST)
            manifest.verify(manifest.hub_pk)
            _VERIFIED.put(self.hub_id, manifest)
        return known or manifest

    def _manifest_bytes(self, manifest_id: ManifestId) -> bytes:
        query = {"id": manifest_id.hex()}
        return self._http.call(Call(method="GET", path="/manifest", query=query)).body

    def proven_items(self, label: Label, first: int, last: int, *, upto: int) -> Iterator[bytes]:
        """[RECEIPT, MSG, mmr_proof] of a range, proofs against size `upto`; not verified."""
        query = {
            "label": label.hex(), "from": str(first), "to": str(last), "upto": str(upto),
            "with_proof": "1", "limit": str(PROOFS_PER_PAGE),
        }  # fmt: skip
        following: dict[str, str] | None = query
        while following is not None:
            headers, items = self._http.items(Call(method="GET", path="/stream", query=following))
            yield from items
            following = next_query(headers.get("link", ""))


def labels_of(names: Iterable[str]) -> list[Label]:
    """Labels from their hex form in SQL."""
    return [Label(bytes.fromhex(one)) for one in names]
