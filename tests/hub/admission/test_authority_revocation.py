from __future__ import annotations

import pytest

from hub.admission.records import AdmissionRecord, RevocationKind
from hub.errors import ErrorCode, VeenError
from tests.support.capabilities import (
    ALICE,
    BOB,
    ISSUER,
    T0,
    TTL,
    authorize_code,
    check,
    code_of,
    revocation,
    state_with,
    token,
)


@pytest.mark.parametrize("is_revoked_first", [False, True])
@pytest.mark.parametrize("kind", RevocationKind)
def test_each_kind_of_revocation_stops_the_capability(
    kind: RevocationKind, *, is_revoked_first: bool
) -> None:
    one = token()
    targets = {
        RevocationKind.CLIENT_ID: ALICE,
        RevocationKind.AUTH_REF: one.auth_ref(),
        RevocationKind.CAP_TOKEN: one.revocation_target(),
    }
    state = state_with(*([] if is_revoked_first else [one]))
    state.apply_revocation(revocation(kind, targets[kind]))
    if is_revoked_first:
        state.apply_admission(AdmissionRecord.of(one), T0)
    assert code_of(state, one.auth_ref()) is ErrorCode.CAP


def test_a_target_counts_only_under_its_own_kind() -> None:
    one = token()
    state = state_with(one)
    for kind, target in (
        (RevocationKind.CLIENT_ID, one.auth_ref()),
        (RevocationKind.AUTH_REF, ALICE),
        (RevocationKind.AUTH_REF, one.revocation_target()),
        (RevocationKind.CAP_TOKEN, one.auth_ref()),
    ):
        state.apply_revocation(revocation(kind, target))
    check(state, one.auth_ref())


def test_a_revocation_holds_from_ts_until_before_ts_plus_ttl() -> None:
    one = token()
    state = state_with(one)
    state.apply_revocation(revocation(RevocationKind.AUTH_REF, one.auth_ref(), T0 + 10, 20))
    check(state, one.auth_ref(), hub_ts=T0 + 9)
    for seconds in (10, 29):
        assert code_of(state, one.auth_ref(), hub_ts=T0 + seconds) is ErrorCode.CAP
    check(state, one.auth_ref(), hub_ts=T0 + 30)


@pytest.mark.parametrize("kind", [RevocationKind.AUTH_REF, RevocationKind.CAP_TOKEN])
@pytest.mark.parametrize("revoked_links", [1, 2, 3])
def test_revocation_belongs_to_the_core_not_to_one_chain(
    kind: RevocationKind, revoked_links: int
) -> None:
    three = token().renew(ISSUER).renew(ISSUER)
    revoked = three.prefixes()[revoked_links - 1]
    is_auth_ref = kind is RevocationKind.AUTH_REF
    target = revoked.auth_ref() if is_auth_ref else revoked.revocation_target()
    state = state_with(three)
    state.apply_revocation(revocation(kind, target))
    assert code_of(state, three.auth_ref()) is ErrorCode.CAP
    assert authorize_code(state, three) is ErrorCode.CAP
    # Renewal does not wash a revocation off.
    assert authorize_code(state, three.renew(ISSUER)) is ErrorCode.CAP


@pytest.mark.parametrize("kind", [RevocationKind.AUTH_REF, RevocationKind.CAP_TOKEN])
def test_a_chain_with_a_revoked_prefix_is_not_authorized_though_never_seen(
    kind: RevocationKind,
) -> None:
    one = token()
    is_auth_ref = kind is RevocationKind.AUTH_REF
    state = state_with()
    state.apply_revocation(
        revocation(kind, one.auth_ref() if is_auth_ref else one.revocation_target())
    )
    for chain in (one, one.renew(ISSUER), one.renew(ISSUER).renew(ISSUER)):
        assert authorize_code(state, chain) is ErrorCode.CAP


def test_a_revoked_client_is_refused_with_every_capability_and_alone() -> None:
    one, other = token(), token(ttl=TTL + 1)
    state = state_with(one, other)
    state.apply_revocation(revocation(RevocationKind.CLIENT_ID, ALICE))
    for item in (one, other):
        assert code_of(state, item.auth_ref()) is ErrorCode.CAP
    with pytest.raises(VeenError) as refusal:
        state.check_client(ALICE, T0)
    assert refusal.value.code is ErrorCode.CAP
    state.check_client(BOB, T0)
    state.check_client(ALICE, T0 - 1)
