from __future__ import annotations

from pathlib import Path

import pytest

from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage import attachments
from hub.storage.disk import Disk
from hub.storage.layout import Layout
from hub.types import Hash
from tests.support.disks import CountingDisk

SEALED = b"sealed bytes" * 50
COID = Hash(h(SEALED))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    Disk().mkdir(tmp_path / "attachments")
    return Layout(tmp_path)


def test_an_attachment_is_kept_once_and_read_back(layout: Layout) -> None:
    assert attachments.write(layout, Disk(), COID, SEALED)
    assert not attachments.write(layout, Disk(), COID, SEALED)
    assert attachments.read(layout, COID) == SEALED


def test_bytes_of_another_coid_are_refused(layout: Layout) -> None:
    with pytest.raises(VeenError) as caught:
        attachments.write(layout, Disk(), COID, SEALED + b"!")
    assert caught.value.code is ErrorCode.FORMAT
    with pytest.raises(VeenError) as caught:
        attachments.read(layout, COID)
    assert caught.value.code is ErrorCode.NOTFOUND


def test_a_damaged_attachment_is_not_served_and_sending_it_again_heals_it(layout: Layout) -> None:
    attachments.write(layout, Disk(), COID, SEALED)
    path = attachments.path_of(layout, COID)
    path.write_bytes(SEALED[:-1] + b"!")
    with pytest.raises(StoreError) as caught:
        attachments.read(layout, COID)
    assert caught.value.code is ErrorCode.DAMAGE
    assert attachments.write(layout, Disk(), COID, SEALED)
    assert attachments.read(layout, COID) == SEALED


def test_one_that_was_there_already_is_answered_only_when_its_name_is_durable(
    layout: Layout,
) -> None:
    attachments.write(layout, Disk(), COID, SEALED)
    disk = CountingDisk()
    assert not attachments.write(layout, disk, COID, SEALED)
    assert disk.names == ["sync_dir", "sync_dir"]
