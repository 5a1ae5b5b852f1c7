"""The fast way through the door admits nothing that the full one refuses, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder import event as door
from recorder.codes import RecordError
from recorder.event import Incoming, read_incoming

NOW_MS = 1_772_355_600_000
values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["login.failed", "a b", "", "alice\0", "\ud800", "x" * 512, "x" * 513, "é"])
)
fields = st.dictionaries(
    st.sampled_from(["event_type", "subject_id", "origin", "payload", "event_time", "stream"])
    | st.sampled_from(["idempotency_key", "more"]),
    values | st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=3), values),
)


def fully(found: object) -> Incoming | None:
    """What the door says without its fast way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "_read_plain", lambda *_: None)
        try:
            return read_incoming(found, now_ms=NOW_MS, default_origin="web-1")
        except RecordError:
            return None


@given(fields, st.booleans())
def test_both_ways_agree(found: dict[str, object], is_common: bool) -> None:  # noqa: FBT001 - drawn, not passed
    if is_common:
        found = {"event_type": "login.failed", "subject_id": "alice"} | found
    plain = door._read_plain(found, NOW_MS, "web-1")
    if plain is not None:
        assert plain == fully(found)


def test_the_common_event_takes_the_fast_way() -> None:
    found = {"event_type": "login.failed", "subject_id": "alice", "payload": {"b": 1, "a": [2.5]}}
    plain = door._read_plain(found, NOW_MS, "web-1")
    assert plain is not None
    assert plain == fully(found)
    assert plain.event.payload == '{"a":[2.5],"b":1}'


@pytest.mark.parametrize("length", [0, 23, 24, 255, 256, 65_535, 65_536])
def test_a_text_of_every_width_is_spelled_minimally(length: int) -> None:
    found = {"event_type": "a", "subject_id": "s", "payload": "x" * length}
    body = read_incoming(found, now_ms=NOW_MS, default_origin="o").event.encode()
    assert door.RecorderEvent.decode(body).payload == f'"{"x" * length}"'
