"""Manifests and the CHECKPOINTs of each label: equal, whatever stopped in between."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hub.admission.records import LABEL_CLASS, LabelClass
from hub.server.config import HubConfig
from hub.server.core import HubCore, open_hub
from hub.storage.labels import LabelFiles
from hub.types import Label
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from tests.support.hubs import abandon
from tests.support.live_hub import Author, Hands, receipt_of

T0 = 1_700_000_000
LABELS = [Label(bytes([number]) * 32) for number in range(1, 5)]


def opened(path: Path, hands: Hands | None = None) -> HubCore:
    hands = hands or Hands(T0)
    config = HubConfig(data_dir=path / "d", open_admission=True)
    return open_hub(config, wall=hands.wall, boot=hands.boot)


def by_label(core: HubCore, label: Label) -> list[int]:
    count = core.reader.checkpoint_count(label)
    return [
        Checkpoint.decode(core.reader.checkpoint(label, number)[1]).upto_seq
        for number in range(count)
    ]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_stop_between_manifest_and_labels_is_mended_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    core = opened(tmp_path)
    for label in LABELS:
        receipt_of(core, Author(label).next())
    calls: list[Label] = []
    original = LabelFiles.append_checkpoint

    def stopping(self: LabelFiles, label: Label, upto_seq: int, wire: bytes) -> None:
        if len(calls) == kept:
            raise KeyboardInterrupt
        calls.append(label)
        original(self, label, upto_seq, wire)

    with monkeypatch.context() as patch:
        patch.setattr(LabelFiles, "append_checkpoint", stopping)
        with pytest.raises(KeyboardInterrupt):
            core.checkpoint()
    abandon(core)
    again = opened(tmp_path)
    assert [by_label(again, label) for label in LABELS] == [[1]] * 4
    again.close()
    third = opened(tmp_path)
    assert [by_label(third, label) for label in LABELS] == [[1]] * 4  # mended once
    third.close()


def test_a_full_disk_between_manifest_and_labels_is_caught_up_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = opened(tmp_path)
    authors = [Author(label) for label in LABELS]
    for author in authors:
        receipt_of(core, author.next())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LabelFiles, "append_checkpoint", full)
        with pytest.raises(OSError, match="no space"):
            core.checkpoint()
    for author in authors:
        receipt_of(core, author.next())
    core.checkpoint()
    assert [by_label(core, label) for label in LABELS] == [[1, 2]] * 4
    core.close()


def test_nothing_new_makes_no_second_checkpoint_of_a_label(tmp_path: Path) -> None:
    core = opened(tmp_path)
    receipt_of(core, Author(LABELS[0]).next())
    first = Manifest.decode(core.checkpoint())
    second = Manifest.decode(core.checkpoint())
    assert second.previous == first.id
    assert by_label(core, LABELS[0]) == [1]
    core.close()


def test_created_at_never_goes_back(tmp_path: Path) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)
    receipt_of(core, Author(LABELS[0]).next())
    first = Manifest.decode(core.checkpoint())
    hands.jumps(-5)
    second = Manifest.decode(core.checkpoint())
    assert second.created_at >= first.created_at
    core.close()


def test_time_and_volume_make_a_manifest_due(tmp_path: Path) -> None:
    core = opened(tmp_path)
    checkpoints = core.checkpoints
    assert not checkpoints.is_due(T0, 300, 10)  # an empty log is at rest
    author = Author(LABELS[0])
    receipt_of(core, author.next())
    assert checkpoints.is_due(T0, 300, 10)
    core.checkpoint()
    receipt_of(core, author.next())
    assert not checkpoints.is_due(T0 + 299, 300, 10)
    assert checkpoints.is_due(T0 + 300, 300, 10)
    for _ in range(9):
        receipt_of(core, author.next())
    assert checkpoints.is_due(T0, 300, 10)
    core.close()


def test_housekeeping_is_covered_but_never_the_cause(tmp_path: Path) -> None:
    core = opened(tmp_path)
    core.record_act("test", {})
    assert not core.checkpoints.is_due(T0 + 10**6, 300, 10)
    receipt_of(core, Author(LABELS[0]).next())
    manifest = Manifest.decode(core.checkpoint())
    assert manifest.checkpoint(core.gate.admission_label) is not None
    core.close()


def test_a_label_that_becomes_housekeeping_is_so_at_once(tmp_path: Path) -> None:
    core = opened(tmp_path)
    receipt_of(core, Author(LABELS[0]).next())
    assert core.checkpoints.is_due(T0 + 10**6, 300, 10)
    given = LabelClass(label=LABELS[0], name="housekeeping")
    core.record(LABEL_CLASS, given.encode())
    assert not core.checkpoints.is_due(T0 + 10**6, 300, 10)
    core.close()


def test_lateness_is_counted_from_when_a_checkpoint_became_due(tmp_path: Path) -> None:
    hands = Hands(T0)
    core = opened(tmp_path, hands)

    def late_s() -> int | None:
        return core.checkpoints.late_s(core.now(), 300, 10_000)

    author = Author(LABELS[0])
    receipt_of(core, author.next())
    assert late_s() == 0  # there is none yet, so the first one is due at once
    core.checkpoint()
    hands.passes(36_000)
    assert late_s() is None  # a quiet spell is not late
    receipt_of(core, author.next())
    assert late_s() == 0
    hands.passes(301)
    assert late_s() == 301
    core.checkpoint()
    assert late_s() is None
    core.close()
