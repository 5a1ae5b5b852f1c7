from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from recorder.codes import RecordCode, RecordError
from recorder.streams import (
    CHANGES,
    EVENT_BYTES_LIMIT,
    HOUSEKEEPING,
    LONG_TERM,
    Migration,
    MigrationKind,
    StreamConfig,
    StreamMap,
    check_name,
    is_reserved,
)

HTTP = StreamConfig(name="record/app/http", event_types=("http.request", "http.error"))
IAM = StreamConfig(name="record/security/iam", event_types=("login.ok",))
NEW = StreamConfig(name="record/app/web")
MAP = StreamMap.of([HTTP, IAM, NEW])


def code(refused: pytest.ExceptionInfo[VeenError]) -> ErrorCode:
    return refused.value.code


@pytest.mark.parametrize(
    "name", ["record/app/x", "record/security/a/b", CHANGES, "record/query/requests"]
)
def test_streams_of_the_recorder_have_four_areas(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["record/app", "record/other/x", "app/x", "record/app/", "record/App/x", "../x", ""]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(VeenError):
        check_name(name)


def test_the_products_own_streams_are_reserved() -> None:
    assert all(is_reserved(name) for name in (CHANGES, *HOUSEKEEPING, "record/query/results"))
    assert not is_reserved("record/infrastructure/routers")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other/x"},
        {"label_class": "Log"},
        {"label_class": ""},
        {"retention_hint": LONG_TERM - 1},
        {"event_bytes_max": 0},
        {"event_bytes_max": EVENT_BYTES_LIMIT + 1},
        {"event_types": ("a b",)},
    ],
)
def test_a_config_that_breaks_a_rule_does_not_exist(changes: dict[str, Any]) -> None:
    with pytest.raises(VeenError):
        StreamConfig(**{"name": "record/app/x", **changes})


def test_event_types_are_sorted_and_unique() -> None:
    assert StreamConfig(name="record/app/x", event_types=("b", "a", "b")).event_types == ("a", "b")
    assert HTTP.shown_retention == "long_term"
    longer = StreamConfig(name="record/app/x", retention_hint=LONG_TERM + 1)
    assert longer.shown_retention == str(LONG_TERM + 1)


def test_an_event_type_maps_to_exactly_one_stream() -> None:
    assert MAP.stream_of("login.ok") is IAM
    assert MAP.stream_of("nothing") is None
    twice = StreamConfig(name="record/app/copy", event_types=("login.ok",))
    with pytest.raises(VeenError) as refused:
        StreamMap.of([HTTP, IAM, twice, HTTP])
    assert code(refused) is ErrorCode.POLICY
    assert "login.ok" in refused.value.detail
    assert "stream record/app/http" in refused.value.detail


def route(event_type: str, asked: str | None = None, allowed: tuple[str, ...] = ()) -> StrEnum:
    with pytest.raises(RecordError) as refused:
        MAP.route(event_type, asked=asked, allowed=allowed or (HTTP.name,), prefix="/events/2")
    for detail in refused.value.details:
        assert detail.pointer.startswith("/events/2/")
    return refused.value.error_code


def test_an_event_goes_where_its_type_belongs() -> None:
    assert MAP.route("http.error", asked=None, allowed=[HTTP.name]) is HTTP
    assert MAP.route("http.error", asked=HTTP.name, allowed=[HTTP.name]) is HTTP
    assert route("nothing") is RecordCode.UNKNOWN_EVENT_TYPE
    assert route("http.error", IAM.name) is RecordCode.WRONG_STREAM
    assert route("login.ok") is RecordCode.FORBIDDEN_STREAM
    # Whoever may not write there does not learn where it would go.
    assert route("login.ok", HTTP.name) is RecordCode.FORBIDDEN_STREAM


def test_a_rename_moves_every_event_type() -> None:
    after = MAP.apply(Migration.rename(HTTP, NEW.name, reason="clearer"))
    assert after.streams[HTTP.name].event_types == ()
    moved = after.stream_of("http.error")
    assert moved is not None
    assert moved.name == NEW.name
    assert MAP.stream_of("http.error") is HTTP


def test_a_split_moves_some() -> None:
    split = Migration(
        kind=MigrationKind.SPLIT, source=HTTP.name, moves={NEW.name: ("http.error",)}, reason="r"
    )
    after = MAP.apply(split)
    assert after.streams[HTTP.name].event_types == ("http.request",)
    assert after.streams[NEW.name].event_types == ("http.error",)


@pytest.mark.parametrize(
    "changes",
    [
        {"moves": {}},
        {"moves": {NEW.name: ()}},
        {"moves": {HTTP.name: ("http.error",)}},
        {"moves": {NEW.name: ("a b",)}},
        {"moves": {"other/x": ("http.error",)}},
        {"reason": " "},
        {"kind": MigrationKind.RENAMED, "moves": {NEW.name: ("a",), IAM.name: ("b",)}},
    ],
)
def test_a_migration_that_makes_no_sense_does_not_exist(changes: dict[str, Any]) -> None:
    given = {
        "kind": MigrationKind.SPLIT, "source": HTTP.name, "moves": {NEW.name: ("http.error",)},
        "reason": "r", **changes,
    }  # fmt: skip
    with pytest.raises(VeenError):
        Migration(**given)


def test_a_migration_fits_the_map_it_changes() -> None:
    def refused(kind: MigrationKind, source: str, moves: dict[str, tuple[str, ...]]) -> str:
        with pytest.raises(VeenError) as found:
            MAP.apply(Migration(kind=kind, source=source, moves=moves, reason="r"))
        assert code(found) is ErrorCode.POLICY
        return found.value.detail

    split, rename = MigrationKind.SPLIT, MigrationKind.RENAMED
    assert "no such stream" in refused(split, HTTP.name, {"record/app/no": ("http.error",)})
    assert "not mapped" in refused(split, HTTP.name, {NEW.name: ("login.ok",)})
    assert "left behind" in refused(rename, HTTP.name, {NEW.name: ("http.error",)})


def test_a_migration_reads_back_from_its_event() -> None:
    rename = Migration.rename(HTTP, NEW.name, reason="clearer")
    assert Migration.from_payload("stream.renamed", rename.to_payload()) == rename
    target: Value = {"stream": NEW.name, "event_types": ["http.error"]}
    good: dict[str, Value] = {"from": HTTP.name, "to": [target], "reason": "r"}
    Migration.from_payload("stream.split", good)
    bad: list[tuple[str, Value]] = [
        ("stream.created", good),
        ("stream.split", None),
        ("stream.split", {**good, "more": 1}),
        ("stream.split", {**good, "to": {}}),
        ("stream.split", {**good, "to": [target, target]}),
        ("stream.split", {**good, "reason": 1}),
    ]
    for event_type, payload in bad:
        with pytest.raises(VeenError) as refused:
            Migration.from_payload(event_type, payload)
        assert code(refused) is ErrorCode.FORMAT
