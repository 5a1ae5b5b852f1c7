"""Read tokens: who may read what, live, and what needs no token at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hub import label as labels
from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import Label
from hub.wire.checkpoint import Checkpoint
from hub.wire.receipt import Receipt
from tests.support import live_hub
from tests.support.live_hub import ROUTING_KEY, Author, HttpClient, LiveHub

MINE, OTHER = "test/mine", "test/other"


def label_of(stream: str) -> Label:
    return labels.derive(ROUTING_KEY, labels.stream_id(stream))


@dataclass
class Realm:
    """A hub with two streams and a token for each reach."""

    hub: LiveHub
    client: HttpClient
    mine: str
    every: str
    receipt: Receipt
    manifest_id: str


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("tokens") / "d",
        open_admission=True,
        routing_key=ROUTING_KEY,
        workers=2,
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        receipt = Author(label_of(MINE)).send(client)
        Author(label_of(OTHER)).send(client)
        mine = hub.control("token_add", name="mine", streams=[MINE])["token"]
        every = hub.control("token_add", name="every", all=True)["token"]
        manifest_id = hub.control("checkpoint")["manifest_id"]
        yield Realm(hub, client, mine, every, receipt, manifest_id)


def reads(stream: str, manifest_id: str) -> list[str]:
    label = label_of(stream).hex()
    del manifest_id
    return [
        f"/stream?label={label}",
        f"/receipt?label={label}&seq=1",
        f"/proof?label={label}&seq=1",
        f"/consistency?label={label}&from_size=1&to_size=1",
        f"/range_proof?label={label}&from=1&to=1",
        f"/head?label={label}",
        f"/checkpoint_latest?label={label}",
        f"/checkpoint?label={label}&upto_seq=1",
        f"/checkpoint_range?label={label}&epoch_min=0&epoch_max=9",
    ]


@pytest.mark.parametrize("token", [None, "nonsense", "vrt_" + "x" * 43])
def test_a_read_without_a_known_token_is_401_e_auth(realm: Realm, token: str | None) -> None:
    paths = reads(MINE, realm.manifest_id)
    paths += ["/manifest_latest", f"/manifest?id={realm.manifest_id}", "/metrics"]
    paths += ["/attachment/" + "00" * 32, "/checkpoint_range?epoch_min=0&epoch_max=9"]
    for path in paths:
        reply = realm.client.get(path, token)
        assert (path, reply.status, reply.code) == (path, 401, "E.AUTH")
        assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Basic {0}", "{0}", "Bearer", "Bearer  ", "Token {0}"])
def test_only_the_bearer_scheme_counts(realm: Realm, scheme: str) -> None:
    headers = {"Authorization": scheme.format(realm.every)}
    assert realm.client.ask("GET", "/manifest_latest", None, headers).status == 401


def test_a_token_opens_its_streams_and_no_other(realm: Realm) -> None:
    for path in reads(MINE, realm.manifest_id):
        assert (path, realm.client.get(path, realm.mine).status) == (path, 200)
    for path in reads(OTHER, realm.manifest_id):
        reply = realm.client.get(path, realm.mine)
        assert (path, reply.status, reply.code) == (path, 403, "E.CAP")
        assert realm.client.get(path, realm.every).status == 200


def test_a_stream_that_does_not_exist_is_as_closed_as_one_that_does(realm: Realm) -> None:
    reply = realm.client.get(f"/head?label={'00' * 32}", realm.mine)
    assert (reply.status, reply.code) == (403, "E.CAP")


def test_any_token_opens_the_manifests(realm: Realm) -> None:
    for path in ("/manifest_latest", f"/manifest?id={realm.manifest_id}"):
        assert realm.client.get(path, realm.mine).ok() == realm.client.get(path, realm.every).ok()


def test_metrics_and_attachments_need_a_token_for_all(realm: Realm) -> None:
    for path in ("/metrics", "/attachment/" + "00" * 32):
        reply = realm.client.get(path, realm.mine)
        assert (path, reply.status, reply.code) == (path, 403, "E.CAP")
    assert realm.client.get("/metrics", realm.every).status == 200
    assert realm.client.get("/attachment/" + "00" * 32, realm.every).status == 404


def test_checkpoint_range_without_label_gives_only_the_tokens_labels(realm: Realm) -> None:
    path = "/checkpoint_range?epoch_min=0&epoch_max=9"
    mine = [Checkpoint.decode(item) for item in realm.client.get(path, realm.mine).items()]
    assert {item.label_curr for item in mine} == {label_of(MINE)}
    every = [Checkpoint.decode(item) for item in realm.client.get(path, realm.every).items()]
    assert {label_of(MINE), label_of(OTHER)} < {item.label_curr for item in every}


@pytest.mark.parametrize("path", ["/profile", "/rotations", "/healthz", "/readyz"])
def test_these_need_no_token(realm: Realm, path: str) -> None:
    assert realm.client.get(path).status == 200


def test_a_producer_fetches_its_own_receipt_without_a_token(realm: Realm) -> None:
    leaf = realm.receipt.leaf_hash.hex()
    assert realm.client.get(f"/receipt?leaf_hash={leaf}").ok() == realm.receipt.encode()


def test_the_list_is_read_again_while_the_hub_runs(realm: Realm) -> None:
    path = f"/head?label={label_of(MINE).hex()}"
    client = realm.hub.client()
    token = realm.hub.control("token_add", name="later", streams=[MINE])["token"]
    assert client.get(path, token).status == 200
    realm.hub.control("token_revoke", name="later")
    assert client.get(path, token).status == 401


def test_the_hub_keeps_only_hashes_and_lists_without_them(realm: Realm) -> None:
    stored = (realm.hub.data_dir / "tokens.json").read_text()
    assert realm.mine not in stored
    assert realm.every not in stored
    listing = realm.hub.control("token_list")["tokens"]
    labels = [label_of(MINE).hex()]
    assert {"name": "mine", "all": False, "streams": [MINE], "labels": labels} in listing
    assert "sha256" not in str(listing)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "mine", "all": True},  # taken
        {"name": "", "all": True},
        {"name": "new\nline", "all": True},
        {"name": "x" * 200, "all": True},
        {"name": "nothing"},
        {"name": "empty", "streams": []},
        {"name": "bad", "streams": ["../etc"]},
        {"name": "bad", "labels": ["00"]},
    ],
)
def test_a_token_that_makes_no_sense_is_refused_and_not_logged(
    realm: Realm, arguments: dict[str, object]
) -> None:
    before = realm.hub.control("status")["messages"]
    with pytest.raises(VeenError) as refused:
        realm.hub.control("token_add", **arguments)
    assert refused.value.code == "E.FORMAT"
    assert realm.hub.control("status")["messages"] == before


def test_revoking_a_token_that_is_not_there_is_e_notfound(realm: Realm) -> None:
    with pytest.raises(VeenError) as refused:
        realm.hub.control("token_revoke", name="nobody")
    assert refused.value.code == "E.NOTFOUND"


def test_a_token_may_name_labels_in_hex(realm: Realm) -> None:
    label = label_of(OTHER).hex()
    token = realm.hub.control("token_add", name="by-label", labels=[label])["token"]
    assert realm.client.get(f"/head?label={label}", token).status == 200
    assert realm.client.get(f"/head?label={label_of(MINE).hex()}", token).status == 403
