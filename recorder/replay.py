"""Replay: events in order, with receipts and proofs against a checkpoint [SDR0 3.2.5].

(1) which streams the caller may read; (2) where the hub says they end, and the manifest to prove
against; (3) the lake is brought up to there; (4) a window becomes a range of sequences, because
commit times never go back within a stream; (5) rows come from the lake, proofs from the hub, line
by line, so that memory does not grow with the answer; (6) the last line says what was covered, so
that an answer that was cut is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa

from hub import streamitem
from hub.errors import ErrorCode, StoreError
from hub.types import HubId, Label
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from recorder.auth import Caller, check_readable
from recorder.codes import RecordCode, RecordError
from recorder.event import format_time
from recorder.hub_reads import HubReads
from recorder.lake.reader import (
    LakeSnapshot,
    first_at_or_after,
    open_snapshot,
    read_proofs,
    read_rows,
)
from recorder.lake_launcher import bring_lake_up_to, lake_behind
from recorder.models import Stream
from recorder.queries import label_of
from recorder.replay_params import ReplayRange

LAKE_TIMEOUT_S: Final = 45.0  # a cold start of Spark on a slow machine; clients wait for 60
PIECE_BYTES: Final = 65_536
_COLUMNS: Final = (
    "hub_commit_seq", "hub_commit_time", "subject_id", "principal_id", "event_type", "event_time",
    "origin", "payload_text", "error", "receipt_id", "leaf_hash",
)  # fmt: skip
_NULL: Final = msgspec.Raw(b"null")

_Values: TypeAlias = tuple[
    int, int, str | None, str, str | None, int | None, str | None, str | None, str | None, str,
    bytes,
]  # fmt: skip
_Evidence: TypeAlias = tuple[bytes, bytes | None, bytes | None]  # receipt, msg, proof


class Line(msgspec.Struct, kw_only=True):
    """One event of the answer; bytes become base64, payload is the canonical text itself."""

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


class ProvenLine(Line, kw_only=True):
    """The same with what a verifier needs; no proof for events above the manifest."""

    msg: bytes
    proof: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stream of a replay: what is sent of it, and what was looked at."""

    stream: str
    label: Label
    hub_id: HubId
    snapshot: LakeSnapshot | None
    first: int
    last: int
    from_seq: int
    to_seq: int
    root: str | None  # at to_seq
    proven_upto: int

    @property
    def count(self) -> int:
        """How many events are sent."""
        return max(0, self.last - self.first + 1)

    @property
    def unproven(self) -> int:
        """How many of them stand above the manifest."""
        return max(0, self.last - max(self.first, self.proven_upto + 1) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay whose every question was answered; what is left is reading."""

    parts: Sequence[Part]
    manifest: Manifest | None
    with_proofs: bool

    def pieces(self) -> Iterator[bytes]:
        """NDJSON in pieces of some lines each; the last line says what they are."""
        encoder = msgspec.json.Encoder()
        buffer = bytearray()
        for part in self.parts:
            for line in self._lines(part):
                encoder.encode_into(line, buffer, -1)
                buffer += b"\n"
                if len(buffer) >= PIECE_BYTES:
                    yield bytes(buffer)
                    buffer.clear()
        end = {
            "count": sum(part.count for part in self.parts),
            "coverage": [_covered(part) for part in self.parts],
            "manifest_id": None if self.manifest is None else self.manifest.id.hex(),
            "unproven": sum(part.unproven for part in self.parts) if self.with_proofs else None,
        }
        encoder.encode_into({"end": end}, buffer, -1)
        yield bytes(buffer) + b"\n"

    def _lines(self, part: Part) -> Iterator[Line]:
        if not part.count:
            return
        assert part.snapshot is not None
        evidence = _proven(part) if self.with_proofs else _receipts(part)
        for values, (receipt, msg, proof) in zip(_rows(part), evidence, strict=True):
            fields = _fields(part.stream, values, receipt)
            if self.with_proofs:
                assert msg is not None
                yield ProvenLine(**fields, msg=msg, proof=proof)  # type: ignore[arg-type]
            else:
                yield Line(**fields)  # type: ignore[arg-type]


def open_replay(caller: Caller, asked: ReplayRange, *, lake: Path) -> Replay:
    """Answer every question a replay has, or refuse it; nothing has been sent yet."""
    streams = check_readable(caller, asked.streams)
    rows = [streams[name] for name in asked.streams]
    with HubReads() as hub:
        heads = hub.heads([label_of(one) for one in rows])
        manifest = hub.manifest(asked.manifest_id)
        if manifest is None and asked.manifest_id is not None:
            raise RecordError(RecordCode.NOT_FOUND, "There is no such manifest.")
        ends = {label: _end(hub, head, asked.to_seq) for label, head in heads.items()}
        hub_id = hub.hub_id
    _bring_up(rows, ends, lake)
    parts = [
        _part(asked, one, hub_id, ends.get(label_of(one)), manifest, lake=lake) for one in rows
    ]
    return Replay(parts=parts, manifest=manifest, with_proofs=asked.with_proofs)


def _end(hub: HubReads, head: Receipt, to_seq: int | None) -> Receipt:
    """The RECEIPT of the last entry that is looked at; what is beyond the head is cut."""
    if to_seq is None or to_seq >= head.stream_seq:
        return head
    return hub.receipt(head.label, to_seq)


def _bring_up(rows: Sequence[Stream], ends: Mapping[Label, Receipt], lake: Path) -> None:
    missing = {}
    for one in rows:
        end = ends.get(label_of(one))
        snapshot = open_snapshot(lake, label_of(one))
        held = 0 if snapshot is None else snapshot.manifest.upto_seq
        if end is not None and held < end.stream_seq:
            missing[one.name] = int(end.stream_seq)
    if missing:
        bring_lake_up_to(missing, LAKE_TIMEOUT_S)


def _part(
    asked: ReplayRange,
    stream: Stream,
    hub_id: HubId,
    end: Receipt | None,
    manifest: Manifest | None,
    *,
    lake: Path,
) -> Part:
    label = label_of(stream)
    snapshot = None if end is None else open_snapshot(lake, label)
    first_held = 1
    to_seq = 0 if end is None else end.stream_seq
    if end is not None:
        if snapshot is None or snapshot.manifest.upto_seq < to_seq:
            raise lake_behind()
        if snapshot.manifest.hub_id != hub_id.hex():
            raise StoreError(f"the lake of {stream.name} is of another hub", ErrorCode.DAMAGE)
        first_held = snapshot.manifest.first_seq
    from_seq = max(asked.from_seq or 1, first_held)
    first, last = from_seq, to_seq
    if snapshot is not None and asked.is_window:
        if asked.start_ms is not None:
            first = max(first, first_at_or_after(snapshot, asked.start_ms))
        if asked.end_ms is not None:
            last = min(last, first_at_or_after(snapshot, asked.end_ms + 1) - 1)
    checkpoint = None if manifest is None else manifest.checkpoint(label)
    return Part(
        stream=stream.name,
        label=label,
        hub_id=hub_id,
        snapshot=snapshot,
        first=first,
        last=last,
        from_seq=from_seq,
        to_seq=to_seq,
        root=None if end is None else end.mmr_root.hex(),
        proven_upto=0 if checkpoint is None else checkpoint.upto_seq,
    )


def _covered(part: Part) -> dict[str, object]:
    """As in the coverage of a query: which part of which log was looked at."""
    return {
        "stream": part.stream,
        "label": part.label.hex(),
        "hub_id": part.hub_id.hex(),
        "from_seq": part.from_seq,
        "to_seq": part.to_seq,
        "mmr_root": part.root,
    }


def _rows(part: Part) -> Iterator[_Values]:
    assert part.snapshot is not None
    for batch in read_rows(part.snapshot, part.first, part.last, columns=_COLUMNS):
        yield from _tuples(batch, _COLUMNS)


def _tuples(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[_Values]:
    return zip(*[batch.column(name).to_pylist() for name in names], strict=True)


def _receipts(part: Part) -> Iterator[_Evidence]:
    assert part.snapshot is not None
    for batch in read_proofs(part.snapshot, part.first, part.last, columns=("receipt",)):
        for receipt in batch.column("receipt").to_pylist():
            yield receipt, None, None


def _proven(part: Part) -> Iterator[_Evidence]:
    """Up to the manifest's checkpoint the hub proves; what is above has no proof yet."""
    last_proven = min(part.last, part.proven_upto)
    if part.first <= last_proven:
        with HubReads() as hub:
            for item in hub.proven_items(
                part.label, part.first, last_proven, upto=part.proven_upto
            ):
                yield streamitem.cut(item)
    assert part.snapshot is not None
    above = read_proofs(part.snapshot, max(part.first, part.proven_upto + 1), part.last)
    for batch in above:
        receipts, msgs = batch.column("receipt").to_pylist(), batch.column("msg").to_pylist()
        for receipt, msg in zip(receipts, msgs, strict=True):
            yield receipt, msg, None


def _fields(stream: str, values: _Values, receipt: bytes) -> dict[str, object]:
    (seq, commit_time, subject_id, principal_id, event_type, event_time, origin, payload, error,
     receipt_id, leaf_hash) = values  # fmt: skip
    said = Receipt.decode(receipt)
    if said.stream_seq != seq or said.leaf_hash != leaf_hash:
        detail = f"{stream} {seq}: the row is not of the receipt beside it"
        raise StoreError(detail, ErrorCode.DAMAGE)
    return {
        "stream": stream,
        "hub_commit_seq": seq,
        "hub_commit_time": format_time(commit_time),
        "subject_id": subject_id,
        "principal_id": principal_id,
        "event_type": event_type,
        "event_time": None if event_time is None else format_time(event_time),
        "origin": origin,
        "payload": _NULL if payload is None else msgspec.Raw(payload.encode()),
        "error": error,
        "receipt_id": receipt_id,
        "receipt": receipt,
    }
