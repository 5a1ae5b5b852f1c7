"""Every index made anew from log and manifests, whatever state it was in."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.storage.rebuild import run_rebuild
from tests.support.disks import CountingDisk, Fault, FaultyDisk, Stopped
from tests.support.hubs import Truth, message_or_none, open_core, opened, rich_directory


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return rich_directory(tmp_path_factory.mktemp("rich") / "d")


@pytest.fixture
def root(original: Truth, tmp_path: Path) -> Path:
    return copy(original, tmp_path / "copy")


def copy(original: Truth, base: Path) -> Path:
    shutil.copytree(original.root.parent, base)
    return base / "d"


def digests(root: Path, *globs: str) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in globs
        for path in sorted(root.glob(pattern))
        if path.is_file()
    }


def check_sound(root: Path, original: Truth) -> None:
    with opened(root) as core:
        assert core.read_only is None
        for (where, seq), (receipt, message) in original.entries.items():
            assert core.reader.receipt(where, seq) == receipt
            assert message_or_none(core.reader, where, seq) == message
    assert run_fsck(root).findings == ()


TRUTHS = ("log/*", "manifests/**/*", "rotations.log", "FORMAT", "keys/*", "attachments/**/*")
INDEXES = ("labels/*/*",)


def test_indexes_come_out_byte_for_byte_and_nothing_else_is_touched(
    root: Path, original: Truth
) -> None:
    truths, indexes = digests(root, *TRUTHS), digests(root, *INDEXES)
    assert any(name.startswith("log/") for name in truths)
    for path in root.glob("labels/*/*"):
        path.write_bytes(b"garbage" * 100)
    (root / "leaves.sqlite").write_bytes(b"garbage")
    result = run_rebuild(root)
    assert result["entries"] == len(original.entries)
    assert digests(root, *TRUTHS) == truths
    assert digests(root, *INDEXES) == indexes
    assert run_fsck(root).findings == ()
    check_sound(root, original)


def test_indexes_that_are_gone_come_back(root: Path, original: Truth) -> None:
    indexes = digests(root, *INDEXES)
    shutil.rmtree(root / "labels")
    (root / "leaves.sqlite").unlink()
    (root / "snapshot").unlink()
    run_rebuild(root)
    assert digests(root, *INDEXES) == indexes
    check_sound(root, original)


def test_rate_and_epoch_cursors_are_left_to_the_hub_that_knows_its_rules(
    root: Path, original: Truth
) -> None:
    run_rebuild(root)
    assert not (root / "snapshot").exists()
    check_sound(root, original)
    assert (root / "snapshot").exists()


def test_progress_is_told(root: Path, original: Truth) -> None:
    said: list[dict[str, object]] = []
    run_rebuild(root, progress=said.append)
    assert {one["step"] for one in said} == {"check", "rebuild"}
    assert said[-1]["entries"] == said[-1]["total"] == len(original.entries)


def test_a_running_hub_is_not_rebuilt_under_its_feet(root: Path) -> None:
    with opened(root), pytest.raises(StoreError) as caught:
        run_rebuild(root)
    assert caught.value.code is ErrorCode.LOCKED


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no data directory"):
        run_rebuild(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_log_is_refused_and_its_indexes_still_find_the_rest(
    root: Path, original: Truth
) -> None:
    path = Layout(root).segment(2)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    before = digests(root, *INDEXES, "snapshot", "leaves.sqlite")
    with pytest.raises(Damage) as caught:
        run_rebuild(root)
    assert caught.value.where == str(path)
    assert digests(root, *INDEXES, "snapshot", "leaves.sqlite") == before


def test_a_missing_segment_is_named(root: Path) -> None:
    Layout(root).segment(2).unlink()
    with pytest.raises(Damage, match=r"00000002\.seg"):
        run_rebuild(root)


@pytest.mark.parametrize("finish", ["start", "rebuild"])
def test_a_stop_at_any_call_leaves_what_the_next_start_or_rebuild_completes(
    original: Truth, tmp_path: Path, finish: str
) -> None:
    counting = CountingDisk()
    run_rebuild(copy(original, tmp_path / "sample"), disk=counting)
    for at in range(1, counting.calls + 1, 1 if finish == "start" else 7):
        root = copy(original, tmp_path / f"{at}")
        log = digests(root, "log/*")
        with pytest.raises(Stopped):
            run_rebuild(root, disk=FaultyDisk(at, Fault.STOP))
        if finish == "rebuild":
            run_rebuild(root)
        check_sound(root, original)
        assert digests(root, "log/*") == log
        shutil.rmtree(root.parent)


def test_a_start_after_a_rebuild_does_not_do_it_again(root: Path) -> None:
    run_rebuild(root, disk=Disk())
    assert not Layout(root).rebuild_intent.exists()
    core = open_core(root)
    assert core.read_only is None
    core.close()
