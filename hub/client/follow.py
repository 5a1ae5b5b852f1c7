"""Read a label in order and believe nothing: own MMR, own order, own keys [RESYNC0.2].

The reader keeps the peaks of the prefix it has seen, so every RECEIPT's root is recomputed (I3) and
no proof is needed from the hub. It starts from its stored head, from the empty log, or from one
receipt with its proof, which together hold all peaks of that size.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from hub import mmr
from hub.client.chain import Cover
from hub.client.heads import EquivocationError, LabelHead, check_successor
from hub.client.http import Call, HubHttp
from hub.errors import ErrorCode, ProofError, VeenError, WireError
from hub.streamitem import StreamItem
from hub.types import ClientId, Label
from hub.wire.msg import Msg
from hub.wire.proof import MmrProof, node_hash
from hub.wire.receipt import Receipt

if TYPE_CHECKING:
    from hub.client.hubclient import HubClient

_CLIENTS_WATCHED_MAX: Final = 4096  # client_seq is watched (I9) for so many clients at a time


class Follower:
    """One reader of one label; memory does not grow with what it reads."""

    def __init__(
        self, client: HubClient, label: Label, *, verify: bool, with_proof: bool, page: int
    ) -> None:
        self._client = client
        self._label = label
        self._verify = verify
        self._with_proof = with_proof
        self._page = page
        self._http: HubHttp = client.http.another()
        self._head: LabelHead | None = None  # the prefix before the next item
        self._client_seqs: OrderedDict[ClientId, int] = OrderedDict()

    def run(
        self, from_seq: int, *, to_seq: int | None, poll_s: float | None
    ) -> Iterator[StreamItem]:
        """Items from from_seq on; what was verified is remembered when the caller moves on."""
        if from_seq < 1 or (to_seq is not None and to_seq < from_seq):
            raise VeenError(ErrorCode.FORMAT, f"no range {from_seq}..{to_seq}")
        try:
            if self._verify:
                self._client.chain.refresh()
                self._head = self._prefix(from_seq - 1)
            next_seq = from_seq
            while to_seq is None or next_seq <= to_seq:
                start, promised = next_seq, self._promised()
                for item in self._read_pages(next_seq):
                    if item.receipt.stream_seq == to_seq:
                        self._check_known_extends()
                    yield item
                    next_seq = item.receipt.stream_seq + 1
                    if next_seq - 1 == to_seq:
                        break
                if next_seq > start:
                    self._remember()
                    continue
                if promised >= next_seq:  # what came in meanwhile is no promise we asked about
                    raise ProofError(f"the hub has signed {promised} and ends before it")
                if poll_s is None:
                    return
                else:
                    time.sleep(poll_s)
        finally:
            self._remember()
            self._http.close()

    def _remember(self) -> None:
        head = self._head
        if head is None or not self._verify:
            return
        known = self._client.heads.get(self._label)
        self._client.heads.put(self._label, head if known is None else known.merged(head))
        self._client.heads.save()

    # -- where to start, and what must come of it ---------------------------------------------

    def _prefix(self, size: int) -> LabelHead | None:
        """A verified head of exactly `size`, consistent with all that was known before."""
        if size == 0:
            return None
        known = self._client.heads.get(self._label)
        if known is not None and known.size == size and known.has_peaks():
            assert known.prefix is not None
            return LabelHead.of_prefix(known.prefix, known.peaks)
        receipt = self._client.receipt(self._label, size)
        proof, _, _ = self._client.proof(self._label, size, size=size)
        head = head_from_proof(receipt, proof)
        if known is not None:
            for ours in known.statements:
                self._check_one_log(ours, receipt)
        return head

    def _check_known_extends(self) -> None:
        """A range that ends before what is known must still be a part of it."""
        known = self._client.heads.get(self._label)
        if self._head is None or known is None:
            return
        for ours in known.statements:
            self._check_one_log(ours, self._head.receipt)

    def _promised(self) -> int:
        """The highest sequence the hub has signed; a log that ends before it hides the rest."""
        known = self._client.heads.get(self._label) if self._verify else None
        return 0 if known is None else known.last_stream_seq

    def _check_one_log(self, ours: Receipt, theirs: Receipt) -> None:
        """Raise unless one of two signed roots is that of a prefix of the other's log."""
        old, new = sorted((ours, theirs), key=lambda one: one.stream_seq)
        if old.stream_seq == new.stream_seq:
            return  # compared when the second was taken
        proof = self._client.consistency(self._label, old.stream_seq, new.stream_seq)
        try:
            proof.verify(
                old.mmr_root, new.mmr_root, from_size=old.stream_seq, to_size=new.stream_seq
            )
        except ProofError as refusal:
            self._diverged(f"no consistency proof: {refusal.detail}", ours, theirs)

    def _diverged(self, detail: str, ours: Receipt, theirs: Receipt) -> None:
        found = EquivocationError(detail, ours.encode(), theirs.encode())
        self._client.keep(self._label, found)
        raise found

    # -- pages --------------------------------------------------------------------------------

    def _read_pages(self, from_seq: int) -> Iterator[StreamItem]:
        """Up to the head, or up to the end of a superseded key, page by page."""
        cover = self._client.chain.cover(self._label, from_seq) if self._verify else None
        query: Mapping[str, str] = self._query(from_seq, cover)
        while True:
            call = Call(method="GET", path="/stream", query=query)
            try:
                headers, items = self._http.items(call)
            except VeenError as refusal:
                if _is_past_the_head(refusal):
                    return
                raise
            size, root = mmr_headers(headers) if "veen-mmr-size" in headers else (0, b"")
            expected = int(query["from"])
            proven_under = self._signed_root(size, root, cover) if self._verify else None
            for data in items:
                item = replace(StreamItem.decode(data), mmr_size=size)
                if self._verify:
                    self._check(item, expected, proven_under, cover)
                yield item
                expected += 1
            following = next_query(headers.get("link", ""))
            if following is None:
                return
            if int(following.get("from", "0")) != expected:
                raise ProofError("the next page does not start where this one ended")
            query = following

    def _query(self, from_seq: int, cover: Cover | None) -> dict[str, str]:
        query = {"label": self._label.hex(), "from": str(from_seq), "limit": str(self._page)}
        if self._with_proof or cover is not None:
            query["with_proof"] = "1"
        if cover is not None:
            query["upto"] = str(cover.size)
        return query

    def _signed_root(self, size: int, root: bytes, cover: Cover | None) -> bytes | None:
        """The root that this page's proofs are against, once somebody trusted has signed it."""
        if cover is not None:
            return cover.root
        if not self._with_proof or size == 0:
            return None
        receipt = self._client.receipt(self._label, size)
        if receipt.mmr_root != root:
            raise ProofError("Veen-Mmr-Root is not the signed root of that size")
        return root

    # -- one item -----------------------------------------------------------------------------

    def _check(
        self, item: StreamItem, expected: int, root: bytes | None, cover: Cover | None
    ) -> None:
        receipt, msg = item.receipt, item.msg
        if receipt.stream_seq != expected:
            raise ProofError(f"sequence {receipt.stream_seq} where {expected} was due")
        if receipt.label != self._label or msg.label != self._label:
            raise ProofError(f"sequence {expected} is of another label")
        msg.check_ct_hash()  # I1
        if msg.leaf_hash() != receipt.leaf_hash:  # I2
            raise ProofError(f"the receipt of {expected} is not for this message")
        msg.verify()
        if msg.prev_ack >= receipt.stream_seq:  # I6
            raise ProofError(f"prev_ack of {expected} is beyond its own place")
        self._check_client_seq(msg)
        if root is not None:
            self._check_proof(item, root)
        self._check_signer(receipt, cover)
        self._append(receipt)

    def _check_client_seq(self, msg: Msg) -> None:
        last = self._client_seqs.pop(msg.client_id, None)
        if last is not None and msg.client_seq != last + 1:  # I8, I9
            raise ProofError(f"client_seq {msg.client_seq} follows {last}")
        self._client_seqs[msg.client_id] = msg.client_seq
        if len(self._client_seqs) > _CLIENTS_WATCHED_MAX:
            self._client_seqs.popitem(last=False)

    def _check_proof(self, item: StreamItem, root: bytes) -> None:
        if item.proof is None or item.proof.leaf_hash != item.receipt.leaf_hash:
            raise ProofError(f"no proof for the leaf of {item.receipt.stream_seq}")
        item.proof.verify(stream_seq=item.receipt.stream_seq, mmr_size=item.mmr_size, root=root)

    def _check_signer(self, receipt: Receipt, cover: Cover | None) -> None:
        chain = self._client.chain
        signer = chain.signer(receipt)
        # Under a cover the proof above has shown that the leaf is in the log the old key ended.
        if not chain.is_current(signer) and cover is None:
            detail = f"{receipt.stream_seq} is signed by a superseded key beyond its last manifest"
            raise ProofError(detail, ErrorCode.TRUST)

    def _append(self, receipt: Receipt) -> None:
        """I3: the root must be ours; then compare with the head that was known before."""
        peaks = [] if self._head is None else list(self._head.peaks)
        mmr.append(peaks, receipt.stream_seq - 1, receipt.leaf_hash)
        if mmr.root(peaks) != receipt.mmr_root:
            detail = f"mmr_root of {receipt.stream_seq} does not extend the log before it"
            if self._head is None:
                raise ProofError(detail)
            self._diverged(detail, self._head.receipt, receipt)
        try:
            check_successor(self._head, receipt)
            check_successor(self._client.heads.get(self._label), receipt)
        except EquivocationError as found:
            self._client.keep(self._label, found)
            raise
        self._head = LabelHead.of_prefix(receipt, peaks)


def head_from_proof(receipt: Receipt, proof: MmrProof) -> LabelHead:
    """All peaks of a log, from its last receipt and the proof of its last leaf.

    The last leaf stands in the lowest tree, so folding its path gives the lowest peak and
    peaks_after are all the others.
    """
    size = receipt.stream_seq
    if proof.leaf_hash != receipt.leaf_hash:
        raise ProofError("the proof is of another leaf than the receipt")
    proof.verify(stream_seq=size, mmr_size=size, root=receipt.mmr_root)
    lowest: bytes = proof.leaf_hash
    for step in proof.path:
        lowest = node_hash(step.sib, lowest)
    peaks = (*reversed(proof.peaks_after), lowest)
    return LabelHead.of_prefix(receipt, peaks)


def next_query(link: str) -> dict[str, str] | None:
    """The query of `Link: <...>; rel="next"`, or None when this page was the last."""
    for part in link.split(","):
        target, _, parameters = part.strip().partition(";")
        if 'rel="next"' in parameters and target.startswith("<") and target.endswith(">"):
            return dict(parse_qsl(urlsplit(target[1:-1]).query))
    return None


def mmr_headers(headers: Mapping[str, str]) -> tuple[int, bytes]:
    """`Veen-Mmr-Size` and `Veen-Mmr-Root`; unsigned, so only a claim to check."""
    size, root = headers.get("veen-mmr-size", ""), headers.get("veen-mmr-root", "")
    if not (size.isascii() and size.isdigit() and len(size) <= 20 and len(root) == 64):
        raise WireError("Veen-Mmr-Size or Veen-Mmr-Root is missing")
    try:
        return int(size), bytes.fromhex(root)
    except ValueError as flaw:
        raise WireError("Veen-Mmr-Root is not hex") from flaw


def _is_past_the_head(refusal: VeenError) -> bool:
    """A label without messages, or a range that starts behind its head, is simply empty so far."""
    return refusal.code is ErrorCode.NOTFOUND
