"""The fast reader of a body accepts nothing that the strict one refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import WireError
from recorder import event as bodies
from recorder.event import EVENT_TIME_MAX, RecorderEvent, UnixMillis

texts = st.text(max_size=40)
events = st.builds(
    RecorderEvent,
    subject_id=texts | st.text(min_size=200, max_size=300),
    event_type=texts,
    event_time=st.integers(0, EVENT_TIME_MAX).map(UnixMillis),
    origin=texts,
    payload=texts | st.text(min_size=250, max_size=700),
)
COMMON = RecorderEvent(
    subject_id="alice",
    event_type="login.failed",
    event_time=UnixMillis(1_772_355_600_000),
    origin="web-1",
    payload='{"a":"' + "x" * 300 + '"}',
)


def event_of(fields: bodies.EventFields | None) -> RecorderEvent:
    assert fields is not None
    subject_id, event_type, event_time, origin, payload = fields
    return RecorderEvent(
        subject_id=subject_id,
        event_type=event_type,
        event_time=event_time,
        origin=origin,
        payload=payload,
    )


def check_both_readers_agree(data: bytes) -> None:
    by_position = bodies._read_by_position(data)
    if by_position is not None:
        assert by_position == bodies._read_by_field(data)
        assert event_of(by_position).encode() == data


@given(events, st.data())
def test_on_generated_bodies_and_edits_of_them(event: RecorderEvent, data: st.DataObject) -> None:
    encoded = event.encode()
    check_both_readers_agree(encoded)
    at = data.draw(st.integers(0, len(encoded)))
    gone = data.draw(st.integers(0, 3))
    new = data.draw(st.binary(max_size=3))
    check_both_readers_agree(encoded[:at] + new + encoded[at + gone :])


def test_on_every_value_of_every_byte_of_a_common_body() -> None:
    encoded = COMMON.encode()
    assert event_of(bodies._read_by_position(encoded)) == COMMON
    for position in range(len(encoded) - 290):
        for value in range(256):
            changed = encoded[:position] + bytes((value,)) + encoded[position + 1 :]
            check_both_readers_agree(changed)


def test_cut_and_longer_bodies_are_refused() -> None:
    encoded = COMMON.encode()
    for size in range(len(encoded)):
        with pytest.raises(WireError):
            RecorderEvent.decode(encoded[:size])
    with pytest.raises(WireError):
        RecorderEvent.decode(encoded + b"\0")
