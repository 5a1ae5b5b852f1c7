"""Streams are set up by recorded acts, with keys that only their readers hold."""

from __future__ import annotations

import json
import stat

from hub.label import stream_id
from hub.wire.readerkey import ReaderKeyRecord
from recorder.models import ReaderGrant, ReaderKey, Stream
from recorder.streams import CHANGES, LONG_TERM
from tests.support.office import ALICE, Office


def test_the_first_start_founds_the_products_own_streams_and_records_it(office: Office) -> None:
    office.found()
    names = list(Stream.objects.values_list("name", flat=True))
    assert names == [
        "record/infrastructure/changes",
        "record/infrastructure/checkpoints",
        "record/infrastructure/lake",
        "record/query/audit/executions",
        "record/query/requests",
        "record/query/results",
    ]
    recorded = office.read()
    assert {one.event.event_type for one in recorded} == {"stream.created"}
    assert sorted(one.payload["stream"] for one in recorded) == names
    assert {one.event.subject_id for one in recorded} == {"veen"}
    assert {one.principal for one in recorded} == {office.engine["recorder-service"].public.hex()}
    office.found()
    assert len(office.read()) == 6


def test_a_created_stream_has_class_key_mapping_and_event(office: Office) -> None:
    result = office.do(
        "stream.create",
        name="record/app/orders",
        sensitivity="high",
        event_types=["order.placed", "order.paid"],
        event_bytes_max=4096,
    )
    label = office.authority.label("record/app/orders").hex()
    classes = office.hub.control("label_classes")["classes"]
    assert {
        "label": label, "class": "log", "sensitivity": "high", "retention_hint": LONG_TERM
    } in classes  # fmt: skip
    record = ReaderKeyRecord.decode(bytes(ReaderKey.objects.get(stream="record/app/orders").record))
    record.verify(office.admin.public)
    assert (record.key_id, record.stream_id) == (1, stream_id("record/app/orders"))
    told = office.read()[-1]
    assert told.event.subject_id == ALICE
    assert told.payload["event_types"] == ["order.paid", "order.placed"]
    assert told.payload["reason"] == "because"
    assert told.payload["reader_pk"] == record.reader_pk.hex() == result["reader_pk"]
    assert result["event"]["hub_commit_seq"] == told.seq
    assert result["event"]["stream"] == CHANGES


def test_no_secret_is_in_the_rows_the_event_or_the_gateways_files(office: Office) -> None:
    office.do("stream.create", name="record/app/orders")
    [secret] = office.secrets("record/app/orders")
    told = office.read()[-1].event.payload
    config = office.files.gateway_config.read_text()
    assert secret.hex() not in told + config
    assert stat.S_IMODE(office.files.readers_keys.stat().st_mode) == 0o600
    assert stat.S_IMODE(office.files.gateway_config.stat().st_mode) == 0o600
    stored = [bytes(grant.wrapped) for grant in ReaderGrant.objects.all()]
    assert not any(secret in wrapped for wrapped in stored)


def test_the_gateway_is_told_every_stream_that_producers_may_write(office: Office) -> None:
    office.do("stream.create", name="record/app/orders", event_types=["order.placed"])
    config = json.loads(office.files.gateway_config.read_bytes())
    assert [one["name"] for one in config["streams"]] == ["record/app/orders"]
    assert config["streams"][0]["event_types"] == ["order.placed"]
    before = config["serial"]
    office.do("stream.map", stream="record/app/orders", event_types=["order.paid"])
    assert json.loads(office.files.gateway_config.read_bytes())["serial"] == before + 1
