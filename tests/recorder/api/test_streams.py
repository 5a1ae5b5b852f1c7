"""Streams and manifests as each caller may see them [SDR0 3.2.2, 3.2.4]."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from hub.wire.manifest import Manifest
from hub.wire.rotation import RotationRecord, decode_record
from recorder.models import Producer, ReaderKey, Stream
from tests.support import web_bundle
from tests.support.web_bundle import LiveLog, WebBundle, bearer, producer, token

pytestmark = pytest.mark.django_db


def listed(web: Client, text: str) -> list[dict[str, Any]]:
    answer = web.get("/api/record/streams", headers=bearer(text))
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["streams"]
    return found


def test_a_stream_is_shown_with_its_head_and_checkpoint(
    web: Client, bundle: WebBundle, name: str
) -> None:
    bundle.stream(name, "user.login", "user.logout", sensitivity="high")
    bundle.record(name, 5)
    manifest_id = bundle.log.checkpoint()
    bundle.record(name, 2)
    row = bundle.log.rows(bundle.streams[name])[-1]
    [found] = listed(web, token("reader", streams=(name,)))
    last_checkpoint = found.pop("last_checkpoint")
    assert found.pop("head_time").endswith(".000Z")
    assert found == {
        "name": name,
        "label": bundle.streams[name].label.hex(),
        "class": "log",
        "sensitivity": "high",
        "retention_hint": "long_term",
        "event_bytes_max": 65_536,
        "event_types": ["user.login", "user.logout"],
        "head_seq": 7,
        "head_root": row.mmr_root.hex(),
    }
    assert (last_checkpoint["manifest_id"], last_checkpoint["upto_seq"]) == (manifest_id, 5)
    assert last_checkpoint["created_at"].endswith(".000Z")


def test_an_empty_stream_has_head_zero_and_nulls(web: Client, bundle: WebBundle, name: str) -> None:
    bundle.stream(name)
    [found] = listed(web, token("admin"))
    assert found["head_seq"] == 0
    assert [found[key] for key in ("head_root", "head_time", "last_checkpoint")] == [None] * 3


def test_a_reader_sees_its_streams_and_an_administrator_all(
    web: Client, bundle: WebBundle, name: str
) -> None:
    for suffix in ("-b", "-a", ""):
        bundle.stream(name + suffix)
    own = listed(web, token("reader", streams=(f"{name}-a",)))
    assert [one["name"] for one in own] == [f"{name}-a"]
    every = [name, f"{name}-a", f"{name}-b"]
    assert [one["name"] for one in listed(web, token("reader", "x", all_streams=True))] == every
    assert [one["name"] for one in listed(web, token("admin"))] == every


def test_a_producer_sees_what_it_needs_to_write_to_its_own_streams(
    web: Client, bundle: WebBundle, name: str
) -> None:
    bundle.stream(name, "a.b")
    bundle.stream(f"{name}-other")
    producer("billing", name)
    ReaderKey.objects.create(stream_id=name, key_id=2, record=b"newer", created_at=timezone.now())
    bundle.status(hub_url="http://127.0.0.1:9")  # its view needs no hub
    assert listed(web, token("producer", producer_name="billing")) == [{
        "name": name,
        "label": bundle.streams[name].label.hex(),
        "event_types": ["a.b"],
        "event_bytes_max": 65_536,
        "reader_key": base64.b64encode(b"newer").decode(),
    }]  # fmt: skip


def test_a_producer_that_has_ended_sees_nothing(web: Client, bundle: WebBundle, name: str) -> None:
    bundle.stream(name)
    producer("billing", name)
    Producer.objects.update(ended_at=timezone.now())
    assert listed(web, token("producer", producer_name="billing")) == []


@pytest.mark.parametrize("role", ["admin", "producer"])
def test_the_list_costs_the_same_queries_for_one_stream_and_for_many(
    web: Client,
    bundle: WebBundle,
    name: str,
    role: str,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(40):
        bundle.stream(f"{name}-{number}", f"t{number}.a", f"t{number}.b")
    producer("billing", *Stream.objects.values_list("name", flat=True))
    text = token(role, producer_name="billing" if role == "producer" else "")
    with django_assert_max_num_queries(5):  # token, its use, streams, types, keys
        assert len(listed(web, text)) == 40


def test_a_hub_that_is_down_is_said(web: Client, bundle: WebBundle, name: str) -> None:
    bundle.stream(name)
    bundle.status(hub_url="http://127.0.0.1:9")
    answer = web.get("/api/record/streams", headers=bearer(token("admin")))
    assert (answer.status_code, answer.json()["error_code"]) == (503, "hub_unavailable")


def test_a_manifest_by_id_and_the_newest(web: Client, bundle: WebBundle, name: str) -> None:
    bundle.stream(name)
    text = token("reader", streams=(name,))
    bundle.record(name, 1)
    first = bundle.log.checkpoint()
    bundle.record(name, 1)
    second = bundle.log.checkpoint()
    for asked, expected in ((first, first), (second, second), ("latest", second)):
        found = web.get(f"/api/record/manifests/{asked}", headers=bearer(text)).json()
        manifest = Manifest.decode(base64.b64decode(found["manifest"]))
        manifest.verify(bundle.hub_pk)
        assert manifest.id.hex() == expected
        assert found["rotations"] == []


@pytest.mark.parametrize("asked", ["ab" * 32, "AB" * 32, "newest", "0", "x" * 300])
def test_an_unknown_manifest_is_not_found(web: Client, bundle: WebBundle, asked: str) -> None:
    answer = web.get(f"/api/record/manifests/{asked}", headers=bearer(token("admin")))
    assert (answer.status_code, answer.json()["error_code"]) == (404, "not_found")


def test_after_a_rotation_heads_and_manifests_still_verify(
    web: Client, tmp_path_factory: pytest.TempPathFactory, settings: Any, name: str
) -> None:
    with web_bundle.running(tmp_path_factory.mktemp("rotating")) as hub:
        text = str(hub.control("token_add", name="web", all=True)["token"])
        folder = tmp_path_factory.mktemp("web")
        bundle = WebBundle(root=folder, hub=hub, log=LiveLog(hub, text))
        bundle.point(settings)
        bundle.stream(name)
        bundle.stream(f"{name}-b")
        bundle.record(name, 2)
        bundle.record(f"{name}-b", 2)
        hub.control("rotate")
        bundle.record(name, 1)
        first, second = listed(web, token("admin"))
        assert (first["head_seq"], second["head_seq"]) == (3, 2)
        found = web.get("/api/record/manifests/latest", headers=bearer(token("reader"))).json()
        [record] = [decode_record(base64.b64decode(one)) for one in found["rotations"]]
        assert isinstance(record, RotationRecord)
        assert record.old_pk == bundle.hub_pk
