"""Retention: payloads go, the spine stays, and a stop in the middle changes neither."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.storage.prune import prune_label
from hub.storage.reader import LogReader
from hub.storage.spine import Spine
from hub.wire.msg import Msg
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.hubs import Producer, abandon, fill, label, open_core, opened

A, B = label("A"), label("B")


def log_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "log").iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two labels in turn over several segments."""
    found = tmp_path / "d"
    with opened(found, segment_bytes=6_000) as core:
        fill(core, [Producer("a", A), Producer("b", B)], 40)
    return found


def prune(root: Path, before_seq: int) -> int:
    with opened(root, segment_bytes=6_000) as core:
        result = asyncio.run(prune_label(core.store, A, before_seq))
    return int(result["freed_bytes"])


def test_space_is_really_freed(root: Path) -> None:
    before = log_bytes(root)
    freed = prune(root, 15)
    assert freed > 14 * 100
    assert log_bytes(root) <= before - freed + 200  # and the head of one new segment
    assert run_fsck(root).findings == ()


def test_receipts_and_proofs_of_a_pruned_range_remain(root: Path) -> None:
    with LogReaderOn(root) as reader:
        receipts = [reader.receipt(A, seq) for seq in range(1, 21)]
        proofs = [reader.prove(A, seq, 20).encode() for seq in range(1, 21)]
        others = [reader.entry(B, seq) for seq in range(1, 21)]
        kept = [reader.entry(A, seq) for seq in range(15, 21)]
    prune(root, 15)
    with LogReaderOn(root) as reader:
        assert [reader.receipt(A, seq) for seq in range(1, 21)] == receipts
        assert [reader.prove(A, seq, 20).encode() for seq in range(1, 21)] == proofs
        assert [reader.entry(B, seq) for seq in range(1, 21)] == others
        assert [reader.entry(A, seq) for seq in range(15, 21)] == kept


class LogReaderOn:
    def __init__(self, root: Path) -> None:
        self.reader = LogReader(root)

    def __enter__(self) -> LogReader:
        return self.reader

    def __exit__(self, *_: object) -> None:
        self.reader.close()


def test_a_pruned_entry_answers_with_its_code_and_the_first_that_is_held(root: Path) -> None:
    prune(root, 15)
    with LogReaderOn(root) as reader:
        with pytest.raises(VeenError) as caught:
            reader.entry(A, 14)
        assert (caught.value.code, caught.value.detail) == (ErrorCode.PRUNED, "first_held=15")
        assert reader.first_held(A) == 15
        assert reader.first_held(B) == 1


def test_the_spine_still_gives_the_leaf_and_the_signature_of_its_author(root: Path) -> None:
    with LogReaderOn(root) as reader:
        before = reader.spine_or_msg(A, 3)
    assert isinstance(before, Msg)
    prune(root, 15)
    with LogReaderOn(root) as reader:
        after = reader.spine_or_msg(A, 3)
    assert isinstance(after, Spine)
    assert after == Spine.of(before, len(before.encode()))
    assert after.leaf_hash() == before.leaf_hash()
    assert (after.signed_digest, after.sig) == (before.signing_hash(), before.sig)


def test_pruning_again_frees_only_what_is_new(root: Path) -> None:
    prune(root, 10)
    assert prune(root, 10) == 0
    assert prune(root, 15) > 0
    assert prune(root, 10_000) > 0
    with LogReaderOn(root) as reader:
        assert reader.first_held(A) == 21
    assert run_fsck(root).findings == ()


def test_a_lower_bound_than_last_time_gives_nothing_back(root: Path) -> None:
    with opened(root) as core:
        for before_seq, first_held in ((10, 10), (3, 10), (1, 10), (10_000, 21)):
            done = asyncio.run(prune_label(core.store, A, before_seq))
            assert done["first_held"] == first_held


def test_an_unknown_label_is_refused(root: Path) -> None:
    with opened(root) as core:
        with pytest.raises(VeenError) as caught:
            asyncio.run(prune_label(core.store, label("nobody"), 5))
        assert caught.value.code is ErrorCode.NOTFOUND


def test_appending_goes_on_after_retention_and_a_restart(root: Path) -> None:
    prune(root, 15)
    producer = Producer("a", A, client_seq=20)
    with opened(root) as core:
        fill(core, [producer], 5)
        assert core.reader.count(A) == 25
    Layout(root).snapshot.unlink()
    with opened(root) as core:
        assert core.read_only is None
        fill(core, [producer], 1)
    assert run_fsck(root).findings == ()


def calls_of_prune(root: Path) -> tuple[int, int]:
    """The calls made before and in retention."""
    disk = CountingDisk()
    core = open_core(root, disk, segment_bytes=6_000)
    before = disk.calls
    asyncio.run(prune_label(core.store, A, 15))
    after = disk.calls
    core.close()
    return before, after


def test_a_stop_between_any_two_steps_is_finished_by_the_next_start(
    root: Path, tmp_path: Path
) -> None:
    sample = tmp_path / "sample"
    sample.mkdir()
    copy(root, sample)
    first, last = calls_of_prune(sample / "d")
    assert last - first > 30
    for at in range(first + 1, last + 1):
        base = tmp_path / "stopped"
        base.mkdir()
        copy(root, base)
        core = open_core(base / "d", FaultyDisk(at, Fault.STOP), segment_bytes=6_000)
        with contextlib.suppress(Stopped):
            asyncio.run(prune_label(core.store, A, 15))
        abandon(core)
        with opened(base / "d") as again:
            assert again.read_only is None
            held = again.reader.first_held(A)
            for seq in range(1, 21):
                assert again.reader.receipt(A, seq)
                if seq >= held:
                    assert again.reader.entry(A, seq)
        assert run_fsck(base / "d").findings == (), at
        assert not list((base / "d" / "log").glob("*.new"))
        shutil.rmtree(base)


def copy(root: Path, target: Path) -> None:
    shutil.copytree(root, target / "d")
    shutil.copy(root.with_name("d.heads"), target / "d.heads")


def test_a_reader_that_was_open_goes_on_over_retention(root: Path) -> None:
    with LogReaderOn(root) as reader:
        before = reader.entry(B, 7)
        prune(root, 15)
        assert reader.entry(B, 7) == before
        assert reader.receipt(A, 3)
