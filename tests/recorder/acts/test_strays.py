"""A producer's key on another stream: refused by the hub, and a finding [SDR0 3.4: I3]."""

from __future__ import annotations

import pytest

from hub.client import Draft, HubClient
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from hub.types import AuthRef, DhKey
from hub.wire.payload import PayloadHeader
from recorder.event import SCHEMA
from recorder.models import Producer
from recorder.strays import STRAY, StrayWatch
from tests.support.office import Office

ORDERS = "record/app/orders"
BILLS = "record/app/bills"


@pytest.fixture
def key(office: Office) -> SigningKey:
    """The shop's, which may write orders."""
    office.do("stream.create", name=ORDERS)
    office.do("stream.create", name=BILLS)
    made = SigningKey.generate()
    office.do("producer.add", name="shop", streams=[ORDERS], principal=made.public.hex())
    return made


@pytest.fixture
def watch(office: Office) -> StrayWatch:
    """Knows what other tests left on the hub they share."""
    made = StrayWatch()
    made.look(office.authority)
    Finding.objects.all().delete()
    return made


def write(office: Office, key: SigningKey, stream: str) -> None:
    row = Producer.objects.get(name="shop")
    reader_pk = office.do("stream.rotate_key", stream=stream)["reader_pk"]
    draft = Draft(
        label=office.authority.label(stream),
        reader_pk=DhKey(bytes.fromhex(reader_pk)),
        header=PayloadHeader(schema=SCHEMA),
        body=b"an event",
    )
    with (
        HubClient(office.hub.url, office.hub.hub_pk) as client,
        client.producer(key, auth_ref=AuthRef(bytes.fromhex(row.auth_ref))) as producer,
    ):
        producer.submit(draft)


def refused(office: Office, key: SigningKey, stream: str) -> None:
    with pytest.raises(VeenError) as refusal:
        write(office, key, stream)
    assert refusal.value.code is ErrorCode.CAP


def test_its_own_stream_is_no_finding(office: Office, key: SigningKey, watch: StrayWatch) -> None:
    write(office, key, ORDERS)
    assert watch.look(office.authority) == 0
    assert not Finding.objects.exists()


def test_another_stream_is_refused_and_a_finding_that_names_both(
    office: Office, key: SigningKey, watch: StrayWatch
) -> None:
    refused(office, key, BILLS)
    refused(office, key, BILLS)
    assert watch.look(office.authority) == 1
    assert watch.look(office.authority) == 0  # nothing new
    [finding] = Finding.objects.all()
    assert (finding.code, finding.object) == (STRAY, f"shop on {BILLS}")
    assert (finding.severity, finding.acknowledged_by) == (Finding.Severity.WARNING, "")
    assert key.public.hex() in finding.detail
    assert "signed 2 messages" in finding.detail


def test_an_author_that_starts_anew_notes_it_once(
    office: Office, key: SigningKey, watch: StrayWatch
) -> None:
    refused(office, key, BILLS)
    for _ in range(2):
        StrayWatch().look(office.authority)
    assert Finding.objects.filter(object=f"shop on {BILLS}").count() == 1


def test_what_is_neither_a_producer_nor_a_stream_here_is_named_by_itself(
    office: Office, key: SigningKey, watch: StrayWatch
) -> None:
    row = Producer.objects.get(name="shop")
    refused(office, key, BILLS)
    row.streams.clear()
    row.delete()
    watch.look(office.authority)
    [finding] = Finding.objects.all()
    assert finding.object == f"a key of no producer on {BILLS}"
