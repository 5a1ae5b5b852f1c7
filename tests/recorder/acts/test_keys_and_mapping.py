"""Keys rotate, event types map once, renames and splits are recorded as migrations."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import ErrorCode, VeenError
from recorder.codes import RecordCode, RecordError
from recorder.models import EventType, ReaderGrant, Stream
from recorder.streams import Migration, MigrationKind
from tests.support.office import Office

ORDERS = "record/app/orders"
BILLS = "record/app/bills"


def test_a_rotated_key_is_for_the_same_readers_and_the_old_one_still_opens(office: Office) -> None:
    office.do("stream.create", name=ORDERS)
    [first] = office.secrets(ORDERS)
    result = office.do("stream.rotate_key", stream=ORDERS)
    newest, oldest = office.secrets(ORDERS)
    assert oldest == first != newest
    assert (result["key_id"], result["readers"]) == (2, ["recorder-admin"])
    told = office.read()[-1]
    assert (told.event.event_type, told.payload["key_id"]) == ("stream.key_rotated", 2)


def test_the_stream_of_changes_itself_can_get_a_new_key(office: Office) -> None:
    office.do("stream.rotate_key", stream="record/infrastructure/changes")
    office.do("stream.create", name=ORDERS)
    assert [one.event.event_type for one in office.read()[-2:]] == [
        "stream.key_rotated", "stream.created",
    ]  # fmt: skip


def test_an_event_type_maps_to_one_stream_only(office: Office) -> None:
    office.do("stream.create", name=ORDERS, event_types=["order.placed"])
    office.do("stream.create", name=BILLS)
    with pytest.raises(VeenError) as refusal:
        office.ask("stream.map", stream=BILLS, event_types=["order.placed"])
    assert refusal.value.code is ErrorCode.POLICY
    with pytest.raises(VeenError):
        office.ask("stream.create", name="record/app/other", event_types=["order.placed"])
    office.do("stream.map", stream=BILLS, event_types=["bill.sent"])
    assert EventType.objects.get(pk="bill.sent").stream_id == BILLS


def test_a_rename_makes_its_target_and_moves_every_type(office: Office) -> None:
    office.do("stream.create", name=ORDERS, event_types=["a", "b"], sensitivity="high")
    result = office.do("stream.migrate", "new team", kind="rename", **{"from": ORDERS}, to=BILLS)
    assert result["created"] == [BILLS]
    made = Stream.objects.get(pk=BILLS)
    assert made.sensitivity == "high"
    assert set(EventType.objects.values_list("stream", flat=True)) == {BILLS}
    told = office.read()[-1]
    migration = Migration.from_payload(told.event.event_type, told.payload)
    assert migration.kind is MigrationKind.RENAMED
    assert (migration.source, migration.reason) == (ORDERS, "new team")
    assert migration.moves == {BILLS: ("a", "b")}
    classes = {one["label"] for one in office.hub.control("label_classes")["classes"]}
    assert made.label in classes


def test_a_split_moves_what_it_names(office: Office) -> None:
    office.do("stream.create", name=ORDERS, event_types=["a", "b", "c"])
    office.do("stream.create", name=BILLS)
    office.do("stream.migrate", "too many", kind="split", **{"from": ORDERS}, moves={BILLS: ["b"]})
    assert dict(EventType.objects.values_list("event_type", "stream")) == {
        "a": ORDERS, "b": BILLS, "c": ORDERS,
    }  # fmt: skip
    assert office.read()[-1].event.event_type == "stream.split"


def test_gateway_held_producers_follow_a_rename_and_others_are_named(office: Office) -> None:
    office.do("stream.create", name=ORDERS, event_types=["a"])
    office.do("producer.add", name="shop", streams=[ORDERS], held="gateway")
    office.do("producer.add", name="till", streams=[ORDERS], held="file", principal="ab" * 32)
    result = office.do("stream.migrate", "moved", kind="rename", **{"from": ORDERS}, to=BILLS)
    assert result["producers_extended"] == ["shop"]
    assert result["producers_to_rotate"] == ["till"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"kind": "rename", "from": ORDERS, "to": ORDERS}, ErrorCode.POLICY),
        ({"kind": "split", "from": ORDERS, "moves": {BILLS: ["nobody"]}}, ErrorCode.POLICY),
        ({"kind": "split", "from": ORDERS, "moves": {"record/app/no": ["a"]}}, ErrorCode.POLICY),
        ({"kind": "rename", "from": "record/app/no", "to": BILLS}, ErrorCode.NOTFOUND),
        ({"kind": "rename", "from": ORDERS, "to": "record/query/x"}, ErrorCode.POLICY),
        ({"kind": "merge", "from": ORDERS}, ErrorCode.FORMAT),
        ({"kind": "split", "from": ORDERS, "moves": {}}, ErrorCode.FORMAT),
    ],
)
def test_a_migration_that_makes_no_sense_is_refused(
    office: Office, args: dict[str, Any], code: ErrorCode
) -> None:
    office.do("stream.create", name=ORDERS, event_types=["a"])
    office.do("stream.create", name=BILLS)
    with pytest.raises(VeenError) as refusal:
        office.ask("stream.migrate", **args)
    assert refusal.value.code is code


def test_a_migration_without_a_reason_is_refused(office: Office) -> None:
    office.do("stream.create", name=ORDERS, event_types=["a"])
    with pytest.raises(RecordError) as refusal:
        office.ask("stream.migrate", " ", kind="rename", **{"from": ORDERS}, to=BILLS)
    assert refusal.value.error_code is RecordCode.INVALID_PARAMETER


def test_class_and_retention_change_at_the_hub_and_never_shrink(office: Office) -> None:
    office.do("stream.create", name=ORDERS)
    result = office.do("stream.class", stream=ORDERS, sensitivity="low", event_bytes_max=100)
    assert result["before"]["sensitivity"] == "medium"
    assert result["after"]["event_bytes_max"] == 100
    office.do("retention.set", stream=ORDERS, retention_hint=400_000_000)
    label = Stream.objects.get(pk=ORDERS).label
    classes = office.hub.control("label_classes")["classes"]
    assert {
        "label": label, "class": "log", "sensitivity": "low", "retention_hint": 400_000_000
    } in classes  # fmt: skip
    for hint in (0, 315_359_999, 399_999_999):
        with pytest.raises(VeenError) as refusal:
            office.ask("retention.set", stream=ORDERS, retention_hint=hint)
        assert refusal.value.code is ErrorCode.POLICY
    assert [one.event.event_type for one in office.read()[-2:]] == [
        "stream.classified", "retention.changed",
    ]  # fmt: skip


def test_secrets_are_wrapped_to_a_reader_and_to_its_successors_keys(office: Office) -> None:
    office.do("stream.create", name=ORDERS)
    office.do("reader.add", name="partner", dh_pk="09" + "00" * 31, streams=[ORDERS])
    office.do("stream.rotate_key", stream=ORDERS)
    grants = ReaderGrant.objects.filter(stream=ORDERS).values_list("reader", "key_id")
    assert sorted(grants) == [
        ("partner", 1), ("partner", 2), ("recorder-admin", 1), ("recorder-admin", 2),
    ]  # fmt: skip
