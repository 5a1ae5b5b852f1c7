"""A key change stopped at each of its steps: the record is the moment of truth [KEX0.1]."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server.config import HubConfig
from hub.server.core import HubCore, open_hub
from hub.server.identity import Identity
from hub.storage import manifests
from hub.storage.disk import Disk
from hub.storage.reader import LogReader
from hub.types import Label, PublicKey
from hub.wire.manifest import Manifest
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, decode_record, follow
from tests.support.hubs import abandon
from tests.support.live_hub import Author, check_fsck, commit, receipt_of

LABEL = Label(b"k" * 32)


class Stop(BaseException):
    """The process ends here."""


@dataclass
class Counting:
    """Counts the calls of a disk, and ends the process or fails at one of them."""

    at: int = 0
    error: BaseException | None = None
    calls: list[str] = field(default_factory=list)
    counting: bool = False

    def step(self, name: str) -> None:
        if not self.counting:
            return
        self.calls.append(name)
        if len(self.calls) == self.at and self.error is not None:
            raise self.error


class SteppedDisk(Disk):
    """A disk whose changing calls are counted."""

    __slots__ = ("steps",)

    def __init__(self, steps: Counting) -> None:
        super().__init__()
        self.steps = steps

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self.steps.step("pwrite")
        super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        self.steps.step("fdatasync")
        super().fdatasync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        self.steps.step("ftruncate")
        super().ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self.steps.step("rename")
        super().rename(source, target)

    def sync_dir(self, path: Path) -> None:
        self.steps.step("sync_dir")
        super().sync_dir(path)


def config_in(path: Path) -> HubConfig:
    return HubConfig(data_dir=path / "d", open_admission=True)


def check_history(config: HubConfig, first_pk: PublicKey, author: Author) -> None:
    """After a start: it writes, each receipt is under a key of the chain, old ones are covered."""
    core = open_hub(config)
    try:
        receipt_of(core, author.next())
        records = [decode_record(item) for item in core.identity.records.records]
        rotations = [record for record in records if isinstance(record, RotationRecord)]
        keys = follow(first_pk, core.identity.hub_id, rotations)
        assert keys[-1] == core.identity.key.public
        core.checkpoint()
        signer_before = 0
        reader = LogReader(config.data_dir)
        for seq in range(1, reader.count(LABEL) + 1):
            receipt = Receipt.decode(reader.receipt(LABEL, seq))
            signer = next(n for n, key in enumerate(keys) if is_signed_by(receipt, key))
            assert signer >= signer_before
            signer_before = signer
            if signer < len(rotations):
                last = manifests.read(core.store.layout, rotations[signer].manifest_id)
                assert last is not None
                manifest = Manifest.decode(last)
                manifest.verify(rotations[signer].old_pk)
                checkpoint = manifest.checkpoint(LABEL)
                assert checkpoint is not None
                assert seq <= checkpoint.upto_seq
        for manifest in manifests.chain(core.store.layout):
            assert manifest.hub_pk in keys
            manifest.verify(manifest.hub_pk)
        _check_checkpoint_files(core, reader)
        reader.close()
    finally:
        core.close()


def _check_checkpoint_files(core: HubCore, reader: LogReader) -> None:
    latest = manifests.latest_id(core.store.layout)
    assert latest is not None
    data = manifests.read(core.store.layout, latest)
    assert data is not None
    for checkpoint in Manifest.decode(data).checkpoints:
        label = checkpoint.label_curr
        count = reader.checkpoint_count(label)
        assert reader.checkpoint(label, count - 1)[1] == checkpoint.encode()


def is_signed_by(receipt: Receipt, key: PublicKey) -> bool:
    try:
        receipt.verify(key)
    except VeenError:
        return False
    return True


def steps_of_a_rotation(tmp_path: Path) -> int:
    steps = Counting()
    core = open_hub(config_in(tmp_path / "count"), SteppedDisk(steps))
    receipt_of(core, Author(LABEL).next())
    steps.counting = True
    core.rotate()
    steps.counting = False
    core.close()
    return len(steps.calls)


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["stop", "error"])
def test_a_rotation_that_stops_at_any_call_is_undone_or_finished(
    tmp_path: Path, flavour: str
) -> None:
    total = steps_of_a_rotation(tmp_path)
    assert total > 10
    outcomes = set()
    for at in range(1, total + 1):
        config = config_in(tmp_path / f"{flavour}{at}")
        error: BaseException = Stop() if flavour == "stop" else OSError(errno.EIO, "refused")
        steps = Counting(at=at, error=error)
        core = open_hub(config, SteppedDisk(steps))
        first_pk, author = core.identity.key.public, Author(LABEL)
        receipt_of(core, author.next())
        steps.counting = True
        try:
            core.rotate()
            rotated = True
        except (Stop, OSError, VeenError):
            rotated = False
        steps.counting = False
        if flavour == "error":
            # The hub lives on: what it signs now must still fit the chain after a start.
            outcomes_now = commit(core, author.draft().encode())
            if isinstance(outcomes_now[0], Receipt):
                author.seq += 1
            else:
                assert outcomes_now == [ErrorCode.STORE]
        abandon(core)
        check_history(config, first_pk, author)
        check_fsck(config.data_dir)
        again = open_hub(config)
        changed = again.identity.key.public != first_pk
        again.close()
        assert changed or not rotated
        outcomes.add(changed)
    assert outcomes == {True, False}  # both sides of the moment of truth were met


@pytest.mark.parametrize("step", ["stage_next_key", "adopt"])
def test_a_stop_right_behind_a_named_step_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    config = config_in(tmp_path)
    core = open_hub(config)
    first_pk, author = core.identity.key.public, Author(LABEL)
    receipt_of(core, author.next())
    with monkeypatch.context() as patch:
        if step == "adopt":
            patch.setattr(Identity, "_rename_next", _stop)  # the record is there, the rename not
        else:
            original = Identity.stage_next_key
            patch.setattr(Identity, "stage_next_key", _then_stop(original))
        with pytest.raises(Stop):
            core.rotate()
    abandon(core)
    check_history(config, first_pk, author)
    again = open_hub(config)
    assert (again.identity.key.public != first_pk) == (step == "adopt")
    assert not (again.store.layout.keys / "hub.key.next").exists()
    again.close()


def _stop(_self: Identity) -> None:
    raise Stop


def _then_stop(original: Callable[[Identity], object]) -> Callable[[Identity], None]:
    def stopped(self: Identity) -> None:
        original(self)
        raise Stop

    return stopped


def test_a_hub_key_that_the_records_do_not_name_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    core = open_hub(config)
    old = (core.store.layout.keys / "hub.key").read_bytes()
    core.rotate()
    core.close()
    (config.data_dir / "keys" / "hub.key").write_bytes(old)
    with pytest.raises(VeenError) as refused:
        open_hub(config)
    assert refused.value.code is ErrorCode.DAMAGE
