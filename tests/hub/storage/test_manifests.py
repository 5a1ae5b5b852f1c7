from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError
from hub.server.core import HubCore
from hub.storage import manifests
from hub.storage.disk import Disk
from hub.storage.frames import Damage
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.storage.rebuild import run_rebuild
from hub.wire.manifest import NO_MANIFEST, Manifest
from tests.support.disks import Fault, FaultyDisk, Stopped
from tests.support.hubs import Producer, abandon, fill, label, open_core, opened

A, B = label("A"), label("B")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "d"


@pytest.fixture
def core(root: Path) -> Iterator[HubCore]:
    found = open_core(root)
    yield found
    found.close()


def make(core: HubCore, producer: Producer, count: int) -> list[Manifest]:
    found = []
    for _ in range(count):
        fill(core, [producer], 2)
        found.append(Manifest.decode(core.checkpoint()))
    return found


def test_the_chain_leads_from_the_newest_back_to_the_first(root: Path, core: HubCore) -> None:
    made = make(core, Producer("a", A), 4)
    assert list(manifests.chain(Layout(root))) == made[::-1]
    assert made[0].previous == NO_MANIFEST
    assert manifests.latest_id(Layout(root)) == made[-1].id


def test_a_manifest_with_a_changed_byte_is_not_served(root: Path, core: HubCore) -> None:
    [made] = make(core, Producer("a", A), 1)
    path = manifests.path_of(Layout(root), made.id)
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        manifests.read(Layout(root), made.id)
    assert caught.value.code is ErrorCode.DAMAGE


@pytest.mark.parametrize("text", ["", "\n", "zz\n", "ab\n", "ab" * 32 + "\n", "AB" * 32 + "\n"])
def test_a_pointer_to_nothing_is_damage_and_rebuild_mends_it(root: Path, text: str) -> None:
    with opened(root) as core:
        made = make(core, Producer("a", A), 3)
    pointer = Layout(root).manifests / "latest"
    pointer.write_text(text)
    with pytest.raises(Damage):
        manifests.latest_id(Layout(root))
    assert run_fsck(root).findings[0].file == "manifests/latest"
    run_rebuild(root)
    assert manifests.latest_id(Layout(root)) == made[-1].id
    assert run_fsck(root).findings == ()


def test_a_stop_between_manifest_and_index_is_made_good_at_the_next_start(root: Path) -> None:
    producers = [Producer("a", A), Producer("b", B)]
    core = open_core(root)
    fill(core, producers, 6)
    core.checkpoint()
    core.close()
    for at in range(1, 40):
        disk = FaultyDisk(10_000, Fault.STOP)
        core = open_core(root, disk)
        fill(core, producers, 2)
        disk._at = disk.calls + at
        with contextlib.suppress(Stopped):
            core.checkpoint()
        abandon(core)
        with opened(root) as again:
            latest = manifests.latest_id(Layout(root))
            assert latest is not None
            for item in manifests.load(Layout(root), latest).checkpoints:
                kept = again.reader.checkpoint_at(item.label_curr, item.upto_seq)
                assert kept == item.encode(), at
        assert run_fsck(root).findings == (), at


def test_rewinding_points_at_the_newest_manifest_that_the_log_bears_out(
    root: Path, core: HubCore
) -> None:
    producer = Producer("a", A)
    made = make(core, producer, 4)
    core.store.state.labels[A].size = 5  # as if the log had been cut back
    manifests.rewind(Layout(root), Disk(), core.store.state)
    assert manifests.latest_id(Layout(root)) == made[1].id
    core.store.state.labels[A].size = 1
    manifests.rewind(Layout(root), Disk(), core.store.state)
    assert manifests.latest_id(Layout(root)) is None
    core.store.state.labels[A].size = 8
    manifests.point_at_newest(Layout(root), Disk())
    assert manifests.latest_id(Layout(root)) == made[3].id
