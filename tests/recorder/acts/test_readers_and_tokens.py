"""Readers open what they were granted; a token is of one role and known by its hash alone."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from hub.crypto.hpke import DhSecret
from hub.errors import ErrorCode, VeenError
from hub.wire.readerkey import WrappedReaderSecret
from recorder import services
from recorder.models import Act, ApiToken, ReaderGrant
from recorder.tokens import hash_of
from tests.support.office import ALICE, Office

ORDERS = "record/app/orders"
BILLS = "record/app/bills"


@pytest.fixture
def office(office: Office) -> Office:
    office.do("stream.create", name=ORDERS)
    office.do("stream.create", name=BILLS)
    return office


def test_a_reader_unwraps_every_key_of_its_streams_and_nothing_else(office: Office) -> None:
    office.do("stream.rotate_key", stream=ORDERS)
    partner = DhSecret.generate()
    result = office.do("reader.add", name="partner", dh_pk=partner.public.hex(), streams=[ORDERS])
    [stream] = result["streams"]
    wrapped = [WrappedReaderSecret.decode(b64decode(one["wrapped"])) for one in stream["keys"]]
    assert [one.unwrap(partner.secret) for one in wrapped] == office.secrets(ORDERS)
    assert set(ReaderGrant.objects.filter(reader="partner").values_list("stream", flat=True)) == {
        ORDERS
    }
    told = office.read()[-1]
    assert (told.event.event_type, told.payload["streams"]) == ("reader.added", [ORDERS])


def test_a_known_reader_is_given_more(office: Office) -> None:
    dh_pk = DhSecret.generate().public.hex()
    office.do("reader.add", name="partner", dh_pk=dh_pk, streams=[ORDERS])
    office.do("reader.add", name="partner", dh_pk=dh_pk, all=True)
    assert ReaderGrant.objects.filter(reader="partner").count() == 3
    with pytest.raises(VeenError) as refusal:
        office.ask("reader.add", name="partner", dh_pk="00" * 32, streams=[ORDERS])
    assert refusal.value.code is ErrorCode.POLICY


def test_a_revoked_reader_gets_nothing_new_and_its_streams_get_new_keys(office: Office) -> None:
    partner = DhSecret.generate()
    office.do("reader.add", name="partner", dh_pk=partner.public.hex(), streams=[ORDERS])
    result = office.do("reader.revoke", name="partner")
    assert [(one["stream"], one["key_id"]) for one in result["rotated"]] == [(ORDERS, 2)]
    assert len(office.secrets(ORDERS)) == 2
    assert len(office.secrets(BILLS)) == 1
    assert list(ReaderGrant.objects.filter(reader="partner").values_list("key_id", flat=True)) == [
        1
    ]
    with pytest.raises(VeenError):
        office.ask("reader.add", name="partner", dh_pk=partner.public.hex(), streams=[BILLS])


def test_the_admins_own_reader_stays(office: Office) -> None:
    with pytest.raises(VeenError) as refusal:
        office.ask("reader.revoke", name="recorder-admin")
    assert refusal.value.code is ErrorCode.POLICY


def test_a_token_is_shown_once_and_kept_as_a_hash(office: Office) -> None:
    asked = services.submit(
        "token.create", {"role": "reader", "name": "auditor", "streams": [ORDERS]}, actor=ALICE
    )
    assert asked.token is not None
    assert not ApiToken.objects.filter(name="auditor").exists(), "not before it is recorded"
    office.run()
    token = ApiToken.objects.get(name="auditor")
    assert token.sha256 == hash_of(asked.token)
    assert len(bytes.fromhex(token.principal_id)) == 32
    act = Act.objects.get(pk=asked.act.id)
    told = office.read()[-1]
    assert told.payload["role"] == "reader"
    assert asked.token not in f"{act.args}{act.result}{told.event.payload}"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"role": "reader", "name": "x"}, "E.FORMAT"),
        ({"role": "reader", "name": "x", "streams": [ORDERS], "all": True}, "E.FORMAT"),
        ({"role": "reader", "name": "x", "streams": ["record/app/no"]}, "E.NOTFOUND"),
        ({"role": "admin", "name": "x", "streams": [ORDERS]}, "E.FORMAT"),
        ({"role": "admin", "name": "x", "producer": "shop"}, "E.FORMAT"),
        ({"role": "producer", "name": "x"}, "E.FORMAT"),
        ({"role": "producer", "producer": "nobody"}, "E.NOTFOUND"),
        ({"role": "producer", "producer": "shop"}, "P.POLICY"),
        ({"role": "boss", "name": "x"}, "E.FORMAT"),
    ],
)
def test_a_token_with_a_wrong_scope_is_refused(
    office: Office, args: dict[str, Any], code: str
) -> None:
    office.do("producer.add", name="shop", streams=[ORDERS], principal="ab" * 32)
    with pytest.raises(VeenError) as refusal:
        office.ask("token.create", sha256="cd" * 32, **args)
    assert refusal.value.code == code


def test_a_revoked_token_is_over_and_cannot_be_revoked_twice(office: Office) -> None:
    result = office.do("token.create", role="admin", name="eve", sha256="ab" * 32)
    office.do("token.revoke", token_id=result["token_id"])
    assert ApiToken.objects.get(pk=result["token_id"]).revoked_at is not None
    assert office.read()[-1].event.event_type == "token.revoked"
    with pytest.raises(VeenError) as refusal:
        office.ask("token.revoke", token_id=result["token_id"])
    assert refusal.value.code is ErrorCode.NOTFOUND


def test_the_token_of_the_state_directory_is_one_row(office: Office) -> None:
    first = services.ensure_admin_token("secret-1")
    assert services.ensure_admin_token("secret-1") == first
    second = services.ensure_admin_token("secret-2")
    first.refresh_from_db()
    assert first.revoked_at is not None
    assert second.revoked_at is None
