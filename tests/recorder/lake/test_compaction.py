"""Live segments stay few, sealing is due by volume or age, and every change owes its event."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from recorder import streams
from recorder.lake import compaction
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment, SegmentState
from recorder.lake.reader import LakeSnapshot, read_rows
from recorder.lake.segments import SEAL_EVENTS, merge_segments
from tests.support import lakes
from tests.support.hubs import START_TS
from tests.support.recorded_log import RecordedLog, RecordedStream

NOW = START_TS * 1000
HOUR = 3_600_000
LIVE, SEALED = SegmentState.LIVE, SegmentState.SEALED


def grow(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder, *counts: int, now_ms: int = NOW
) -> LakeManifest:
    """A lake to which so many events were added, one step after the other."""
    log.commit(stream.events(sum(counts)))
    manifest, first = lakes.manifest(log, stream), 1
    for count in counts:
        added = lakes.segment(log, stream, folder, first, first + count - 1)
        manifest = compaction.append(folder, manifest, [added], now_ms=now_ms)
        manifest.check()
        first += count
    return manifest


def seqs(folder: LakeFolder, manifest: LakeManifest) -> list[int]:
    snapshot = LakeSnapshot(folder=folder, manifest=manifest)
    return [
        seq
        for batch in read_rows(snapshot, 1, 10**9, columns=["hub_commit_seq"])
        for seq in batch["hub_commit_seq"].to_pylist()
    ]


def test_a_slow_stream_has_few_live_segments_and_rewrites_little(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def counted(place: LakeFolder, parts: list[Segment], state: SegmentState) -> Segment:
        written.append(sum(one.summary.events for one in parts))
        return merge_segments(place, parts, state)

    monkeypatch.setattr(compaction, "merge_segments", counted)
    manifest = grow(log, stream, folder, *[1] * 25)
    assert [one.summary.events for one in manifest.segments] == [16, 8, 1]
    assert sum(written) < 25 * 5
    assert seqs(folder, manifest) == list(range(1, 26))


def test_what_is_large_enough_is_sealed_and_owes_its_event(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SEAL_EVENTS == 10_000
    monkeypatch.setattr(compaction, "SEAL_EVENTS", 20)
    manifest = grow(log, stream, folder, 8, 4, 7, 3, 5)
    assert [(one.state, one.from_seq, one.to_seq) for one in manifest.segments] == [
        (SEALED, 1, 22), (LIVE, 23, 27),
    ]  # fmt: skip
    [owed] = manifest.owed
    sealed = manifest.segments[0]
    said = json.loads(owed.payload)
    assert owed.event_type == "lake.sealed"
    assert sealed.name in owed.key
    assert said == {
        "stream": stream.name, "label": stream.label.hex(), "hub_id": manifest.hub_id,
        "from_seq": 1, "to_seq": 22, "upto_root": sealed.upto_root, "segment": sealed.name,
        "files": {
            "rows": sealed.rows.sha256,
            "proofs": sealed.proofs.sha256,
            "keys": sealed.keys.sha256 if sealed.keys else None,
            "groups": sealed.groups.sha256 if sealed.groups else None,
        },
    }  # fmt: skip


def test_what_is_an_hour_old_is_sealed_but_not_of_housekeeping_streams(
    log: RecordedLog, folder: LakeFolder
) -> None:
    for name in ("record/app/web", streams.CHANGES, streams.CHECKPOINTS, streams.LAKE):
        stream = RecordedStream(name)
        place = LakeFolder.of(folder.root.parent, stream.label)
        manifest = grow(log, stream, place, 2)
        assert compaction.seal(place, manifest, now_ms=NOW + HOUR - 1) == manifest
        later = compaction.seal(place, manifest, now_ms=NOW + HOUR)
        is_housekeeping = name in streams.HOUSEKEEPING
        assert later.segments[0].state is (LIVE if is_housekeeping else SEALED), name
        assert len(later.owed) == (0 if is_housekeeping else 1)


def test_the_lake_s_own_stream_owes_nothing_so_that_it_comes_to_rest(
    log: RecordedLog, folder: LakeFolder
) -> None:
    stream = RecordedStream(streams.LAKE)
    manifest = grow(log, stream, folder, 3, 2)
    sealed = compaction.seal(folder, manifest, now_ms=NOW, is_forced=True)
    assert [one.state for one in sealed.segments] == [SEALED]
    assert sealed.owed == ()


def test_sealing_by_force_takes_all_and_twice_changes_nothing(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    manifest = grow(log, stream, folder, 9, 2)
    sealed = compaction.seal(folder, manifest, now_ms=NOW, is_forced=True)
    assert [(one.state, one.to_seq) for one in sealed.segments] == [(SEALED, 11)]
    assert compaction.seal(folder, sealed, now_ms=NOW, is_forced=True) == sealed


@pytest.mark.parametrize("first_held", [1, 2, 11, 15, 16, 20, 30])
def test_retention_takes_whole_segments_and_cuts_the_one_on_the_border(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder, first_held: int
) -> None:
    log.commit(stream.events(20))
    parts = [
        lakes.segment(log, stream, folder, 1, 10, SEALED),
        lakes.segment(log, stream, folder, 11, 15, SEALED),
        lakes.segment(log, stream, folder, 16, 20),
    ]
    manifest = lakes.manifest(log, stream, *parts)
    pruned = compaction.prune(folder, manifest, first_held, "too old")
    pruned.check()
    assert pruned.first_seq == first_held
    assert seqs(folder, pruned) == list(range(first_held, 21))
    assert pruned.upto_seq == max(20, first_held - 1)
    types = [one.event_type for one in pruned.owed]
    expected = ["lake.pruned"] * sum(one.to_seq < first_held for one in parts[:2])
    if first_held in {2, 15}:
        expected.append("lake.resealed")
    assert types == expected
    for owed in pruned.owed:
        assert json.loads(owed.payload)["reason"] == "too old"


def test_replacing_a_sealed_segment_names_the_old_files(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(4))
    old = lakes.segment(log, stream, folder, 1, 4, SEALED)
    manifest = lakes.manifest(log, stream, old)
    new = replace(old, name="new", rows=replace(old.rows, sha256="00" * 32))
    changed = compaction.reseal(manifest, [(old, new)], "because")
    assert changed.segments == (new,)
    [owed] = changed.owed
    said = json.loads(owed.payload)
    assert (said["replaces"][0]["files"], said["reason"]) == (old.hashes(), "because")
    same = compaction.reseal(manifest, [(old, replace(old, key_ids=(1, 2)))], "because")
    assert same.owed == ()
