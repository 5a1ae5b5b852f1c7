"""A producer is one service with one key; it appends to named streams and does nothing else."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from hub.client import Draft, HubClient
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.types import AuthRef, Label
from hub.wire.captoken import CapToken
from hub.wire.payload import PayloadHeader
from hub.wire.readerkey import ReaderKeyRecord
from recorder.acts.bindings import note_violations
from recorder.connection import Connection
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.gateway.config import GatewayConfig, producer_folder
from recorder.models import ApiToken, Producer
from tests.support.office import Office

ORDERS = "record/app/orders"
BILLS = "record/app/bills"


@pytest.fixture
def office(office: Office) -> Office:
    office.do("stream.create", name=ORDERS, event_types=["order.placed"])
    office.do("stream.create", name=BILLS, event_types=["bill.sent"])
    return office


def connection(result: dict[str, Any], key: SigningKey) -> Connection:
    """What `producer add --out` writes, read back with every check of a client."""
    streams = [
        {name: one[name] for name in ("name", "label", "event_types", "reader_key")}
        for one in result["streams"]
    ]
    shared = ("web_url", "hub_url", "gateway_url", "hub_pk", "hub_id", "trust_pk", "cap_token",
              "recorder_admin_pk")  # fmt: skip
    found = {name: result[name] for name in shared}
    producer = {"name": result["producer"], "key": key.seed.hex()}
    document = {"ver": 1, **found, "producer": producer, "streams": streams}
    return Connection.parse(json.dumps(document).encode())


def send(office: Office, link: Connection, key: SigningKey, stream: int = 0) -> int:
    """Record one event as a service would; its sequence."""
    entry = link.streams[stream]
    assert link.cap_token is not None
    event = RecorderEvent(
        subject_id="carol", event_type=entry.event_types[0], event_time=UnixMillis(0),
        origin="shop", payload="1",
    )  # fmt: skip
    draft = Draft(
        label=entry.label,
        reader_pk=entry.reader_key.reader_pk,
        header=PayloadHeader(schema=SCHEMA),
        body=event.encode(),
    )
    with (
        HubClient(link.hub_url, link.hub_pk) as client,
        client.producer(key, auth_ref=link.cap_token.auth_ref()) as producer,
    ):
        return producer.submit(draft).stream_seq


def test_a_file_held_producer_records_at_once_and_its_key_never_came_here(office: Office) -> None:
    key = SigningKey.generate()
    result = office.do("producer.add", name="shop", streams=[ORDERS], principal=key.public.hex())
    link = connection(result, key)
    send(office, link, key)
    assert office.read(ORDERS)[-1].principal == key.public.hex()
    told = office.read()[-1]
    assert told.event.event_type == "producer.added"
    assert told.payload["principal"] == key.public.hex()
    assert told.payload["streams"] == [ORDERS]


def test_its_capability_reaches_its_own_streams_only(office: Office) -> None:
    key = SigningKey.generate()
    result = office.do("producer.add", name="shop", streams=[ORDERS], principal=key.public.hex())
    link = connection(result, key)
    entry = link.streams[0]
    other = office.authority.label(BILLS)
    draft = Draft(
        label=other, reader_pk=entry.reader_key.reader_pk, header=PayloadHeader(schema=SCHEMA),
        body=b"x",
    )  # fmt: skip
    with (
        HubClient(link.hub_url, link.hub_pk) as client,
        client.producer(key, auth_ref=AuthRef(bytes.fromhex(result["auth_ref"]))) as producer,
        pytest.raises(VeenError) as refusal,
    ):
        producer.submit(draft)
    assert refusal.value.code is ErrorCode.CAP


def test_a_gateway_held_key_is_with_the_gateway_alone(office: Office) -> None:
    result = office.do("producer.add", name="till", streams=[ORDERS], held="gateway")
    keys = json.loads(office.files.gateway_keys.read_bytes())["producers"]
    [(principal, seed)] = keys.items()
    assert principal == result["principal"] == SigningKey(bytes.fromhex(seed)).public.hex()
    config = json.loads(office.files.gateway_config.read_bytes())
    [told] = config["producers"]
    assert (told["name"], told["principal"], told["streams"]) == ("till", principal, [ORDERS])
    assert CapToken.decode(b64decode(told["cap_token"])).subject_pk.hex() == principal
    assert seed not in office.read()[-1].event.payload
    assert seed not in json.dumps(result)
    assert send(office, connection(result, SigningKey(bytes.fromhex(seed))),
                SigningKey(bytes.fromhex(seed)))  # fmt: skip


def test_rotation_links_both_keys_and_then_revokes_the_old(office: Office) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    first = office.do("producer.add", name="shop", streams=[ORDERS], principal=old.public.hex())
    result = office.do("producer.rotate", name="shop", principal=new.public.hex())
    told = office.read()[-1]
    assert told.event.event_type == "producer.rotated"
    assert told.payload["old_principal"] == old.public.hex()
    assert told.payload["new_principal"] == new.public.hex()
    send(office, connection(result, new), new)
    with pytest.raises(VeenError) as refusal:
        send(office, connection(first, old), old)
    assert refusal.value.code is ErrorCode.CAP
    assert Producer.objects.get(principal=old.public.hex()).revoked_at is not None


def test_an_old_key_may_be_kept_until_its_spool_is_empty(office: Office) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    first = office.do("producer.add", name="shop", streams=[ORDERS], principal=old.public.hex())
    office.do("producer.rotate", name="shop", principal=new.public.hex(), keep_old=True)
    send(office, connection(first, old), old)
    office.do("producer.revoke", principal=old.public.hex())
    with pytest.raises(VeenError):
        send(office, connection(first, old), old)
    assert Producer.objects.get(name="shop", ended_at__isnull=True).principal == new.public.hex()


def test_a_gateway_held_producer_gets_its_new_key_there(office: Office) -> None:
    first = office.do("producer.add", name="till", streams=[ORDERS], held="gateway")
    result = office.do("producer.rotate", name="till")
    keys = json.loads(office.files.gateway_keys.read_bytes())["producers"]
    assert list(keys) == [result["principal"]]
    assert first["principal"] == result["old_principal"] != result["principal"]


def test_an_old_gateway_key_stays_while_events_wait_under_it(office: Office) -> None:
    first = office.do("producer.add", name="till", streams=[ORDERS], held="gateway")
    keys = json.loads(office.files.gateway_keys.read_bytes())["producers"]
    key = SigningKey(bytes.fromhex(keys[first["principal"]]))
    entry = first["streams"][0]
    record = ReaderKeyRecord.decode(b64decode(entry["reader_key"]))
    draft = Draft(
        label=Label(bytes.fromhex(entry["label"])), reader_pk=record.reader_pk,
        header=PayloadHeader(schema=SCHEMA), body=b"pending",
    )  # fmt: skip
    auth_ref = AuthRef(bytes.fromhex(first["auth_ref"]))
    state_dir = producer_folder(office.files.gateway_state, "till")
    with HubClient(office.hub.url, office.hub.hub_pk, state_dir=state_dir) as gateway:
        with gateway.producer(key, auth_ref=auth_ref) as producer:
            producer.enqueue([draft])
            act = office.ask("producer.rotate", name="till")
            office.run()
            act.refresh_from_db()
            assert (act.state, "still sends" in act.message) == ("pending", True)
            assert key.public.hex() in office.files.gateway_keys.read_text()
            config = GatewayConfig.parse(office.files.gateway_config.read_bytes())
            assert [one.principal for one in config.retiring] == [key.public]
            producer.flush()
        office.run()
    act.refresh_from_db()
    assert act.state == "done"
    assert key.public.hex() not in office.files.gateway_keys.read_text()


def test_a_revoked_producer_is_refused_by_the_hub_and_its_tokens_end(office: Office) -> None:
    office.do("producer.add", name="till", streams=[ORDERS], held="gateway")
    office.do("token.create", role="producer", producer="till", sha256="ab" * 32)
    config = json.loads(office.files.gateway_config.read_bytes())
    assert [one["producer"] for one in config["tokens"]] == ["till"]
    result = office.do("producer.revoke", "stolen laptop", name="till")
    config = json.loads(office.files.gateway_config.read_bytes())
    assert (config["producers"], config["tokens"]) == ([], [])
    assert json.loads(office.files.gateway_keys.read_bytes())["producers"] == {}
    assert result["tokens_revoked"] == [str(ApiToken.objects.get(role="producer").id)]
    told = office.read()[-1].payload
    assert (told["producer"], told["reason"]) == ("till", "stolen laptop")
    with pytest.raises(VeenError) as refusal:
        office.authority.client.authorize(
            CapToken.decode(bytes(Producer.objects.get(name="till").cap_token))
        )
    assert refusal.value.code is ErrorCode.CAP


@pytest.mark.parametrize("whose", ["recorder-admin", "issuer", "recorder-service"])
def test_a_key_with_another_role_never_becomes_a_producers(office: Office, whose: str) -> None:
    authority = office.authority
    principal = {
        "recorder-admin": authority.recorder_admin.public,
        "issuer": authority.issuer.public,
        "recorder-service": authority.services["recorder-service"],
    }[whose]
    act = office.fails("producer.add", name="shop", streams=[ORDERS], principal=principal.hex())
    assert act.error_code == "P.POLICY"
    assert ("admin-is-producer" in act.message) == (whose != "recorder-service")
    assert "two-roles" in act.message
    assert not Producer.objects.exists()


def test_a_key_that_was_a_producers_is_never_used_again(office: Office) -> None:
    principal = "cd" * 32
    office.do("producer.add", name="shop", streams=[ORDERS], principal=principal)
    office.do("producer.revoke", name="shop")
    act = office.fails("producer.add", name="shop", streams=[ORDERS], principal=principal)
    assert act.error_code == "P.POLICY"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"name": "shop", "streams": [ORDERS]}, "E.FORMAT"),
        ({"name": "shop", "streams": [], "principal": "ab" * 32}, "E.FORMAT"),
        ({"name": "a b", "streams": [ORDERS], "principal": "ab" * 32}, "E.FORMAT"),
        ({"name": "shop", "streams": [ORDERS], "principal": "AB" * 32}, "E.FORMAT"),
        ({"name": "s", "streams": [ORDERS], "principal": "ab" * 32, "held": "gateway"}, "E.FORMAT"),
        ({"name": "s", "streams": ["record/query/x"], "principal": "ab" * 32}, "P.POLICY"),
        ({"name": "s", "streams": ["record/app/no"], "principal": "ab" * 32}, "E.NOTFOUND"),
        ({"name": "s", "streams": [ORDERS], "principal": "ab" * 32, "key": "x"}, "E.FORMAT"),
    ],
)
def test_a_producer_that_cannot_be_is_refused_when_asked_for(
    office: Office, args: dict[str, Any], code: str
) -> None:
    with pytest.raises(VeenError) as refusal:
        office.ask("producer.add", **args)
    assert refusal.value.code == code


def test_roles_that_were_mixed_behind_our_back_are_a_finding(office: Office) -> None:
    office.do("producer.add", name="shop", streams=[ORDERS], principal="ce" * 32)
    assert note_violations(office.authority) == 0
    Producer.objects.update(principal=office.admin.public.hex())
    assert note_violations(office.authority) > 0
    rules = {one.object.split()[0] for one in Finding.objects.filter(code="role_violation")}
    assert "admin-is-producer" in rules
