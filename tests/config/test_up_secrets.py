from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import pytest

from config.up_secrets import (
    KEYSTORE,
    PASSPHRASE,
    ROUTING_KEY,
    complete_first_run,
    realm_keys,
)
from config.up_state import StateDir
from hub import keystore
from hub.errors import ErrorCode, VeenError
from tests.config.killing import run_and_kill

FILES = {
    "routing.key", "passphrase", "keystore.enc", "engine.keys", "trust.key", "django.key",
    "admin.token",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cheap_stretching(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested is the order of writes; a keystore says its own cost."""
    monkeypatch.setattr(keystore, "_PASSES", 1)
    monkeypatch.setattr(keystore, "_MEMORY_KIB", 64)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir.at(tmp_path / "state")


def contents(state: StateDir) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in state.secrets.iterdir()}


def test_the_first_run_makes_every_secret_for_the_owner_only(state: StateDir) -> None:
    complete_first_run(state)
    assert contents(state).keys() == FILES
    assert {stat.S_IMODE(p.stat().st_mode) for p in state.secrets.iterdir()} == {0o600}
    keys = realm_keys(state)
    assert len({keys.issuer_pk, keys.recorder_admin_pk, keys.trust_pk}) == 3


def test_a_second_run_changes_nothing(state: StateDir) -> None:
    complete_first_run(state)
    before = contents(state)
    complete_first_run(state)
    assert contents(state) == before


def test_two_bundles_share_no_secret(tmp_path: Path) -> None:
    one, two = StateDir.at(tmp_path / "one"), StateDir.at(tmp_path / "two")
    complete_first_run(one)
    complete_first_run(two)
    assert not set(contents(one).values()) & set(contents(two).values())


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
def test_a_run_killed_at_any_system_call_is_completed_by_the_next(
    tmp_path: Path, *, after: bool
) -> None:
    at = 0
    was_killed = True
    while was_killed:
        at += 1
        state = StateDir.at(tmp_path / f"killed-{at}")
        was_killed = run_and_kill(partial(complete_first_run, state), at=at, after=after)
        kept = {name: data for name, data in _kept(state).items() if not name.endswith(".tmp")}
        complete_first_run(state)
        realm_keys(state)
        assert contents(state).keys() == FILES
        assert kept.items() <= contents(state).items(), "a secret that was there was replaced"
    assert at > 3 * len(FILES), "the kill never reached most of the writes"


def _kept(state: StateDir) -> dict[str, bytes]:
    return contents(state) if state.secrets.is_dir() else {}


def test_a_lost_passphrase_is_said_and_not_replaced(state: StateDir) -> None:
    complete_first_run(state)
    state.secret(PASSPHRASE).unlink()
    with pytest.raises(VeenError) as refusal:
        complete_first_run(state)
    assert refusal.value.code is ErrorCode.KEYSTORE
    assert not state.secret(PASSPHRASE).exists()


def test_another_passphrase_does_not_open_the_keystore(state: StateDir) -> None:
    complete_first_run(state)
    state.secret(PASSPHRASE).write_text("guess")
    with pytest.raises(VeenError) as refusal:
        realm_keys(state)
    assert refusal.value.code is ErrorCode.KEYSTORE


@pytest.mark.parametrize("name", [KEYSTORE, PASSPHRASE, "trust.key"])
def test_a_secret_open_to_others_is_not_used(state: StateDir, name: str) -> None:
    complete_first_run(state)
    state.secret(name).chmod(0o640)
    with pytest.raises(VeenError) as refusal:
        realm_keys(state)
    assert refusal.value.code is ErrorCode.KEYSTORE


def test_the_routing_key_is_a_key_file(state: StateDir) -> None:
    complete_first_run(state)
    assert len(keystore.read_key_file(state.secret(ROUTING_KEY))) == 32
