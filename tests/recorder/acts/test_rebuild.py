"""A lost database is made again from the log and the key files, and nothing else is needed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.services import note_finding
from hub.wire.readerkey import WrappedReaderSecret
from recorder import rebuild
from recorder.acts import key_files, publishing, reader_keys
from recorder.findings import FindingScribe
from recorder.models import (
    Act,
    ApiToken,
    AuthoredEvent,
    EventType,
    Producer,
    Reader,
    ReaderGrant,
    ReaderKey,
    Stream,
)
from recorder.rebuild import Rebuilt, rebuild_if_lost
from recorder.streams import CHANGES
from tests.support.office import Office

ORDERS, BILLS, SALES, TAXES = (f"record/app/{name}" for name in ("orders", "bills", "sales", "tax"))
PARTNER = DhSecret.generate()
AUDITOR = DhSecret.generate()
YEARS_20 = 20 * 365 * 86_400


def live_a_life(office: Office) -> None:
    """Every verb that changes a row, some of them twice."""
    office.do("stream.create", name=ORDERS, event_types=["order.placed"], sensitivity="high")
    office.do("reader.add", name="partner", dh_pk=PARTNER.public.hex(), streams=[ORDERS])
    office.do(
        "stream.create", name=BILLS, event_types=["bill.sent", "tax.due"], readers=["partner"]
    )
    office.do("stream.map", stream=ORDERS, event_types=["order.paid"])
    office.do("stream.class", stream=ORDERS, event_bytes_max=4096)
    office.do("retention.set", stream=BILLS, retention_hint=YEARS_20)
    office.do("stream.rotate_key", stream=CHANGES)
    office.do("stream.rotate_key", stream=ORDERS)
    office.do("reader.add", name="auditor", dh_pk=AUDITOR.public.hex(), all=True)
    shop, shop_2, pos = (SigningKey.generate().public.hex() for _ in range(3))
    office.do("producer.add", name="shop", streams=[ORDERS, BILLS], principal=shop, rate_per_s=50)
    office.do("producer.add", name="till", streams=[BILLS], held="gateway")
    office.do("producer.add", name="pos", streams=[ORDERS], principal=pos)
    office.do("token.create", role="producer", producer="till", sha256="01" * 32)
    office.do("token.create", role="reader", name="ana", streams=[ORDERS], sha256="02" * 32)
    gone = office.do("token.create", role="admin", name="bo", sha256="03" * 32)["token_id"]
    office.do("token.revoke", token_id=gone)
    office.do("producer.rotate", name="shop", principal=shop_2)
    office.do("producer.rotate", name="till", keep_old=True)
    office.do("producer.revoke", name="pos")
    office.do("stream.create", name=TAXES)
    office.do("stream.migrate", kind="split", **{"from": BILLS}, moves={TAXES: ["tax.due"]})
    office.do("stream.migrate", kind="rename", **{"from": ORDERS}, to=SALES)
    office.do("reader.revoke", name="partner")
    office.do("checkpoint.now")
    for what in ("a", "b"):
        note_finding("odd", what, "seen", severity=Finding.Severity.WARNING, now=timezone.now())
    FindingScribe().look(office.authority)
    office.do("finding.acknowledge", finding_id=Finding.objects.get(object="b").pk)


def shown(office: Office) -> dict[str, Any]:
    """All that the tables say, but for the moments, and wrapped secrets by what they open to."""
    producers = Producer.objects.order_by("principal")
    tokens = ApiToken.objects.order_by("sha256")
    keys = {"partner": PARTNER, "auditor": AUDITOR, "recorder-admin": office.admin_dh}
    return {
        "findings": list(
            Finding.objects.exclude(code=rebuild.FINDING)
            .order_by("object")
            .values_list("code", "severity", "object", "detail", "acknowledged_by", "reason")
        ),
        "streams": list(
            Stream.objects.order_by("name").values_list(
                "name", "label", "label_class", "sensitivity", "retention_hint", "event_bytes_max"
            )
        ),
        "types": list(EventType.objects.order_by("pk").values_list("event_type", "stream")),
        "keys": [
            (one.stream_id, one.key_id, bytes(one.record))
            for one in ReaderKey.objects.order_by("stream", "key_id")
        ],
        "readers": [
            (one.name, one.dh_pk, one.revoked_at is None) for one in Reader.objects.order_by("name")
        ],
        "grants": [
            (
                one.reader_id, one.stream_id, one.key_id,
                WrappedReaderSecret.decode(bytes(one.wrapped)).unwrap(keys[one.reader_id].secret),
            )
            for one in ReaderGrant.objects.order_by("reader", "stream", "key_id")
        ],
        "producers": [
            (
                one.name, one.principal, one.held, bytes(one.cap_token), one.auth_ref,
                one.ended_at is None, one.ended_because, one.revoked_at is None,
                sorted(one.streams.values_list("name", flat=True)),
            )
            for one in producers
        ],
        "tokens": [
            (
                one.id, one.name, one.role, one.sha256, one.producer_name, one.all_streams,
                one.principal_id, one.revoked_at is None,
                sorted(one.streams.values_list("name", flat=True)),
            )
            for one in tokens
        ],
    }  # fmt: skip


def lose_the_database() -> None:
    for table in (
        ReaderGrant, ReaderKey, ApiToken, Producer, EventType, Reader, Stream, Act, AuthoredEvent,
        Finding,
    ):  # fmt: skip
        table.objects.all().delete()


def published(office: Office) -> list[dict[str, Any]]:
    publishing.publish_readers(office.authority)
    publishing.publish_gateway(office.authority)
    files = (office.files.readers_keys, office.files.gateway_keys, office.files.gateway_config)
    found = [json.loads(path.read_bytes()) for path in files]
    found[-1].pop("serial")
    return found


def test_every_row_comes_back_as_it_was(office: Office) -> None:
    live_a_life(office)
    before, files = shown(office), published(office)
    events = office.read()
    lose_the_database()
    office.restart()
    assert rebuild_if_lost(office.authority) == Rebuilt(acts=25, upto_seq=events[-1].seq)
    assert shown(office) == before
    assert published(office) == files, "a secret or a seed was dropped"
    FindingScribe().look(office.authority)
    office.run()
    told, noted = office.read()[len(events) :]
    assert (told.event.event_type, told.payload["acts"]) == (rebuild.EVENT_TYPE, 25)
    assert noted.payload["code"] == rebuild.FINDING, "the findings of before are recorded already"
    assert Finding.objects.filter(code=rebuild.FINDING).count() == 1
    office.do("stream.rotate_key", stream=SALES)
    assert len(office.secrets(SALES)) == 3


def test_rows_that_are_there_are_left_alone(office: Office) -> None:
    assert rebuild_if_lost(office.authority) is None


def test_an_empty_log_is_a_first_start(office: Office) -> None:
    lose_the_database()
    office.restart()
    office.engine = {name: SigningKey.generate() for name in office.engine}
    assert rebuild_if_lost(office.authority) is None, "another realm's acts are not ours"


def test_without_its_key_files_nothing_is_made_and_nothing_is_dropped(office: Office) -> None:
    office.do("stream.create", name=ORDERS)
    for path in office.files.stream_keys.iterdir():
        path.unlink()
    lose_the_database()
    office.restart()
    with pytest.raises(VeenError, match="restore the state from a backup") as refusal:
        rebuild_if_lost(office.authority)
    assert refusal.value.code is ErrorCode.KEYSTORE
    assert not Stream.objects.exists()


def test_a_stop_in_the_middle_leaves_nothing_half_made(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_a_life(office)
    before = shown(office)
    lose_the_database()
    office.restart()
    real, left = rebuild._apply, [11]

    def stop_after_some(*args: Any) -> bool:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*args)

    monkeypatch.setattr(rebuild, "_apply", stop_after_some)
    with pytest.raises(KeyboardInterrupt):
        rebuild_if_lost(office.authority)
    assert not Stream.objects.exists()
    monkeypatch.undo()
    rebuild_if_lost(office.authority)
    assert shown(office) == before


def test_a_key_whose_act_was_stopped_before_its_rows_is_passed_over(office: Office) -> None:
    """The file comes first: a stop behind it leaves a key that no event speaks of."""
    office.do("stream.create", name=ORDERS)
    before = shown(office)
    [kept] = key_files.find(office.files.stream_keys, ORDERS)
    orphan = reader_keys._maker(office.authority)(ORDERS, kept.record.key_id)
    assert len(key_files.find(office.files.stream_keys, ORDERS)) == 2
    assert orphan.record.ts >= kept.record.ts
    lose_the_database()
    office.restart()
    rebuild_if_lost(office.authority)
    assert shown(office) == before


def test_a_key_file_that_is_missing_is_written_from_its_rows(office: Office) -> None:
    office.do("stream.create", name=ORDERS)
    folder = office.files.stream_keys
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        path.unlink()
    reader_keys.keep_files(office.authority)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
