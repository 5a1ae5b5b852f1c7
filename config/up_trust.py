"""The bundle's trust file: names the hub key once, follows rotations, never anything else.

Trust changes only by an operator's act [wire: trust]: the first `up`, `veen hub key rotate`, or
`up --trust-hub`. A hub that answers with another key is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from config.up_secrets import trust_signing_key
from config.up_state import PUBLIC_FILE, StateDir, write_atomic
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, ProofError, VeenError
from hub.types import HubId, PublicKey
from hub.wire.rotation import RotationRecord, follow
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile


def ensure_trust(
    state: StateDir,
    *,
    hub_pk: PublicKey,
    hub_id: HubId,
    rotations: Sequence[RotationRecord],
    accepted_pk: PublicKey | None = None,
) -> TrustFile:
    """The trust file with this hub's key as the active one, or V.TRUST."""
    key = trust_signing_key(state)
    if not state.trust_pk.exists():
        write_atomic(state.trust_pk, key.public.hex().encode() + b"\n", mode=PUBLIC_FILE)
    if not state.trust.exists():
        hub = TrustedHub(hub_id=hub_id, keys=(TrustedKey(pk=hub_pk, status=KeyStatus.ACTIVE),))
        first = TrustFile(serial=1, realm=f"realm-{key.public.hex()[:8]}", hubs=(hub,))
        _write(state, first, key)
        return first
    held = TrustFile.decode(state.trust.read_bytes())
    wanted = _with_hub(held, hub_pk, hub_id, rotations, accepted_pk)
    if not _is_signed(state, held, key):
        # The signature is written first, so a kill between the two leaves it for the new file.
        if wanted == held or not _is_signed(state, wanted, key):
            raise VeenError(ErrorCode.SIG, f"{state.trust} is not signed by the realm's trust key")
    elif wanted == held:
        return held
    _write(state, wanted, key)
    return wanted


def _with_hub(
    held: TrustFile,
    hub_pk: PublicKey,
    hub_id: HubId,
    rotations: Sequence[RotationRecord],
    accepted_pk: PublicKey | None,
) -> TrustFile:
    mine = next((hub for hub in held.hubs if hub.hub_id == hub_id), None)
    if mine is None:
        if accepted_pk != hub_pk:
            raise ProofError(
                f"the hub here is {hub_id.hex()}, which the trust file does not name; if you made "
                f"it so (a fork, a new directory), say `veen up --trust-hub {hub_pk.hex()}`",
                ErrorCode.TRUST,
            )
        added = TrustedHub(hub_id=hub_id, keys=(TrustedKey(pk=hub_pk, status=KeyStatus.ACTIVE),))
        # First, because this is the hub that the bundle runs.
        return replace(held, serial=held.serial + 1, hubs=(added, *held.hubs))
    active = mine.active
    if active is None:
        raise ProofError("every key of this hub is superseded or revoked", ErrorCode.TRUST)
    if active.pk == hub_pk:
        return held
    revoked = [item.pk for item in mine.keys if item.status is KeyStatus.REVOKED]
    path = follow(active.pk, hub_id, rotations, revoked=revoked)
    if hub_pk not in path:
        raise ProofError(
            "the hub has a key that no rotation record leads to from the trusted one",
            ErrorCode.TRUST,
        )
    keys = _rotated(mine, path[: path.index(hub_pk) + 1], rotations)
    hubs = tuple(replace(hub, keys=keys) if hub is mine else hub for hub in held.hubs)
    return replace(held, serial=held.serial + 1, hubs=hubs)


def _rotated(
    hub: TrustedHub, path: Sequence[PublicKey], rotations: Sequence[RotationRecord]
) -> tuple[TrustedKey, ...]:
    """The hub's keys with each key of the path but the last superseded by the next."""
    ends = {record.old_pk: record for record in rotations}
    kept = [key for key in hub.keys if key.pk not in path]
    old = [
        TrustedKey(
            pk=pk,
            status=KeyStatus.SUPERSEDED,
            superseded_by=ends[pk].new_pk,
            last_manifest_id=ends[pk].manifest_id,
        )
        for pk in path[:-1]
    ]
    return (*kept, *old, TrustedKey(pk=path[-1], status=KeyStatus.ACTIVE))


def _is_signed(state: StateDir, trust: TrustFile, key: SigningKey) -> bool:
    try:
        trust.verify(state.trust_sig.read_bytes(), key.public)
    except (FileNotFoundError, VeenError):
        return False
    return True


def _write(state: StateDir, trust: TrustFile, key: SigningKey) -> None:
    write_atomic(state.trust_sig, trust.sign(key), mode=PUBLIC_FILE)
    write_atomic(state.trust, trust.encode(), mode=PUBLIC_FILE)
