"""Profiles with epochs: labels change, CHECKPOINTs chain them, the window is enforced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub import label as labels
from hub.crypto.signing import SigningKey
from hub.server.config import HubConfig
from hub.wire.captoken import CapToken
from hub.wire.checkpoint import Checkpoint
from hub.wire.profile import PRODUCT, Profile
from tests.support import live_hub
from tests.support.live_hub import CBOR, ISSUER, ROUTING_KEY, Author, HttpClient, LiveHub

EPOCH_SEC = 1000
PROFILE = Profile(epoch_sec=EPOCH_SEC, pad_block=256)
STREAM = labels.stream_id("test/epochs")
KEY = SigningKey.generate()
TOKEN = CapToken.issue(ISSUER, subject_pk=KEY.public, stream_ids=[STREAM], ttl=10**6)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        open_reads=True,
        workers=1,
        profiles=(PRODUCT, PROFILE),
    )
    with live_hub.running(config) as hub:
        hub.client().ask("POST", "/authorize", TOKEN.encode(), CBOR).ok()
        yield hub


def author_of(epoch: int) -> Author:
    label = labels.derive(ROUTING_KEY, STREAM, epoch)
    return Author(label, KEY, auth_ref=TOKEN.auth_ref(), profile=PROFILE)


def test_the_window_is_one_epoch_either_way(hub: LiveHub) -> None:
    client = hub.client()
    now = int(time.time()) // EPOCH_SEC
    for epoch in (now - 1, now, now + 1):
        author_of(epoch).send(client)
    for epoch in (now - 4, now + 4):
        reply = client.submit(author_of(epoch).next())
        assert (reply.status, reply.code) == (400, "E.TIME")


def test_a_label_of_no_epoch_at_all_is_e_cap(hub: LiveHub) -> None:
    author = author_of(0)
    reply = hub.client().submit(author.next())
    assert (reply.status, reply.code) == (403, "E.CAP")


def test_labels_chain_through_their_checkpoints(hub: LiveHub) -> None:
    client = hub.client()
    now = int(time.time()) // EPOCH_SEC
    for epoch in (now - 1, now):
        author_of(epoch).send(client)
    hub.control("checkpoint")
    _check_chain(client, now - 1, now)
    # The label of the next epoch finds its predecessor also after a restart.
    again = live_hub.restarted(hub)
    try:
        client = again.client()
        author_of(now + 1).send(client)
        again.control("checkpoint")
        _check_chain(client, now, now + 1)
        again.kill()
        third = live_hub.start(again.config)
        try:
            third.control("checkpoint")
            _check_chain(third.client(), now, now + 1)
        finally:
            third.stop()
    finally:
        again.stop()


def _check_chain(client: HttpClient, before: int, epoch: int) -> None:
    label = labels.derive(ROUTING_KEY, STREAM, epoch)
    wire = client.get(f"/checkpoint_latest?label={label.hex()}").ok()
    checkpoint = Checkpoint.decode(wire)
    assert checkpoint.epoch == epoch
    assert checkpoint.label_curr == label
    assert checkpoint.label_prev == labels.derive(ROUTING_KEY, STREAM, before)
    listing = client.get(f"/checkpoint_range?epoch_min={epoch}&epoch_max={epoch}").items()
    assert {Checkpoint.decode(item).label_curr for item in listing} == {label}


def test_the_first_label_of_a_stream_is_its_own_predecessor(hub: LiveHub) -> None:
    client = hub.client()
    author = author_of(int(time.time()) // EPOCH_SEC)
    author.send(client)
    hub.control("checkpoint")
    wire = client.get(f"/checkpoint_latest?label={author.label.hex()}").ok()
    assert Checkpoint.decode(wire).label_prev == author.label


def test_a_read_token_of_the_stream_opens_its_labels_of_every_epoch(tmp_path: Path) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
        profiles=(PRODUCT, PROFILE),
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        client.ask("POST", "/authorize", TOKEN.encode(), CBOR).ok()
        now = int(time.time()) // EPOCH_SEC
        authors = [author_of(epoch) for epoch in (now - 1, now, now + 1)]
        for author in authors:
            author.send(client)
        hub.control("checkpoint")
        mine = hub.control("token_add", name="mine", streams=["test/epochs"])["token"]
        other = hub.control("token_add", name="other", streams=["test/other"])["token"]
        for author in authors:
            path = f"/head?label={author.label.hex()}"
            assert client.get(path, mine).status == 200
            assert client.get(path, other).code == "E.CAP"
        path = f"/checkpoint_range?epoch_min=0&epoch_max={now + 9}"
        found = {Checkpoint.decode(item).label_curr for item in client.get(path, mine).items()}
        assert found == {author.label for author in authors}
        assert client.get(path, other).items() == []
