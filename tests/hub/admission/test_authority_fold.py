from __future__ import annotations

from hub.admission.authority import (
    AdmissionState,
    AdmissionSummary,
)
from hub.admission.records import AdmissionRecord, Revocation, RevocationKind
from hub.errors import VeenError
from tests.support.capabilities import (
    BOB,
    ISSUER,
    T0,
    TTL,
    check,
    revocation,
    token,
)


def _history() -> list[tuple[AdmissionRecord, int] | Revocation]:
    one, other = token(), token(ttl=TTL + 1)
    return [
        (AdmissionRecord.of(one), T0),
        revocation(RevocationKind.AUTH_REF, other.auth_ref(), T0 + 5, 10),
        (AdmissionRecord.of(one), T0 + 1),  # again: the first issued_at stays
        (AdmissionRecord.of(one.renew(ISSUER)), T0 + 2),
        (AdmissionRecord.of(other), T0 + 3),
        revocation(RevocationKind.CLIENT_ID, BOB, T0 + 4),
        revocation(RevocationKind.CLIENT_ID, BOB, T0 + 4),
        (AdmissionRecord.of(other.renew(ISSUER)), T0 + 5),
        revocation(RevocationKind.CAP_TOKEN, one.revocation_target(), T0 + 6),
    ]


def _fold(entries: list[tuple[AdmissionRecord, int] | Revocation]) -> AdmissionState:
    state = AdmissionState({ISSUER.public})
    for entry in entries:
        if isinstance(entry, Revocation):
            state.apply_revocation(entry)
        else:
            state.apply_admission(*entry)
    return state


def _decisions(state: AdmissionState) -> list[str]:
    found = []
    refs = [entry[0].auth_ref for entry in _history() if not isinstance(entry, Revocation)]
    for auth_ref in dict.fromkeys(refs):
        for hub_ts in (T0, T0 + 5, T0 + 14, T0 + 15, T0 + TTL, T0 + TTL + 1, T0 + TTL + 9):
            try:
                found.append(str(check(state, auth_ref, hub_ts=hub_ts)))
            except VeenError as refusal:
                found.append(str(refusal))
    return found


def test_a_fold_split_anywhere_gives_the_same_state() -> None:
    history = _history()
    whole = _fold(history)
    assert len(set(_decisions(whole))) > 4
    for cut in range(len(history) + 1):
        merged = _fold(history[:cut]).summary().merge(_fold(history[cut:]).summary())
        assert merged == whole.summary()
        state = AdmissionState.from_summary(merged, {ISSUER.public})
        assert _decisions(state) == _decisions(whole)
        for entry in history[cut:]:  # folding on from a summary, over records already known
            if isinstance(entry, Revocation):
                state.apply_revocation(entry)
            else:
                state.apply_admission(*entry)
        assert state.summary() == whole.summary()


def test_merging_summaries_is_associative_with_an_empty_one_as_identity() -> None:
    history = _history()
    for first in range(len(history) + 1):
        for second in range(first, len(history) + 1):
            parts = (history[:first], history[first:second], history[second:])
            a, b, c = (_fold(part).summary() for part in parts)
            assert a.merge(b).merge(c) == a.merge(b.merge(c))
    whole = _fold(history).summary()
    assert AdmissionSummary().merge(whole) == whole == whole.merge(AdmissionSummary())
