"""What becomes of live segments: merged, sealed, replaced, pruned [architecture, The lake].

Live segments grow by doubling: a new one takes up its neighbours that are not larger, so a slow
stream has few of them and every row is rewritten a few times at most. Sealing is due at 10,000
events or after an hour, for housekeeping streams by volume only. Each sealed segment owes the log
an event with the hashes of its files; that stream's own segments owe none, or it would never rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import pyarrow.compute as pc

from hub import canonical_json
from hub.canonical_json import Value
from hub.types import MmrRoot
from recorder import streams
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Owed, Segment, SegmentState
from recorder.lake.segments import (
    SEAL_EVENTS,
    SegmentContent,
    merge_segments,
    read_file,
    write_segment,
)

SEAL_AGE_MS: Final = 3_600_000
SEAL_BYTES: Final = 64 * 1024 * 1024

SEALED: Final = "lake.sealed"
RESEALED: Final = "lake.resealed"
PRUNED: Final = "lake.pruned"


def append(
    folder: LakeFolder, manifest: LakeManifest, added: Sequence[Segment], *, now_ms: int
) -> LakeManifest:
    """The manifest with segments behind its last one; small ones are merged, due ones sealed."""
    owed = [event for one in added if one.state is SegmentState.SEALED
            for event in _events(manifest, one, SEALED, {})]  # fmt: skip
    longer = replace(
        manifest,
        upto_seq=added[-1].to_seq,
        upto_root=added[-1].upto_root,
        segments=(*manifest.segments, *added),
        owed=(*manifest.owed, *owed),
    )
    return seal(folder, longer, now_ms=now_ms)


def seal(
    folder: LakeFolder, manifest: LakeManifest, *, now_ms: int, is_forced: bool = False
) -> LakeManifest:
    """Seal what is due, or all that is live; the same manifest when nothing is."""
    segments: list[Segment] = []
    owed: list[Owed] = []
    runs = list(_runs(manifest.segments))
    for number, (is_live, run) in enumerate(runs):
        if not is_live:
            segments += run
            continue
        is_covered = number < len(runs) - 1  # nothing live stands before something newer
        if is_forced or is_covered or _is_due(manifest.stream, run, now_ms):
            sealed = merge_segments(folder, run, SegmentState.SEALED)
            segments.append(sealed)
            owed += _events(manifest, sealed, SEALED, {})
        else:
            segments += _grown(folder, run)
    if tuple(segments) == manifest.segments:
        return manifest
    return replace(manifest, segments=tuple(segments), owed=(*manifest.owed, *owed))


def _runs(segments: Sequence[Segment]) -> Iterator[tuple[bool, list[Segment]]]:
    """Neighbours that may become one segment: live ones of one date."""
    for (state, _), run in groupby(segments, key=lambda one: (one.state, one.date)):
        yield state is SegmentState.LIVE, list(run)


def _is_due(stream: str, run: Sequence[Segment], now_ms: int) -> bool:
    events = sum(one.summary.events for one in run)
    if events >= SEAL_EVENTS or sum(one.proofs.bytes for one in run) >= SEAL_BYTES:
        return True
    is_old = run[0].min_hub_commit_time + SEAL_AGE_MS <= now_ms
    return is_old and stream not in streams.HOUSEKEEPING


def _grown(folder: LakeFolder, run: list[Segment]) -> list[Segment]:
    """The last segment takes up the ones before it that are not larger."""
    first = len(run) - 1
    events = run[first].summary.events
    while first > 0 and run[first - 1].summary.events <= events:
        first -= 1
        events += run[first].summary.events
    if first == len(run) - 1:
        return run
    return [*run[:first], merge_segments(folder, run[first:], SegmentState.LIVE)]


def reseal(
    manifest: LakeManifest, changes: Sequence[tuple[Segment, Segment]], reason: str
) -> LakeManifest:
    """The manifest with segments replaced by others of the same range."""
    new = {old.name: one for old, one in changes}
    owed = [
        event
        for old, one in changes
        if old.state is SegmentState.SEALED and old.files != one.files
        for event in _events(
            manifest, one, RESEALED, {"replaces": [_replaced(old)], "reason": reason}
        )
    ]
    return replace(
        manifest,
        segments=tuple([new.get(one.name, one) for one in manifest.segments]),
        owed=(*manifest.owed, *owed),
    )


def prune(folder: LakeFolder, manifest: LakeManifest, first_held: int, reason: str) -> LakeManifest:
    """The manifest without what is before `first_held`; the segment on the border is cut."""
    if first_held <= manifest.first_seq:
        return manifest
    kept: list[Segment] = []
    owed: list[Owed] = []
    for segment in manifest.segments:
        if segment.from_seq >= first_held:
            kept.append(segment)
            continue
        is_sealed = segment.state is SegmentState.SEALED
        if segment.to_seq < first_held:
            if is_sealed:
                owed += _events(manifest, segment, PRUNED, {"reason": reason})
            continue
        cut = _cut(folder, segment, first_held)
        kept.append(cut)
        if is_sealed:
            more: dict[str, Value] = {"replaces": [_replaced(segment)], "reason": reason}
            owed += _events(manifest, cut, RESEALED, more)
    upto_seq = max(manifest.upto_seq, first_held - 1)
    return replace(
        manifest,
        first_seq=first_held,
        upto_seq=upto_seq,
        # Below first_held nothing is known of a log that was never read; ingest goes on unchained.
        upto_root=manifest.upto_root if upto_seq == manifest.upto_seq else None,
        segments=tuple(kept),
        owed=(*manifest.owed, *owed),
    )


def _cut(folder: LakeFolder, segment: Segment, first_held: int) -> Segment:
    start = first_held - segment.from_seq
    content = SegmentContent(
        rows=read_file(folder, segment.rows, ROWS).slice(start),
        proofs=read_file(folder, segment.proofs, PROOFS).slice(start),
        upto_root=MmrRoot(bytes.fromhex(segment.upto_root)),
        key_ids=segment.key_ids,
    )
    assert pc.min(content.rows["hub_commit_seq"]).as_py() == first_held
    return write_segment(folder, content, segment.state)


def _replaced(old: Segment) -> dict[str, Value]:
    return {
        "segment": old.name,
        "from_seq": old.from_seq,
        "to_seq": old.to_seq,
        "files": old.hashes(),
    }


def _events(
    manifest: LakeManifest, segment: Segment, event_type: str, more: dict[str, Value]
) -> Iterator[Owed]:
    """The event about one segment; its key follows from what it is about."""
    if manifest.stream == streams.LAKE:
        return
    payload: dict[str, Value] = {
        "stream": manifest.stream,
        "label": manifest.label,
        "hub_id": manifest.hub_id,
        "from_seq": segment.from_seq,
        "to_seq": segment.to_seq,
        "upto_root": segment.upto_root,
        "segment": segment.name,
        "files": segment.hashes(),
        **more,
    }
    yield Owed(
        key=f"{event_type}:{manifest.label[:32]}:{segment.name}",
        event_type=event_type,
        payload=canonical_json.encode_text(payload),
    )
