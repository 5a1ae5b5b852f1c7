"""Writes of the recorder: acts are judged when asked for, events happen once for each key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings as DjangoSettings

from hub.errors import ErrorCode, VeenError
from recorder import services
from recorder.codes import RecordCode, RecordError
from recorder.models import Act, AuthoredEvent
from recorder.streams import CHANGES
from recorder.wake import Listener

EVENT: dict[str, Any] = {
    "key": "test/1", "identity": "recorder-service", "stream": CHANGES,
    "event_type": "stream.created", "subject_id": "alice", "payload": {"b": 1, "a": [None]},
}  # fmt: skip


@pytest.mark.django_db
def test_an_event_is_stored_once_for_each_key_as_canonical_json() -> None:
    first = services.record_event(**EVENT)
    again = services.record_event(**EVENT)
    assert first.pk == again.pk
    assert AuthoredEvent.objects.count() == 1
    assert again.payload_text == '{"a":[null],"b":1}'
    assert again.event_time_ms == first.event_time_ms
    waiting = services.wait_for_event("test/1", 0)
    assert waiting.state == AuthoredEvent.State.PENDING


@pytest.mark.django_db
@pytest.mark.parametrize("changed", [{"payload": 2}, {"subject_id": "bob"}, {"event_type": "x"}])
def test_a_key_used_for_something_else_is_a_conflict(changed: dict[str, Any]) -> None:
    services.record_event(**EVENT)
    with pytest.raises(RecordError) as refusal:
        services.record_event(**{**EVENT, **changed})
    assert refusal.value.error_code is RecordCode.IDEMPOTENCY_CONFLICT


@pytest.mark.django_db
@pytest.mark.parametrize(
    "changed",
    [
        {"identity": "query-engine"},
        {"stream": "record/query/requests"},
        {"stream": "record/app/orders"},
        {"event_type": "no spaces"},
        {"subject_id": "x" * 513},
        {"payload": float("nan")},
    ],
)
def test_an_event_that_breaks_a_rule_is_not_stored(changed: dict[str, Any]) -> None:
    with pytest.raises(VeenError):
        services.record_event(**{**EVENT, **changed})
    assert not AuthoredEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("verb", "args", "pointer"),
    [
        ("stream.explode", {}, "/verb"),
        ("stream.create_reserved", {"name": CHANGES}, "/verb"),
        ("stream.create", {}, "/args/name"),
        ("stream.create", {"name": "record/app/x", "colour": "red"}, "/args/colour"),
        ("stream.create", {"name": "record/app/x", "event_types": "a"}, "/args/event_types"),
        ("stream.create", {"name": "record/app/x", "event_types": [1]}, "/args/event_types/0"),
        ("stream.create", {"name": "record/app/x", "event_bytes_max": 0}, "/args/event_bytes_max"),
        ("stream.create", {"name": "record/app/x", "event_bytes_max": True},
         "/args/event_bytes_max"),
        ("stream.create", {"name": "record/app/x", "sensitivity": "huge"}, "/args/sensitivity"),
        ("stream.create", [], "/args"),
        ("stream.class", {"stream": "record/app/x"}, "/args"),
        ("token.revoke", {"token_id": "7"}, "/args/token_id"),
        ("checkpoint.now", {"now": True}, "/args/now"),
    ],
)  # fmt: skip
def test_bad_arguments_are_told_with_their_place(verb: str, args: Any, pointer: str) -> None:
    with pytest.raises(RecordError) as refusal:
        services.submit_act(verb, args, actor="alice")
    assert refusal.value.error_code is RecordCode.INVALID_PARAMETER
    assert [one.pointer for one in refusal.value.details] == [pointer]
    assert not Act.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "args",
    [
        {"name": "record/query/mine"},
        {"name": "record/infrastructure/changes"},
        {"name": "private/app/x"},
        {"name": "record/app/x", "retention_hint": 3600},
        {"name": "record/app/x", "class": "housekeeping"},
        {"name": "record/app/x", "class": "Not A Class"},
    ],
)
def test_a_stream_against_the_rules_is_refused_when_asked_for(args: dict[str, Any]) -> None:
    with pytest.raises(VeenError) as refusal:
        services.submit_act("stream.create", args, actor="alice")
    assert refusal.value.code is ErrorCode.POLICY
    assert not Act.objects.exists()


@pytest.mark.django_db
def test_nobody_acts_without_a_name() -> None:
    with pytest.raises(VeenError):
        services.submit_act("checkpoint.now", {}, actor="")
    with pytest.raises(VeenError):
        services.submit_act("checkpoint.now", {}, actor="a", reason="x" * 1001)


@pytest.mark.django_db(transaction=True)
def test_what_is_asked_for_wakes_the_author(tmp_path: Path, settings: DjangoSettings) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    settings.VEEN_AUTHOR_SOCKET = deep / "author.sock"
    services.submit_act("checkpoint.now", {}, actor="alice")  # nobody listens yet: no harm
    listener = Listener(settings.VEEN_AUTHOR_SOCKET)
    try:
        assert not listener.wait(0)
        act = services.submit_act("checkpoint.now", {}, actor="alice")
        services.record_event(**EVENT)
        assert listener.wait(5)
        assert not listener.wait(0), "calls in between count as one"
        assert services.wait_for_act(act.id, 0.05).state == Act.State.PENDING
    finally:
        listener.close()
    assert not settings.VEEN_AUTHOR_SOCKET.exists()
