"""A stop at any line leaves the old snapshot or the new one, and nothing that stays around."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from config.settings_file import Settings
from config.settings_kinds import Integer
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import Disk
from recorder.lake.folder import RETIRED_S, LakeBusyError, LakeFolder
from recorder.lake.manifest import SegmentState
from recorder.lake.segments import merge_segments
from tests.support import lakes
from tests.support.recorded_log import RecordedLog, RecordedStream

NOW = 1_700_000_000_000


class StopError(Exception):
    """The machine stops here."""


class StoppingDisk(Disk):
    """Stops at one of its calls, before or after it took place."""

    __slots__ = ("_after", "_left")

    def __init__(self, calls: int, *, after: bool) -> None:
        super().__init__()
        self._left = calls
        self._after = after

    def _count(self, *, after: bool) -> None:
        if after is not self._after:
            return
        self._left -= 1
        if self._left == 0:
            raise StopError

    def sync_dir(self, path: Path) -> None:
        self._count(after=False)
        super().sync_dir(path)
        self._count(after=True)

    def rename(self, source: Path, target: Path) -> None:
        self._count(after=False)
        super().rename(source, target)
        self._count(after=True)

    def fdatasync(self, fd: int) -> None:
        self._count(after=False)
        super().fdatasync(fd)
        self._count(after=True)


def test_a_folder_without_manifest_is_an_empty_lake(folder: LakeFolder) -> None:
    assert folder.read() is None


def test_a_published_snapshot_is_read_back(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(5))
    new = lakes.manifest(log, stream, lakes.segment(log, stream, folder, 1, 5))
    published = folder.publish(None, new, now_ms=NOW)
    assert published.snapshot == 1
    assert folder.read() == published
    for one in published.segments[0].files:
        folder.check(one)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_stop_at_any_call_of_publish_leaves_one_snapshot_whole(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder, *, after: bool
) -> None:
    log.commit(stream.events(6))
    first = lakes.segment(log, stream, folder, 1, 3)
    old = folder.publish(None, lakes.manifest(log, stream, first), now_ms=NOW)
    second = lakes.segment(log, stream, folder, 4, 6)
    new = lakes.manifest(log, stream, first, second)
    seen = set()
    for call in range(1, 20):
        try:
            folder.publish(old, new, now_ms=NOW, disk=StoppingDisk(call, after=after))
        except StopError:
            found = folder.read()
            assert found is not None
            assert found.segments in (old.segments, new.segments)
            seen.add(found.snapshot)
            folder.publish(None, replace(old, snapshot=0), now_ms=NOW)
        else:
            break
    assert call > 4
    assert seen == {1, 2}


def test_leftovers_are_removed_and_named_files_are_not(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(6))
    first = lakes.segment(log, stream, folder, 1, 3)
    manifest = folder.publish(None, lakes.manifest(log, stream, first), now_ms=NOW)
    lakes.segment(log, stream, folder, 4, 6)
    scratch = folder.root / first.date / ".tmp-1-2-rows"
    scratch.write_bytes(b"half")
    left = folder.clean(manifest)
    assert len(left) == 3
    assert not scratch.exists()
    assert folder.clean(manifest) == []
    for one in first.files:
        folder.check(one)


def test_replaced_files_stay_for_the_readers_of_older_snapshots(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(6))
    parts = [lakes.segment(log, stream, folder, a, b) for a, b in ((1, 3), (4, 6))]
    old = folder.publish(None, lakes.manifest(log, stream, *parts), now_ms=NOW)
    merged = merge_segments(folder, parts, SegmentState.SEALED)
    new = folder.publish(old, replace(old, segments=(merged,)), now_ms=NOW)
    assert len(new.retired) == 4
    assert folder.clean(new) == []
    later = NOW + RETIRED_S * 1000
    final = folder.publish(new, new, now_ms=later)
    assert final.retired == ()
    assert not any(folder.path(one.file).exists() for part in parts for one in part.files)
    for one in merged.files:
        folder.check(one)


def test_only_one_writer_holds_the_folder(folder: LakeFolder) -> None:
    with folder.locked():
        with pytest.raises(LakeBusyError) as refusal, folder.locked(wait_s=0.05):
            pass
        assert refusal.value.code is ErrorCode.LOCKED
    with folder.locked():
        pass


def test_a_flipped_bit_and_a_missing_file_are_damage(
    log: RecordedLog, stream: RecordedStream, folder: LakeFolder
) -> None:
    log.commit(stream.events(3))
    one = lakes.segment(log, stream, folder, 1, 3).rows
    path = folder.path(one)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(VeenError) as refusal:
            folder.check(one)
        assert refusal.value.code is ErrorCode.DAMAGE
        path.unlink(missing_ok=True)


def test_files_are_kept_longer_than_any_query_may_run() -> None:
    kind = next(one for one in fields(Settings) if one.name == "query_time_s").metadata["kind"]
    assert isinstance(kind, Integer)
    assert kind.high < RETIRED_S
