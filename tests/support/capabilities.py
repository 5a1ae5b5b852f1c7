"""Capabilities of a small cast, and an admission state to judge them."""

from __future__ import annotations

import pytest

from hub import label as labels
from hub.admission.authority import AdmissionState, Grant
from hub.admission.records import AdmissionRecord, Revocation, RevocationKind
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import AuthRef, ClientId, Hash, Label, StreamId, UnixSeconds
from hub.wire.captoken import CapToken
from hub.wire.profile import PRODUCT, Profile

ISSUER = SigningKey(bytes([1]) * 32)
STRANGER = SigningKey(bytes([2]) * 32)
ALICE = ClientId(SigningKey(bytes([3]) * 32).public)
BOB = ClientId(SigningKey(bytes([4]) * 32).public)
ROUTING_KEY = bytes([5]) * 32
STREAM = StreamId(bytes([6]) * 32)
OTHER_STREAM = StreamId(bytes([7]) * 32)
LABEL = labels.derive(ROUTING_KEY, STREAM)
T0 = 1_700_000_000
TTL = 600
TOP = 2**64 - 1
EPOCHS = Profile(epoch_sec=100, pad_block=0)


def token(**fields: object) -> CapToken:
    chosen = {"subject_pk": ALICE, "stream_ids": [STREAM], "ttl": TTL, **fields}
    return CapToken.issue(ISSUER, **chosen)  # type: ignore[arg-type]


def state_with(*tokens: CapToken, at: int = T0) -> AdmissionState:
    state = AdmissionState({ISSUER.public})
    for item in tokens:
        state.apply_admission(AdmissionRecord.of(item), at)
    return state


def revocation(
    kind: RevocationKind, target: bytes, ts: int = T0, ttl: int | None = None
) -> Revocation:
    return Revocation(kind=kind, target=Hash(target), ts=UnixSeconds(ts), ttl=ttl)


def check(
    state: AdmissionState,
    auth_ref: AuthRef | None,
    *,
    client_id: ClientId = ALICE,
    label: Label = LABEL,
    hub_ts: int = T0,
    profile: Profile = PRODUCT,
    routing_key: bytes | None = ROUTING_KEY,
) -> Grant:
    return state.check(auth_ref, client_id, label, hub_ts, profile, routing_key)


def code_of(state: AdmissionState, auth_ref: AuthRef | None, **given: object) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        check(state, auth_ref, **given)  # type: ignore[arg-type]
    return refusal.value.code


def authorize_code(state: AdmissionState, item: CapToken, hub_ts: int = T0) -> ErrorCode:
    with pytest.raises(VeenError) as refusal:
        state.authorize(item.encode(), hub_ts)
    return refusal.value.code
