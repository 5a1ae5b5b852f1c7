"""A manifest names what exists; anything that does not fit together is damage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hub.errors import ErrorCode, VeenError
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Owed, SegmentState
from tests.support import lakes
from tests.support.recorded_log import RecordedLog, RecordedStream


@pytest.fixture
def manifest(log: RecordedLog, stream: RecordedStream, folder: LakeFolder) -> LakeManifest:
    log.commit(stream.events(30))
    parts = [
        lakes.segment(log, stream, folder, 1, 10, SegmentState.SEALED),
        lakes.segment(log, stream, folder, 11, 20),
        lakes.segment(log, stream, folder, 21, 30),
    ]
    found = lakes.manifest(log, stream, *parts)
    return replace(found, owed=(Owed(key="k", event_type="lake.sealed", payload="{}"),))


def test_decoding_gives_back_what_was_encoded(manifest: LakeManifest) -> None:
    assert LakeManifest.decode(manifest.encode()) == manifest
    assert LakeManifest.decode(manifest.encode()).encode() == manifest.encode()


def test_segments_are_found_by_range_and_by_window(manifest: LakeManifest) -> None:
    assert manifest.find(10, 11) == manifest.segments[:2]
    assert manifest.find(21, 99) == manifest.segments[2:]
    assert manifest.find(31, 99) == ()
    at = manifest.segments[0].min_hub_commit_time
    assert manifest.find_window(at, None) == manifest.segments
    assert manifest.find_window(at + 1, None) == ()
    assert manifest.find_window(None, at - 1) == ()


def test_what_does_not_fit_together_is_damage(manifest: LakeManifest) -> None:
    first, second, third = manifest.segments
    broken = {
        "a gap": replace(manifest, segments=(first, third)),
        "an overlap": replace(manifest, segments=(first, replace(second, from_seq=10), third)),
        "another end": replace(manifest, upto_seq=31),
        "another root": replace(manifest, upto_root="00" * 32),
        "no segments": replace(manifest, segments=()),
        "another count": replace(
            manifest,
            segments=(replace(first, summary=replace(first.summary, events=9)), second, third),
        ),
        "a path that climbs": replace(
            manifest,
            segments=(
                replace(first, rows=replace(first.rows, file="../" + first.rows.file)),
                second,
                third,
            ),
        ),
    }
    for name, one in broken.items():
        with pytest.raises(VeenError) as refusal:
            one.encode()
        assert refusal.value.code is ErrorCode.DAMAGE, name


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"ver":2}', b"\xff", b'{"ver":1,"stream":7}']
)
def test_bytes_that_are_no_manifest_are_damage(data: bytes) -> None:
    with pytest.raises(VeenError) as refusal:
        LakeManifest.decode(data)
    assert refusal.value.code is ErrorCode.DAMAGE


def test_every_cut_of_a_manifest_is_damage(manifest: LakeManifest) -> None:
    whole = manifest.encode().rstrip()
    for length in range(0, len(whole), 97):
        with pytest.raises(VeenError):
            LakeManifest.decode(whole[:length])
