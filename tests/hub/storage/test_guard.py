"""Copies, backups and forks of a data directory: who may go on signing [wire.md, Durability]."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hub import mmr
from hub.errors import ErrorCode, StoreError
from hub.server.core import HubCore
from hub.storage.fsck import run_fsck
from hub.storage.layout import Layout
from hub.types import Label
from hub.wire.receipt import Receipt
from tests.support.hubs import Producer, abandon, contents, fill, label, open_core, opened

A, B = label("A"), label("B")


def roots(core: HubCore) -> dict[Label, bytes]:
    return {name: mmr.root(state.peaks) for name, state in core.store.state.labels.items()}


@pytest.fixture
def producer() -> Producer:
    return Producer("a", A)


@pytest.fixture
def root(tmp_path: Path, producer: Producer) -> Path:
    found = tmp_path / "d"
    with opened(found, segment_bytes=4_000) as core:
        fill(core, [producer, Producer("b", B)], 20)
        core.checkpoint()
    return found


def copy(root: Path, name: str, *, with_heads: bool = True) -> Path:
    target = root.with_name(name)
    shutil.copytree(root, target)
    if with_heads:
        shutil.copy(Layout(root).default_heads(), Layout(target).default_heads())
    return target


def test_a_clone_with_its_heads_has_the_same_roots_keys_and_hub_id(root: Path) -> None:
    clone = copy(root, "clone")
    with opened(root) as core:
        expected = (roots(core), contents(core), core.identity.hub_id, core.identity.key.public)
    with opened(clone) as core:
        assert core.read_only is None
        assert (
            roots(core),
            contents(core),
            core.identity.hub_id,
            core.identity.key.public,
        ) == expected
    assert run_fsck(clone).findings == ()


def test_a_clone_of_the_log_alone_comes_to_the_same_roots(root: Path) -> None:
    clone = root.with_name("clone")
    clone.mkdir()
    for name in ("FORMAT", "keys", "log"):
        source = root / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, clone / name)
    shutil.copy(Layout(root).default_heads(), Layout(clone).default_heads())
    with opened(root) as core, opened(clone) as other:
        assert roots(other) == roots(core)
        assert contents(other) == contents(core)


def test_a_copy_without_heads_reads_but_does_not_write(root: Path, producer: Producer) -> None:
    core = open_core(copy(root, "copy", with_heads=False))
    try:
        assert core.read_only is not None
        assert core.read_only.code is ErrorCode.COPY
        assert len(contents(core)) == 20
        [refused] = core.submit([producer.message()])
        assert isinstance(refused, StoreError)
        assert refused.code is ErrorCode.STORE
    finally:
        core.close()


def test_a_copy_may_be_taken_over_by_who_says_so(root: Path, producer: Producer) -> None:
    target = copy(root, "copy", with_heads=False)
    with opened(target, take_over=True) as core:
        assert core.read_only is None
        fill(core, [producer], 2)
    with opened(target) as core:
        assert core.read_only is None
    assert run_fsck(target).findings == ()


def test_a_restored_backup_is_behind_and_not_even_take_over_makes_it_write(
    root: Path, producer: Producer
) -> None:
    backup = copy(root, "backup", with_heads=False)
    with opened(root) as core:
        fill(core, [producer], 3)
    shutil.copy(Layout(root).default_heads(), Layout(backup).default_heads())
    assert any(found.code == "S.BEHIND" for found in run_fsck(backup).findings)
    for take_over in (False, True):
        core = open_core(backup, take_over=take_over)
        assert core.read_only is not None
        assert core.read_only.code is ErrorCode.BEHIND
        assert len(contents(core)) == 20
        core.close()


def test_another_history_of_the_same_length_is_behind(root: Path, producer: Producer) -> None:
    other = copy(root, "other")
    with opened(root) as core:
        fill(core, [producer], 1)
    with opened(other) as core:
        [outcome] = core.submit([producer.forge(producer.client_seq, salt="other")])
        assert isinstance(outcome, bytes)
    shutil.copy(Layout(root).default_heads(), Layout(other).default_heads())
    core = open_core(other)
    assert core.read_only is not None
    assert core.read_only.code is ErrorCode.BEHIND
    core.close()


def test_heads_behind_the_directory_are_normal(root: Path, producer: Producer) -> None:
    heads = Layout(root).default_heads()
    old = heads.read_bytes()
    with opened(root) as core:
        fill(core, [producer], 3)
    heads.write_bytes(old)
    with opened(root) as core:
        assert core.read_only is None
    assert run_fsck(root).findings == ()


def test_a_fork_keeps_a_prefix_and_signs_on_with_a_key_of_its_own(
    root: Path, producer: Producer
) -> None:
    """Segments are kept up to some point; what was derived from the rest is dropped."""
    fork = copy(root, "fork")
    layout = Layout(fork)
    last = layout.segment_numbers()[-1]
    layout.segment(last).unlink()
    shutil.rmtree(layout.manifests)
    with opened(root) as core:
        parent_id, parent_pk, parent = core.identity.hub_id, core.identity.key.public, roots(core)
        history = contents(core)
    with opened(fork, fork=True) as core:
        assert core.read_only is None
        assert core.identity.hub_id != parent_id
        kept = contents(core)
        assert kept
        assert kept.items() < history.items()
        seq = core.store.state.labels[A].clients[producer.key.public][0]  # type: ignore[index]
        [answer] = core.submit([producer.forge(seq + 1, salt="fork")])
        assert isinstance(answer, bytes)
        Receipt.decode(answer).verify(core.identity.key.public)
        for receipt, _ in kept.values():
            Receipt.decode(receipt).verify(parent_pk)
        core.checkpoint()
        assert roots(core) != parent
    assert run_fsck(fork).findings == ()
    with opened(fork) as core:
        assert core.read_only is None


def test_a_fork_in_the_middle_of_a_batch_goes_on_from_the_last_whole_one(
    root: Path, producer: Producer
) -> None:
    fork = root.with_name("fork")
    fork.mkdir()
    for name in ("FORMAT", "keys", "log"):
        source = root / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, fork / name)
    path = Layout(fork).segment(Layout(fork).segment_numbers()[-1])
    path.write_bytes(path.read_bytes()[:-150])
    with opened(fork, fork=True) as core:
        assert core.read_only is None
        assert core.store.state.entries == 16
    assert run_fsck(fork).findings == ()


def test_two_hubs_on_one_directory_are_refused(root: Path) -> None:
    with opened(root), pytest.raises(StoreError) as caught:
        open_core(root)
    assert caught.value.code is ErrorCode.LOCKED


def test_a_killed_hub_gives_its_directory_up(root: Path) -> None:
    abandon(open_core(root))
    with opened(root) as core:
        assert core.read_only is None


def test_a_leaf_of_the_part_that_a_fork_cut_off_is_no_duplicate(
    root: Path, producer: Producer
) -> None:
    """The leaf index was copied too and knows more than the log."""
    core = open_core(root)
    lost = producer.message()
    fill(core, [Producer("c", label("C"))], 1)
    end = core.store.segments.end
    [answer] = core.submit([lost])
    assert isinstance(answer, bytes)
    core.store.leaves.flush(core.store.state.entries)
    path = Layout(root).segment(core.store.segments.number)
    abandon(core)
    data = path.read_bytes()
    path.write_bytes(data[:end])
    with opened(root, fork=True) as core:
        assert core.read_only is None
        assert core.store.leaves.find(lost.leaf) == []
        [again] = core.submit([lost])
        assert isinstance(again, bytes)
