"""Capabilities over HTTP: authorize, renewal, revocation, scope, and the fold after a restart."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hub import label as labels
from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import AuthRef, Label
from hub.wire import cbor
from hub.wire.captoken import CapToken, Rate
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import CBOR, ISSUER, ROUTING_KEY, Author, HttpClient, LiveHub

_numbers = itertools.count()
HOUR = 3600


class Producer:
    """A key, a stream of its own and a token for it."""

    def __init__(self, *, ttl: int = HOUR, rate: Rate | None = None) -> None:
        self.key = SigningKey.generate()
        self.stream = labels.stream_id(f"test/producer-{next(_numbers)}")
        self.label = labels.derive(ROUTING_KEY, self.stream)
        self.token = CapToken.issue(
            ISSUER, subject_pk=self.key.public, stream_ids=[self.stream], ttl=ttl, rate=rate
        )
        self.author = Author(self.label, self.key, auth_ref=self.token.auth_ref())

    def renew(self) -> CapToken:
        """One more link; the author goes over to it."""
        self.token = self.token.renew(ISSUER)
        self.author.auth_ref = self.token.auth_ref()
        return self.token


def authorize(client: HttpClient, token: CapToken) -> dict[str, object]:
    return client.ask("POST", "/authorize", token.encode(), CBOR).map()


def refusal(client: HttpClient, token: CapToken) -> tuple[int, str]:
    reply = client.ask("POST", "/authorize", token.encode(), CBOR)
    return reply.status, reply.code


def submit_code(client: HttpClient, author: Author) -> str:
    return client.submit(author.draft().encode()).code


def test_authorize_answers_auth_ref_and_expiry_and_opens_the_stream(producer: HttpClient) -> None:
    one = Producer(ttl=100)
    assert submit_code(producer, one.author) == "E.AUTH"
    said = authorize(producer, one.token)
    assert list(said) == ["auth_ref", "expires_at"]
    assert said["auth_ref"] == one.token.auth_ref()
    receipt = one.author.send(producer)
    assert isinstance(said["expires_at"], int)
    assert 95 <= said["expires_at"] - receipt.hub_ts <= 100


def test_a_missing_auth_ref_is_e_auth(producer: HttpClient) -> None:
    reply = producer.submit(Author(Producer().label).next())
    assert (reply.status, reply.code) == (403, "E.AUTH")


def test_authorize_is_logged_once_however_often_it_is_asked(
    closed_hub: LiveHub, producer: HttpClient
) -> None:
    one = Producer()
    before = closed_hub.control("status")["messages"]
    answers = [authorize(producer, one.token) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert closed_hub.control("status")["messages"] == before + 1


@pytest.mark.parametrize(
    ("flaw", "code"),
    [("issuer", "E.CAP"), ("link", "E.CAP"), ("format", "E.FORMAT"), ("trailing", "E.FORMAT")],
)
def test_a_token_that_does_not_hold_is_refused(producer: HttpClient, flaw: str, code: str) -> None:
    token = Producer().token
    data = token.encode()
    if flaw == "issuer":
        stranger = SigningKey.generate()
        data = CapToken.issue(
            stranger, subject_pk=token.subject_pk, stream_ids=token.stream_ids, ttl=60
        ).encode()
    elif flaw == "link":
        data = data[:-1] + bytes([data[-1] ^ 1])
    elif flaw == "format":
        data = b"\xa0"
    else:
        data += b"\x00"
    reply = producer.ask("POST", "/authorize", data, CBOR)
    assert reply.code == code
    assert reply.status == {"E.CAP": 403, "E.FORMAT": 400}[code]


def test_a_token_over_its_size_limit_is_e_size(producer: HttpClient) -> None:
    reply = producer.ask("POST", "/authorize", bytes(65_537), CBOR)
    assert (reply.status, reply.code) == (413, "E.SIZE")


def test_another_subject_is_e_cap(producer: HttpClient) -> None:
    one = Producer()
    authorize(producer, one.token)
    thief = Author(one.label, SigningKey.generate(), auth_ref=one.token.auth_ref())
    reply = producer.submit(thief.next())
    assert (reply.status, reply.code) == (403, "E.CAP")


def test_a_stream_out_of_scope_is_e_cap(producer: HttpClient) -> None:
    one, other = Producer(), Producer()
    authorize(producer, one.token)
    one.author.label = other.label
    assert submit_code(producer, one.author) == "E.CAP"


def test_only_the_service_identity_writes_to_hub_admission(
    closed_hub: LiveHub, open_hub: LiveHub, producer: HttpClient, anyone: HttpClient
) -> None:
    stream = labels.stream_id("hub/admission")
    key = SigningKey.generate()
    token = CapToken.issue(ISSUER, subject_pk=key.public, stream_ids=[stream], ttl=HOUR)
    authorize(producer, token)
    label = labels.derive(ROUTING_KEY, stream)
    for auth_ref in (None, token.auth_ref()):
        assert submit_code(producer, Author(label, key, auth_ref=auth_ref)) == "E.CAP"
    # A hub without routing key derives this one label with 32 zero bytes.
    bare = labels.derive(bytes(32), stream)
    assert submit_code(anyone, Author(bare, key)) == "E.CAP"


def test_renewal_supersedes_and_a_cut_chain_wins_nothing(producer: HttpClient) -> None:
    one = Producer()
    authorize(producer, one.token)
    one.author.send(producer)
    short, old_ref = one.token, one.token.auth_ref()
    renewed = one.renew()
    assert renewed.auth_ref() != old_ref
    one.author.auth_ref = old_ref
    one.author.send(producer)  # until the longer chain is seen the shorter one holds
    authorize(producer, renewed)
    assert submit_code(producer, one.author) == "E.CAP"
    assert refusal(producer, short) == (403, "E.CAP")
    one.author.auth_ref = renewed.auth_ref()
    one.author.send(producer)


@pytest.mark.parametrize("kind", ["client-id", "auth-ref", "cap-token"])
def test_each_kind_of_revocation_shuts_the_door(
    closed_hub: LiveHub, producer: HttpClient, kind: str
) -> None:
    one = Producer()
    authorize(producer, one.token)
    one.author.send(producer)
    target = {
        "client-id": one.key.public,
        "auth-ref": one.token.auth_ref(),
        "cap-token": one.token.revocation_target(),
    }[kind]
    said = closed_hub.control("revoke", kind=kind, target=target.hex(), reason="test")
    receipt = Receipt.decode(bytes.fromhex(said["receipt"]))
    receipt.verify(closed_hub.hub_pk)
    assert said["label"] == labels.derive(ROUTING_KEY, labels.stream_id("hub/admission")).hex()
    assert submit_code(producer, one.author) == "E.CAP"
    if kind != "client-id":
        assert refusal(producer, one.token) == (403, "E.CAP")
        # Revocation belongs to the core: a longer chain does not get around it.
        assert refusal(producer, one.renew()) == (403, "E.CAP")


def test_a_revocation_with_ttl_ends(closed_hub: LiveHub, producer: HttpClient) -> None:
    one = Producer()
    authorize(producer, one.token)
    closed_hub.control("revoke", kind="auth-ref", target=one.token.auth_ref().hex(), ttl=0)
    one.author.send(producer)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "nonsense", "target": "00" * 32},
        {"kind": "client-id", "target": "00"},
        {"kind": "client-id", "target": "zz" * 32},
        {"kind": "client-id"},
        {"kind": "client-id", "target": "00" * 32, "ttl": -1},
        {"kind": "client-id", "target": "00" * 32, "ttl": 2**64},
        {"kind": "client-id", "target": "00" * 32, "ttl": "soon"},
        {"kind": "client-id", "target": "00" * 32, "reason": "x" * 2000},
    ],
)
def test_a_malformed_revocation_is_refused_and_not_logged(
    closed_hub: LiveHub, arguments: dict[str, object]
) -> None:
    before = closed_hub.control("status")["messages"]
    with pytest.raises(VeenError) as refused:
        closed_hub.control("revoke", **arguments)
    assert refused.value.code == "E.FORMAT"
    assert closed_hub.control("status")["messages"] == before


def test_an_empty_bucket_is_429_with_retry_after(producer: HttpClient) -> None:
    one = Producer(rate=Rate(per_sec=0, burst=2))
    authorize(producer, one.token)
    one.author.send(producer)
    one.author.send(producer)
    reply = producer.submit(one.author.draft().encode())
    assert (reply.status, reply.code) == (429, "E.RATE")
    assert int(reply.headers["retry-after"]) >= 1


def test_refusals_spend_nothing_of_the_bucket(producer: HttpClient) -> None:
    one = Producer(rate=Rate(per_sec=0, burst=2))
    authorize(producer, one.token)
    first = one.author.next()
    producer.submit(first).ok()
    for _ in range(5):
        assert producer.submit(first).code == "E.DUP"
        assert producer.submit(one.author.draft(seq=9).encode()).code == "E.SEQ"
    one.author.send(producer)


def test_a_bucket_belongs_to_the_core_and_survives_renewal(producer: HttpClient) -> None:
    one = Producer(rate=Rate(per_sec=0, burst=1))
    authorize(producer, one.token)
    one.author.send(producer)
    authorize(producer, one.renew())
    assert submit_code(producer, one.author) == "E.RATE"


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[LiveHub]:
    hub = live_hub.start(
        HubConfig(
            data_dir=tmp_path / "d",
            trusted_issuers=frozenset({ISSUER.public}),
            routing_key=ROUTING_KEY,
            open_reads=True,
            workers=1,
        )
    )
    try:
        yield hub
    finally:
        hub.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_restart_folds_the_same_admission_state(
    own_hub: LiveHub,
    kill: bool,  # noqa: FBT001 - a parameter
) -> None:
    client = own_hub.client()
    admitted, revoked, renewed, limited = (
        Producer(), Producer(), Producer(), Producer(rate=Rate(per_sec=0, burst=2))
    )  # fmt: skip
    cast = (admitted, revoked, renewed, limited)
    before = {id(one): authorize(client, one.token) for one in cast}
    old_ref = renewed.token.auth_ref()
    authorize(client, renewed.renew())
    for one in cast:
        one.author.send(client)
    own_hub.control("revoke", kind="auth-ref", target=revoked.token.auth_ref().hex())
    limited.author.send(client)
    if kill:
        own_hub.kill()
    again = live_hub.restarted(own_hub)
    try:
        client = again.client()
        assert authorize(client, admitted.token) == before[id(admitted)]
        admitted.author.send(client)
        assert submit_code(client, revoked.author) == "E.CAP"
        renewed.author.send(client)
        renewed.author.auth_ref = AuthRef(old_ref)
        assert submit_code(client, renewed.author) == "E.CAP"
        assert submit_code(client, limited.author) == "E.RATE"
    finally:
        again.stop()


def test_a_token_that_is_over_is_e_time_and_authorizing_it_again_gives_its_first_expiry(
    own_hub: LiveHub,
) -> None:
    client = own_hub.client()
    one = Producer(ttl=0)
    first = authorize(client, one.token)
    live_hub.until(lambda: client.submit(one.author.draft().encode()).status == 400)
    reply = client.submit(one.author.draft().encode())
    if reply.status == 409:  # the first drafts were still in time
        one.author.seq += 1
        reply = client.submit(one.author.draft().encode())
    assert (reply.status, reply.code) == (400, "E.TIME")
    assert authorize(client, one.token) == first
    again = live_hub.restarted(own_hub)
    try:
        assert authorize(again.client(), one.token) == first
    finally:
        again.stop()


def test_a_clone_folds_the_same_state_and_roots(own_hub: LiveHub, tmp_path: Path) -> None:
    client = own_hub.client()
    one = Producer()
    said = authorize(client, one.token)
    for _ in range(5):
        one.author.send(client)
    head = client.get(f"/head?label={one.label.hex()}").ok()
    own_hub.stop()
    copy = tmp_path / "copy"
    shutil.copytree(own_hub.data_dir, copy)
    with live_hub.running(replace(own_hub.config, data_dir=copy)) as clone:
        other = clone.client()
        assert (clone.hub_id, clone.hub_pk) == (own_hub.hub_id, own_hub.hub_pk)
        assert other.get(f"/head?label={one.label.hex()}").ok() == head
        assert authorize(other, one.token) == said
        # A copy without its heads may be a second signer: it reads, and says why it does not write.
        reply = other.submit(one.author.draft().encode())
        assert (reply.status, reply.code) == (503, "E.STORE")
        assert "retry-after" in reply.headers
        assert "S.COPY" in reply.error["detail"]
        ready = other.get("/readyz")
        assert ready.status == 503
        reasons = cbor.decode(ready.body)
        assert isinstance(reasons, dict)
        assert reasons["ready"] is False
        assert "S.COPY" in str(reasons["reasons"])
    with live_hub.running(replace(own_hub.config, data_dir=copy, take_over=True)) as owner:
        one.author.send(owner.client())


def test_service_records_are_sealed_and_signed_by_a_key_of_their_own(
    closed_hub: LiveHub, own_hub: LiveHub
) -> None:
    client = own_hub.client()
    authorize(client, Producer().token)
    label = Label(labels.derive(ROUTING_KEY, labels.stream_id("hub/admission")))
    item = client.get(f"/stream?label={label.hex()}").items()[0]
    value = cbor.decode(item, depth=8)
    assert isinstance(value, list)
    msg = value[1]
    assert isinstance(msg, list)
    assert msg[6] is None  # auth_ref
    assert msg[3] != own_hub.hub_pk
