"""What the log itself says of sealed files: their newest records, verified [architecture].

Every sealed segment is recorded with the hashes of its files in `record/infrastructure/lake`. A
query in mode full believes a sealed file only if it has the hash of its newest record, and the
records only because they are events of a verified log themselves: all of that stream is opened
again, since its own segments have no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

from hub import canonical_json
from hub.canonical_json import Value
from hub.types import HubId, Label, MmrRoot
from queryapi.contract.codes import QueryCode, failed_at
from queryapi.contract.coverage import Coverage
from recorder.lake.compaction import RESEALED, SEALED
from recorder.lake.manifest import LakeFile, LakeManifest, Segment
from recorder.lake.reader import LakeSnapshot
from spark_jobs.query_batch import batches
from spark_jobs.query_plan import Chunk

_TYPES: Final = frozenset({SEALED, RESEALED})
_READ: Final = ("rows", "proofs")  # full evidence opens no other file of a segment


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRecord:
    """What one event says of one segment."""

    label: str
    from_seq: int
    to_seq: int
    files: Mapping[str, str]  # kind -> SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """A file that must have the hash its record names."""

    stream: str
    from_seq: int
    path: str
    sha256: str

    def run(self) -> None:
        """Raise evidence_failed at the segment's first sequence unless it has."""
        try:
            with Path(self.path).open("rb") as file:
                found = file_digest(file, "sha256").hexdigest()
        except OSError as flaw:
            reason = f"a sealed file cannot be read: {flaw.strerror}"
            raise failed_at(QueryCode.EVIDENCE_FAILED, self.stream, self.from_seq, reason) from flaw
        if found != self.sha256:
            reason = "a sealed file of this segment is not the one that was recorded"
            raise failed_at(QueryCode.EVIDENCE_FAILED, self.stream, self.from_seq, reason)


def read_records(chunk: Chunk) -> list[SealRecord]:
    """The records in a chunk of the lake's own stream, by rising sequence."""
    found = []
    for batch in batches(chunk):
        types = batch.raw("event_type").to_pylist()
        texts = batch.raw("payload_text").to_pylist()
        for event_type, text in zip(types, texts, strict=True):
            record = _record(canonical_json.parse(text)) if event_type in _TYPES else None
            if record is not None:
                found.append(record)
    return found


def _record(payload: Value) -> SealRecord | None:
    if not isinstance(payload, dict):
        return None
    label, files = payload.get("label"), payload.get("files")
    first, last = payload.get("from_seq"), payload.get("to_seq")
    if not (isinstance(label, str) and isinstance(files, dict)):
        return None
    if not (isinstance(first, int) and isinstance(last, int)):
        return None
    hashes = {kind: one for kind, one in files.items() if isinstance(one, str)}
    return SealRecord(label=label, from_seq=first, to_seq=last, files=hashes)


def newest(records: Iterable[SealRecord], label: Label, segment: Segment) -> SealRecord | None:
    """The last record that speaks of any sequence of the segment."""
    found = None
    for record in records:
        is_within = record.from_seq <= segment.to_seq and segment.from_seq <= record.to_seq
        if record.label == label.hex() and is_within:
            found = record
    return found


def is_owed(manifest: LakeManifest, segment: Segment) -> bool:
    """Whether the segment's own record still waits to be written."""
    return any(one.key.endswith(f":{segment.name}") for one in manifest.owed)


def file_checks(
    records: Sequence[SealRecord], part: Coverage, snapshot: LakeSnapshot, segment: Segment
) -> list[FileCheck] | None:
    """The checks of a segment's files; None when it has no record yet."""
    if is_owed(snapshot.manifest, segment):
        return None
    record = newest(records, part.label, segment)
    if record is None:
        return None
    if (record.from_seq, record.to_seq) != (segment.from_seq, segment.to_seq):
        reason = "its newest record is of another segment"
        raise failed_at(QueryCode.EVIDENCE_FAILED, part.stream, segment.from_seq, reason)
    checks = []
    for kind in _READ:
        one: LakeFile = getattr(segment, kind)
        checks.append(
            FileCheck(
                stream=part.stream,
                from_seq=segment.from_seq,
                path=str(snapshot.folder.path(one)),
                sha256=record.files.get(kind, ""),
            )
        )
    return checks


def coverage_of_records(snapshot: LakeSnapshot) -> Coverage | None:
    """All that is held of the lake's own stream; None when it is empty."""
    manifest = snapshot.manifest
    if manifest.upto_root is None:
        return None
    return Coverage(
        stream=manifest.stream,
        label=manifest.label_bytes,
        hub_id=HubId(bytes.fromhex(manifest.hub_id)),
        from_seq=manifest.first_seq,
        to_seq=manifest.upto_seq,
        mmr_root=MmrRoot(bytes.fromhex(manifest.upto_root)),
    )
