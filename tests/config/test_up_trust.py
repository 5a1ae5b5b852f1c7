from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from config.up_secrets import make_trust_key, trust_signing_key
from config.up_state import StateDir, make_directories
from config.up_trust import ensure_trust
from hub.crypto.hashing import h
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import HubId, ManifestId, PublicKey, UnixSeconds
from hub.wire.rotation import RotationRecord, hub_id_of
from hub.wire.trust import KeyStatus, TrustFile
from tests.config.killing import run_and_kill

FIRST, SECOND, THIRD = (SigningKey(h(name)) for name in (b"first", b"second", b"third"))
HUB_ID = hub_id_of(FIRST.public)


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return new_state(tmp_path / "state")


def new_state(place: Path) -> StateDir:
    state = StateDir.at(place)
    make_directories(state)
    make_trust_key(state)
    return state


def rotation(old: SigningKey, new: SigningKey, hub_id: HubId = HUB_ID) -> RotationRecord:
    manifest_id = ManifestId(h(b"last manifest of " + old.public))
    return RotationRecord.sign(old, new, hub_id=hub_id, ts=UnixSeconds(1), manifest_id=manifest_id)


def trust_with(
    state: StateDir,
    key: SigningKey,
    *rotations: RotationRecord,
    hub_id: HubId = HUB_ID,
    accepted_pk: PublicKey | None = None,
) -> TrustFile:
    return ensure_trust(
        state,
        hub_pk=key.public,
        hub_id=hub_id,
        rotations=rotations,
        accepted_pk=accepted_pk,
    )


def on_disk(state: StateDir) -> TrustFile:
    """What a verifier that holds only the public key would accept."""
    trust_pk = PublicKey(bytes.fromhex(state.trust_pk.read_text()))
    return TrustFile.accept(
        state.trust.read_bytes(), state.trust_sig.read_bytes(), trust_pk=trust_pk
    )


def test_the_first_hub_key_is_named_and_signed(state: StateDir) -> None:
    trust_with(state, FIRST)
    trust = on_disk(state)
    assert trust.serial == 1
    assert trust.find(FIRST.public)[1].status is KeyStatus.ACTIVE


def test_the_same_key_again_changes_nothing(state: StateDir) -> None:
    trust_with(state, FIRST)
    before = state.trust.read_bytes(), state.trust.stat().st_mtime_ns
    trust_with(state, FIRST)
    assert (state.trust.read_bytes(), state.trust.stat().st_mtime_ns) == before


def test_another_key_without_a_rotation_record_is_refused(state: StateDir) -> None:
    trust_with(state, FIRST)
    with pytest.raises(VeenError) as refusal:
        trust_with(state, SECOND)
    assert refusal.value.code is ErrorCode.TRUST
    assert on_disk(state).serial == 1


def test_a_forged_rotation_record_is_refused(state: StateDir) -> None:
    trust_with(state, FIRST)
    real = rotation(THIRD, SECOND)
    forged = RotationRecord(
        hub_id=HUB_ID,
        old_pk=FIRST.public,
        new_pk=SECOND.public,
        ts=real.ts,
        manifest_id=real.manifest_id,
        old_sig=real.old_sig,
        new_sig=real.new_sig,
    )
    with pytest.raises(VeenError) as refusal:
        trust_with(state, SECOND, forged)
    assert refusal.value.code is ErrorCode.SIG
    assert on_disk(state).serial == 1


def test_rotations_are_followed_and_old_keys_keep_their_last_manifest(state: StateDir) -> None:
    trust_with(state, FIRST)
    records = rotation(FIRST, SECOND), rotation(SECOND, THIRD)
    trust_with(state, THIRD, *records)
    trust = on_disk(state)
    assert trust.serial == 2
    assert [key.status.value for key in trust.hubs[0].keys] == [
        "superseded",
        "superseded",
        "active",
    ]
    assert trust.find(FIRST.public)[1].last_manifest_id == records[0].manifest_id
    assert trust.find(SECOND.public)[1].superseded_by == THIRD.public


def test_going_back_to_a_superseded_key_is_refused(state: StateDir) -> None:
    trust_with(state, FIRST)
    trust_with(state, SECOND, rotation(FIRST, SECOND))
    with pytest.raises(VeenError) as refusal:
        trust_with(state, FIRST, rotation(FIRST, SECOND))
    assert refusal.value.code is ErrorCode.TRUST


def test_another_log_is_taken_only_when_the_operator_names_its_key(state: StateDir) -> None:
    trust_with(state, FIRST)
    other_id = hub_id_of(SECOND.public)
    with pytest.raises(VeenError, match="--trust-hub"):
        trust_with(state, SECOND, hub_id=other_id)
    with pytest.raises(VeenError, match="--trust-hub"):
        trust_with(state, SECOND, hub_id=other_id, accepted_pk=THIRD.public)
    trust_with(state, SECOND, hub_id=other_id, accepted_pk=SECOND.public)
    assert [hub.hub_id for hub in on_disk(state).hubs] == [other_id, HUB_ID]


def test_a_changed_trust_file_is_never_signed_again(state: StateDir) -> None:
    trust_with(state, FIRST)
    changed = state.trust.read_bytes().replace(FIRST.public.hex().encode(), b"ab" * 32)
    state.trust.write_bytes(changed)
    for key in (FIRST, SECOND):
        with pytest.raises(VeenError):
            trust_with(state, key, rotation(FIRST, SECOND))
    assert state.trust.read_bytes() == changed


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
def test_killed_at_any_system_call_the_next_run_completes_it(
    tmp_path: Path, *, after: bool
) -> None:
    at = 0
    was_killed = True
    while was_killed:
        at += 1
        state = new_state(tmp_path / f"killed-{at}")
        was_killed = run_and_kill(partial(_live, state), at=at, after=after)
        if not state.trust.exists():
            trust_with(state, FIRST)
        trust_with(state, SECOND, rotation(FIRST, SECOND))
        assert on_disk(state).find(SECOND.public)[1].status is KeyStatus.ACTIVE
        assert on_disk(state).realm == f"realm-{trust_signing_key(state).public.hex()[:8]}"
    assert at > 10


def _live(state: StateDir) -> None:
    trust_with(state, FIRST)
    trust_with(state, SECOND, rotation(FIRST, SECOND))
