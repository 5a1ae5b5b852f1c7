from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from config.up_state import (
    StateDir,
    held_lock,
    lock_holder,
    make_directories,
    read_json,
    write_atomic,
    write_json,
)
from hub.errors import ErrorCode, VeenError


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    state = StateDir.at(tmp_path / "state")
    make_directories(state)
    return state


def test_a_relative_directory_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert StateDir.at(Path("here")).root == tmp_path / "here"


def test_the_heads_lie_beside_the_state_and_not_inside(state: StateDir) -> None:
    assert state.heads.parent == state.root.parent
    assert state.heads.name == "state.heads"


def test_rooms_are_for_the_owner_only_and_wide_ones_are_narrowed(state: StateDir) -> None:
    state.secrets.chmod(0o755)
    make_directories(state)
    for room in (state.root, state.secrets, state.web, state.run):
        assert stat.S_IMODE(room.stat().st_mode) == 0o700


def test_a_written_file_is_whole_private_and_leaves_nothing_beside_it(state: StateDir) -> None:
    path = state.secret("thing")
    (path.with_name("thing.tmp")).write_text("left by a kill")
    write_atomic(path, b"secret")
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(state.secrets.iterdir()) == [path]


def test_a_link_put_in_place_of_the_temporary_file_is_not_followed(state: StateDir) -> None:
    elsewhere = state.root / "elsewhere"
    elsewhere.write_text("mine")
    state.secret("thing.tmp").symlink_to(elsewhere)
    write_atomic(state.secret("thing"), b"secret")
    assert elsewhere.read_text() == "mine"
    assert not state.secret("thing").is_symlink()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b"\xff"])
def test_a_file_that_is_no_object_reads_as_missing(state: StateDir, content: bytes) -> None:
    state.status.write_bytes(content)
    assert read_json(state.status) is None


def test_an_object_reads_as_it_was_written(state: StateDir) -> None:
    write_json(state.status, {"a": [1, None]})
    assert read_json(state.status) == {"a": [1, None]}


def test_a_held_lock_names_its_holder_and_refuses_a_second(state: StateDir) -> None:
    assert lock_holder(state) is None
    with held_lock(state):
        assert lock_holder(state) == os.getpid()
        with pytest.raises(VeenError) as refusal, held_lock(state):
            pytest.fail("a second lock was given")
    assert refusal.value.code is ErrorCode.LOCKED
    assert f"already up on {state.root} (process {os.getpid()})" in refusal.value.detail
    assert lock_holder(state) is None


def test_the_pid_of_a_dead_holder_is_not_believed(state: StateDir) -> None:
    state.lock.write_text("1\n")  # a process that lives, and is not ours
    assert lock_holder(state) is None


def test_a_lock_is_gone_with_its_process(state: StateDir) -> None:
    child = os.fork()
    if child == 0:
        with held_lock(state):
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert lock_holder(state) is None
    with held_lock(state):
        pass
