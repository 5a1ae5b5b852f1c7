from __future__ import annotations

from dataclasses import replace

import pytest

from hub import label as labels
from hub.admission.authority import (
    FAR_EPOCHS,
    AdmissionState,
)
from hub.admission.records import AdmissionRecord
from hub.errors import ErrorCode
from hub.limits import DEFAULT
from hub.types import Label, StreamId
from tests.support.capabilities import (
    EPOCHS,
    ISSUER,
    OTHER_STREAM,
    ROUTING_KEY,
    STREAM,
    T0,
    TOP,
    check,
    code_of,
    state_with,
    token,
)


def test_every_allowed_stream_is_in_scope_and_no_other() -> None:
    both = token(stream_ids=[STREAM, OTHER_STREAM])
    state = state_with(both)
    for stream_id in (STREAM, OTHER_STREAM):
        check(state, both.auth_ref(), label=labels.derive(ROUTING_KEY, stream_id))
    third = labels.derive(ROUTING_KEY, StreamId(bytes(32)))
    assert code_of(state, both.auth_ref(), label=third) is ErrorCode.CAP


def test_scope_is_that_of_the_hubs_own_routing_key() -> None:
    one = token()
    foreign = labels.derive(bytes(32), STREAM)
    assert code_of(state_with(one), one.auth_ref(), label=foreign) is ErrorCode.CAP


def test_without_routing_key_scope_is_off() -> None:
    one = token()
    check(state_with(one), one.auth_ref(), label=Label(bytes(32)), routing_key=None)


def test_a_profile_without_epochs_has_epoch_0_only() -> None:
    one = token()
    label = labels.derive(ROUTING_KEY, STREAM, 1)
    assert code_of(state_with(one), one.auth_ref(), label=label) is ErrorCode.CAP


@pytest.mark.parametrize("skew", [0, 1, 3])
def test_labels_of_the_epochs_within_the_skew_are_taken(skew: int) -> None:
    one = token()
    state = AdmissionState({ISSUER.public}, replace(DEFAULT, clock_skew_epochs=skew))
    state.apply_admission(AdmissionRecord.of(one), T0)
    now = T0 // EPOCHS.epoch_sec
    for distance in range(-5, 6):
        label = labels.derive(ROUTING_KEY, STREAM, now + distance)
        if abs(distance) <= skew:
            check(state, one.auth_ref(), label=label, profile=EPOCHS)
        else:
            code = code_of(state, one.auth_ref(), label=label, profile=EPOCHS)
            assert code is ErrorCode.TIME


@pytest.mark.parametrize(
    ("distance", "code"),
    [(2, ErrorCode.TIME), (-FAR_EPOCHS, ErrorCode.TIME), (FAR_EPOCHS, ErrorCode.TIME),
     (FAR_EPOCHS + 1, ErrorCode.CAP), (-FAR_EPOCHS - 1, ErrorCode.CAP)],
)  # fmt: skip
def test_an_epoch_outside_the_window_is_a_matter_of_time_as_far_as_it_is_recognized(
    distance: int, code: ErrorCode
) -> None:
    one = token()
    label = labels.derive(ROUTING_KEY, STREAM, T0 // EPOCHS.epoch_sec + distance)
    assert code_of(state_with(one), one.auth_ref(), label=label, profile=EPOCHS) is code


def test_another_streams_label_is_out_of_scope_in_any_epoch() -> None:
    one = token()
    for distance in (0, 1, 5):
        label = labels.derive(ROUTING_KEY, OTHER_STREAM, T0 // EPOCHS.epoch_sec + distance)
        code = code_of(state_with(one), one.auth_ref(), label=label, profile=EPOCHS)
        assert code is ErrorCode.CAP


def test_the_window_follows_hub_ts_and_is_cut_at_epoch_0() -> None:
    one = token(ttl=TOP)
    state = state_with(one, at=0)
    for hub_ts in [*range(0, 3000, 100), TOP]:  # far more epochs than are remembered
        label = labels.derive(ROUTING_KEY, STREAM, hub_ts // EPOCHS.epoch_sec)
        check(state, one.auth_ref(), label=label, hub_ts=hub_ts, profile=EPOCHS)
    first = labels.derive(ROUTING_KEY, STREAM, 0)
    check(state, one.auth_ref(), label=first, hub_ts=150, profile=EPOCHS)
    assert code_of(state, one.auth_ref(), label=first, hub_ts=250, profile=EPOCHS) is ErrorCode.TIME
