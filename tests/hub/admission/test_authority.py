from __future__ import annotations

from dataclasses import replace

import pytest

from hub.admission.authority import (
    AdmissionState,
    Grant,
    is_service_message,
)
from hub.admission.records import AdmissionRecord, RevocationKind
from hub.errors import ErrorCode, VeenError, WireError
from hub.types import AuthRef, Label
from hub.wire.captoken import CapToken, Rate
from tests.support.capabilities import (
    ALICE,
    BOB,
    ISSUER,
    LABEL,
    STRANGER,
    STREAM,
    T0,
    TOP,
    TTL,
    authorize_code,
    check,
    code_of,
    revocation,
    state_with,
    token,
)

# -- known


def test_an_admitted_capability_grants_its_core_rate_and_subject() -> None:
    limited = token(rate=Rate(per_sec=5, burst=10))
    assert check(state_with(limited), limited.auth_ref()) == Grant(
        auth_ref=limited.auth_ref(),
        core_id=limited.core_id(),
        subject=limited.subject_pk,
        rate=Rate(per_sec=5, burst=10),
        expires_at=T0 + TTL,
    )


def test_a_missing_or_unknown_auth_ref_is_no_authority() -> None:
    state = state_with(token())
    assert code_of(state, None) is ErrorCode.AUTH
    assert code_of(state, AuthRef(bytes(32))) is ErrorCode.AUTH


def test_an_admitted_token_is_found_by_its_auth_ref_whatever_became_of_it() -> None:
    one = token()
    state = state_with(one, one.renew(ISSUER))
    assert state.token_of(one.auth_ref()) == one
    assert state.token_of(bytes(32)) is None
    assert state.token_of(None) is None


def test_a_signed_token_that_was_never_authorized_is_unknown() -> None:
    assert code_of(state_with(), token().auth_ref()) is ErrorCode.AUTH


# -- ttl


def test_a_capability_holds_up_to_and_including_issued_at_plus_ttl() -> None:
    one = token()
    state = state_with(one)
    check(state, one.auth_ref(), hub_ts=T0 + TTL)
    assert code_of(state, one.auth_ref(), hub_ts=T0 + TTL + 1) is ErrorCode.TIME


def test_the_end_of_a_capability_saturates() -> None:
    for_ever = token(ttl=TOP)
    assert check(state_with(for_ever), for_ever.auth_ref(), hub_ts=TOP).expires_at == TOP


def test_admitting_the_same_chain_again_keeps_the_first_issued_at() -> None:
    one = token()
    state = state_with(one)
    state.apply_admission(AdmissionRecord.of(one), T0 + 500)
    assert check(state, one.auth_ref()).expires_at == T0 + TTL


def test_a_record_that_holds_no_token_is_refused_by_the_fold() -> None:
    record = AdmissionRecord(token=b"\xa0", auth_ref=AuthRef(bytes(32)))
    with pytest.raises(WireError):
        state_with().apply_admission(record, T0)


# -- authorize


def test_authorizing_a_new_token_gives_the_record_to_append() -> None:
    one = token()
    judged = state_with().authorize(one.encode(), T0)
    assert judged.record == AdmissionRecord.of(one)
    assert (judged.is_new, judged.expires_at) == (True, T0 + TTL)


@pytest.mark.parametrize("later", [1, TTL, TTL + 1, 10 * TTL])
def test_authorizing_again_gives_the_first_expires_at_also_after_expiry(later: int) -> None:
    one = token()
    judged = state_with(one).authorize(one.encode(), T0 + later)
    assert (judged.is_new, judged.expires_at) == (False, T0 + TTL)


def test_authorizing_changes_nothing_until_the_record_is_folded() -> None:
    state = state_with()
    before = state.summary()
    state.authorize(token().encode(), T0)
    assert state.summary() == before


def test_an_issuer_that_configuration_does_not_name_is_refused() -> None:
    foreign = CapToken.issue(STRANGER, subject_pk=ALICE, stream_ids=[STREAM], ttl=TTL)
    assert authorize_code(state_with(), foreign) is ErrorCode.CAP
    assert code_of(state_with(foreign), foreign.auth_ref()) is ErrorCode.CAP


def test_trust_in_an_issuer_is_never_learned_from_a_token() -> None:
    one = token()
    nobody_trusted = AdmissionState.from_summary(state_with(one).summary(), ())
    assert code_of(nobody_trusted, one.auth_ref()) is ErrorCode.CAP
    assert authorize_code(nobody_trusted, one) is ErrorCode.CAP


def test_a_chain_that_does_not_verify_is_not_authorized() -> None:
    one = token()
    forged = replace(one, sig_chain=(STRANGER.sign(one.link_digests()[0]),))
    assert authorize_code(state_with(), forged) is ErrorCode.CAP


def test_bytes_that_are_no_token_are_a_format_error() -> None:
    with pytest.raises(VeenError) as refusal:
        state_with().authorize(b"\xa0", T0)
    assert refusal.value.code is ErrorCode.FORMAT


# -- renewal by link


def test_a_renewed_chain_has_its_own_issued_at() -> None:
    one = token()
    renewed = one.renew(ISSUER)
    state = state_with(one)
    judged = state.authorize(renewed.encode(), T0 + 500)
    assert (judged.is_new, judged.expires_at) == (True, T0 + 500 + TTL)
    state.apply_admission(judged.record, T0 + 500)
    check(state, renewed.auth_ref(), hub_ts=T0 + 500 + TTL)


def test_only_the_longest_chain_seen_is_honoured() -> None:
    one = token()
    two, three = one.renew(ISSUER), one.renew(ISSUER).renew(ISSUER)
    state = state_with(one, two, three)
    for shorter in (one, two):
        assert code_of(state, shorter.auth_ref()) is ErrorCode.CAP
    check(state, three.auth_ref())


def test_a_holder_cannot_cut_a_chain_to_win_time() -> None:
    """The cut token is validly signed and never seen before, so it would get a new issued_at."""
    three = token().renew(ISSUER).renew(ISSUER)
    state = state_with(three)
    for cut in three.prefixes()[:-1]:
        assert authorize_code(state, cut, T0 + TTL) is ErrorCode.CAP


def test_a_superseded_chain_is_refused_also_when_it_was_authorized_before() -> None:
    one = token()
    assert authorize_code(state_with(one, one.renew(ISSUER)), one) is ErrorCode.CAP


def test_a_shorter_chain_folded_late_does_not_become_the_longest() -> None:
    one = token()
    two = one.renew(ISSUER)
    state = state_with(two, one)
    check(state, two.auth_ref())
    assert code_of(state, one.auth_ref()) is ErrorCode.CAP


def test_chains_of_other_cores_do_not_supersede() -> None:
    one, other = token(), token(ttl=TTL + 1)
    state = state_with(one, other.renew(ISSUER))
    check(state, one.auth_ref())


def test_all_chains_of_a_core_share_one_bucket_key() -> None:
    one = token(rate=Rate(per_sec=1, burst=1))
    two = one.renew(ISSUER)
    before = check(state_with(one), one.auth_ref())
    assert check(state_with(one, two), two.auth_ref()).core_id == before.core_id


# -- subject


def test_the_subject_of_a_capability_is_the_client() -> None:
    one = token()
    assert code_of(state_with(one), one.auth_ref(), client_id=BOB) is ErrorCode.CAP


def test_the_subject_is_granted_what_is_no_message() -> None:
    one = token()
    state = state_with(one)
    assert state.check_subject(one.auth_ref(), T0).subject == one.subject_pk
    for auth_ref, hub_ts, code in (
        (None, T0, ErrorCode.AUTH),
        (AuthRef(bytes(32)), T0, ErrorCode.AUTH),
        (one.auth_ref(), T0 + TTL + 1, ErrorCode.TIME),
    ):
        with pytest.raises(VeenError) as refusal:
            state.check_subject(auth_ref, hub_ts)
        assert refusal.value.code is code
    state.apply_revocation(revocation(RevocationKind.CLIENT_ID, ALICE))
    with pytest.raises(VeenError) as refusal:
        state.check_subject(one.auth_ref(), T0)
    assert refusal.value.code is ErrorCode.CAP


# -- the order of the rules


def test_the_first_broken_rule_names_the_refusal() -> None:
    """Each step repairs the rule that was named, and the next one in order is named."""
    one = CapToken.issue(STRANGER, subject_pk=ALICE, stream_ids=[STREAM], ttl=TTL)
    wrong = {"client_id": BOB, "label": Label(bytes(32)), "hub_ts": T0 + TTL + 1}

    def refusal(state: AdmissionState, **given: object) -> tuple[ErrorCode, str]:
        with pytest.raises(VeenError) as found:
            check(state, one.auth_ref(), **given)  # type: ignore[arg-type]
        return found.value.code, found.value.detail.split()[-1]

    revoked = AdmissionState(())
    assert refusal(revoked, **wrong) == (ErrorCode.AUTH, "auth_ref")
    revoked.apply_admission(AdmissionRecord.of(one), T0)
    revoked.apply_admission(AdmissionRecord.of(one.renew(STRANGER)), T0)
    revoked.apply_revocation(revocation(RevocationKind.AUTH_REF, one.auth_ref()))
    assert refusal(revoked, **wrong) == (ErrorCode.CAP, "revoked")
    superseded = AdmissionState(())
    superseded.apply_admission(AdmissionRecord.of(one), T0)
    superseded.apply_admission(AdmissionRecord.of(one.renew(STRANGER)), T0)
    assert refusal(superseded, **wrong) == (ErrorCode.CAP, "one")
    untrusted = AdmissionState(())
    untrusted.apply_admission(AdmissionRecord.of(one), T0)
    assert refusal(untrusted, **wrong) == (ErrorCode.CAP, "here")
    trusted = AdmissionState.from_summary(untrusted.summary(), {STRANGER.public})
    assert refusal(trusted, **wrong) == (ErrorCode.TIME, "over")
    assert refusal(trusted, **{**wrong, "hub_ts": T0}) == (ErrorCode.CAP, "client_id")
    assert refusal(trusted, label=Label(bytes(32))) == (ErrorCode.CAP, "allows")
    check(trusted, one.auth_ref())


# -- the hub's own label


def test_only_the_service_identity_writes_to_the_admission_label() -> None:
    own = {"admission_label": LABEL, "service_id": ALICE}
    assert is_service_message(label=LABEL, client_id=ALICE, **own)
    assert not is_service_message(label=bytes(32), client_id=ALICE, **own)
    assert not is_service_message(label=bytes(32), client_id=BOB, **own)
    with pytest.raises(VeenError) as refusal:
        is_service_message(label=LABEL, client_id=BOB, **own)
    assert refusal.value.code is ErrorCode.CAP
