"""Offline verification of a replay: every receipt, message, position and root [SDR0 3.2.5, 3.4].

For each event, alone:
 1 RECEIPT and MSG are well formed, ct_hash is that of the ciphertext, the leaf is recomputed
 2 MSG.sig is its client_id's, RECEIPT's signature a pinned hub key's
 3 what the line says of sequence, time, principal and receipt is what the two objects say
 4 the proof puts the leaf at its sequence under the manifest's checkpoint
In order:
 5 sequences follow each other, streams and times never go back, nothing is outside what was asked
 6 the reader's own tree gives the root of every receipt, from the first proof on
 7 a superseded hub key counts only up to the manifest that ended it
The plain fields of an event are the server's word unless the stream's reader secrets are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from hub import mmr
from hub.authoring import ReaderSecret
from hub.crypto import signing
from hub.crypto.signing import Signed
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import HubId, Label, PublicKey
from hub.verify_report import Pins
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.proof import MmrProof
from hub.wire.proof_bytes import ProofWalk
from hub.wire.receipt import Receipt
from recorder.event import format_time
from recorder.projection import project, receipt_id
from recorder.replay_params import ReplayRange

Answer = Callable[[], bool]  # whether all signatures that were asked about verify


class EventLine(msgspec.Struct, kw_only=True):
    """One line of the answer as it was read; base64 is bytes already, payload still its text."""

    stream: str
    hub_commit_seq: int
    hub_commit_time: str
    subject_id: str | None
    principal_id: str
    event_type: str | None
    event_time: str | None
    origin: str | None
    payload: msgspec.Raw
    error: str | None
    receipt_id: str
    receipt: bytes
    msg: bytes | None = None
    proof: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An event that holds by itself, with what the checks in order need."""

    line: EventLine
    receipt: Receipt
    is_proven: bool
    signer: PublicKey


@lru_cache(maxsize=16)  # many events are committed within a second
def _time_of(hub_ts: int) -> str:
    return format_time(hub_ts * 1000)


def _read(line: EventLine) -> tuple[Receipt, Msg]:
    """Both objects of a line, bound to each other; no signature is looked at."""
    if line.msg is None:
        raise ProofError("the message itself is missing")
    receipt, msg = Receipt.decode(line.receipt), Msg.decode(line.msg)
    msg.check_ct_hash()
    if msg.label != receipt.label or msg.leaf_hash() != receipt.leaf_hash:
        raise ProofError("the receipt is for another message")
    return receipt, msg


def _signed(read: Sequence[tuple[Receipt, Msg]], signer: PublicKey) -> list[Signed]:
    """What has to be verified: all receipts by one key, and all messages."""
    signed: list[Signed] = []
    for receipt, msg in read:
        signed.append((signer, receipt.hub_sig, receipt.signing_hash()))
        signed.append((msg.client_id, msg.sig, msg.signing_hash()))
    return signed


def _verified_here(signed: Sequence[Signed]) -> Answer:
    return lambda: signing.are_valid(signed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The checks of one event alone; safe to use from several threads or processes."""

    pins: Pins
    manifest: Manifest | None
    hub_id: HubId | None = None
    secrets: Mapping[str, Sequence[ReaderSecret]] = field(default_factory=dict)

    def check(self, line: EventLine) -> Checked:
        """Raise unless everything that one event can show holds."""
        try:
            return self._check(line)
        except VeenError as refusal:
            where = f"{line.stream} {line.hub_commit_seq}: "
            raise ProofError(where + (refusal.detail or str(refusal)), refusal.code) from refusal

    def check_all(self, lines: Sequence[EventLine]) -> list[Checked]:
        """`check` for each of them."""
        return self.begin(lines, _verified_here)()

    def begin(
        self, lines: Sequence[EventLine], ask: Callable[[Sequence[Signed]], Answer]
    ) -> Callable[[], list[Checked]]:
        """`check_all` in two steps: between them `ask` has the signatures verified elsewhere.

        Where anything is wrong, or not signed by the key in use, every line is checked by itself
        and the first flaw is named.
        """
        if len(self.pins.active) != 1:
            return lambda: [self.check(line) for line in lines]
        (signer,) = self.pins.active
        try:
            read = [_read(line) for line in lines]
        except VeenError:
            return lambda: [self.check(line) for line in lines]
        answer = ask(_signed(read, signer))

        def finish() -> list[Checked]:
            try:
                if answer():
                    proofs = ProofWalk()
                    return [
                        self._checked(line, receipt, msg, signer, proofs)
                        for line, (receipt, msg) in zip(lines, read, strict=True)
                    ]
            except VeenError:
                pass
            return [self.check(line) for line in lines]

        return finish

    def _check(self, line: EventLine) -> Checked:
        receipt, msg = _read(line)
        msg.verify()
        return self._checked(line, receipt, msg, self.pins.signer(receipt), ProofWalk())

    def _checked(
        self, line: EventLine, receipt: Receipt, msg: Msg, signer: PublicKey, proofs: ProofWalk
    ) -> Checked:
        """What is left to check once both signatures hold."""
        said = (line.hub_commit_seq, line.hub_commit_time, line.principal_id, line.receipt_id)
        shown = (
            receipt.stream_seq,
            _time_of(receipt.hub_ts),
            msg.client_id.hex(),
            receipt_id(receipt.leaf_hash),
        )
        if said != shown:
            raise ProofError("the line says other than its receipt and message")
        if line.stream in self.secrets:
            self._check_content(line)
        is_proven = self._is_proven(line, receipt, proofs)
        return Checked(line=line, receipt=receipt, is_proven=is_proven, signer=signer)

    def checkpoint(self, label: Label) -> Checkpoint | None:
        """What the manifest says of a label."""
        return None if self.manifest is None else self.manifest.checkpoint(label)

    def _is_proven(self, line: EventLine, receipt: Receipt, proofs: ProofWalk) -> bool:
        checkpoint = self.checkpoint(receipt.label)
        if checkpoint is None or receipt.stream_seq > checkpoint.upto_seq:
            if line.proof is not None:
                raise ProofError("a proof against nothing")
            return False
        if line.proof is None:
            raise ProofError("no proof, though the manifest covers it")
        proofs.check(
            line.proof,
            leaf_hash=receipt.leaf_hash,
            stream_seq=receipt.stream_seq,
            mmr_size=checkpoint.upto_seq,
            root=checkpoint.mmr_root,
        )
        return True

    def _check_content(self, line: EventLine) -> None:
        assert line.msg is not None
        row = project(
            line.msg,
            line.receipt,
            stream=line.stream,
            hub_id=self.hub_id or HubId(bytes(32)),
            secrets=self.secrets[line.stream],
        )
        opened = (
            row.subject_id, row.event_type, row.origin, row.payload_text,
            None if row.event_time is None else format_time(row.event_time),
            None if row.error is None else row.error.value,
        )  # fmt: skip
        payload = None if line.error is not None else bytes(line.payload).decode()
        said = (
            line.subject_id, line.event_type, line.origin, payload, line.event_time, line.error,
        )  # fmt: skip
        if opened != said:
            raise ProofError("the opened message says other than the line")


@dataclass(slots=True)
class _StreamWalk:
    label: Label
    last: Receipt
    first_seq: int
    peaks: list[bytes] | None


class Walk:
    """The checks that need the order of events; memory grows with streams, not with events."""

    def __init__(
        self,
        asked: ReplayRange,
        judge: Judge,
        *,
        labels: Mapping[str, Label],
        ends: Mapping[PublicKey, Manifest],
    ) -> None:
        self._asked = asked
        self._judge = judge
        self._labels = dict(labels)
        self._ends = ends
        self._streams: dict[str, _StreamWalk] = {}
        self._current: str | None = None
        self.count = 0
        self.unproven = 0

    def take(self, one: Checked) -> None:
        """Raise unless this event may follow what came before."""
        where = f"{one.line.stream} {one.receipt.stream_seq}"
        try:
            self._check_asked(one)
            walk = self._step(one)
            self._check_root(walk, one)
            self._check_signer(one)
        except VeenError as refusal:
            raise ProofError(f"{where}: {refusal.detail}", refusal.code) from refusal
        walk.last = one.receipt
        self.count += 1
        self.unproven += not one.is_proven

    def _check_asked(self, one: Checked) -> None:
        asked, seq, commit_ms = self._asked, one.receipt.stream_seq, one.receipt.hub_ts * 1000
        if one.line.stream not in asked.streams:
            raise ProofError("an event of a stream nobody asked for")
        is_outside = (
            (asked.from_seq is not None and seq < asked.from_seq)
            or (asked.to_seq is not None and seq > asked.to_seq)
            or (asked.start_ms is not None and commit_ms < asked.start_ms)
            or (asked.end_ms is not None and commit_ms > asked.end_ms)
        )
        if is_outside:
            raise ProofError("an event outside what was asked for")

    def _step(self, one: Checked) -> _StreamWalk:
        name, receipt = one.line.stream, one.receipt
        if name == self._current:
            walk = self._streams[name]
            if receipt.label != walk.label:
                raise ProofError("the label changes within the stream")
            if receipt.stream_seq != walk.last.stream_seq + 1:
                raise ProofError(f"follows {walk.last.stream_seq}: something was left out")
            if receipt.hub_ts < walk.last.hub_ts:
                raise ProofError("hub_ts goes backwards")
            return walk
        if self._current is not None and name.encode() <= self._current.encode():
            raise ProofError("streams are out of order")
        if self._labels.get(name, receipt.label) != receipt.label:
            raise ProofError("not the label that this stream has")
        if any(walk.label == receipt.label for walk in self._streams.values()):
            raise ProofError("two streams share one label")
        self._current = name
        walk = self._streams[name] = _StreamWalk(
            label=receipt.label, last=receipt, first_seq=receipt.stream_seq, peaks=None
        )
        return walk

    def _check_root(self, walk: _StreamWalk, one: Checked) -> None:
        receipt = one.receipt
        if walk.peaks is None and receipt.stream_seq == 1:
            walk.peaks = []
        elif walk.peaks is None and one.is_proven:
            checkpoint = self._judge.checkpoint(receipt.label)
            assert checkpoint is not None
            assert one.line.proof is not None
            proof = MmrProof.decode(one.line.proof)
            walk.peaks = mmr.peaks_before(proof, receipt.stream_seq, checkpoint.upto_seq)
        if walk.peaks is None:
            return  # Above the manifest and not from the start: only the hub's word for its root.
        mmr.append(walk.peaks, receipt.stream_seq - 1, receipt.leaf_hash)
        if mmr.root(walk.peaks) != receipt.mmr_root:
            raise ProofError("mmr_root does not follow from the log before it")

    def _check_signer(self, one: Checked) -> None:
        if one.signer in self._judge.pins.active:
            return
        last = self._ends.get(one.signer)
        checkpoint = None if last is None else last.checkpoint(one.receipt.label)
        # Leaf, place and root are the active key's word through the proof; of the old key only
        # hub_ts is believed, and only where it could still sign.
        if not one.is_proven or checkpoint is None:
            raise ProofError("signed by a superseded key without its end", ErrorCode.TRUST)
        if one.receipt.stream_seq > checkpoint.upto_seq:
            raise ProofError("signed by a superseded key after its end", ErrorCode.TRUST)

    def range_of(self, stream: str) -> tuple[Label, int, Receipt] | None:
        """Label, first sequence and last RECEIPT of a stream; None when it had no events."""
        walk = self._streams.get(stream)
        return None if walk is None else (walk.label, walk.first_seq, walk.last)
