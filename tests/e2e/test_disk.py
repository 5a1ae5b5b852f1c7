"""A disk that takes no more (C16): writes stop with a code, reads go on, nobody edits by hand."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import Label
from hub.wire import cbor
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub

LABEL = Label(b"d" * 32)
UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=1, log_submits=False
    )
    with live_hub.running(config) as hub:
        yield hub


def limit_files(hub: LiveHub, size: int) -> None:
    """No file of the writer may grow over `size`: its writes fail as on a full disk."""
    _, hard = resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(hub.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def readiness(client: HttpClient) -> tuple[int, list[object]]:
    reply = client.get("/readyz")
    said = cbor.decode(reply.body)
    assert isinstance(said, dict)
    assert said["ready"] is (reply.status == 200)
    assert isinstance(said["reasons"], list)
    return reply.status, said["reasons"]


def test_a_full_disk_refuses_writes_keeps_reads_and_recovers_without_a_restart(
    hub: LiveHub,
) -> None:
    client, author = hub.client(), Author(LABEL)
    receipts = [author.send(client) for _ in range(5)]
    segment = hub.data_dir / "log" / "00000001.seg"
    limit_files(hub, segment.stat().st_size + 100)
    reply = client.submit(author.draft().encode())
    assert (reply.status, reply.code) == (503, "E.STORE")
    assert int(reply.headers["retry-after"]) >= 1
    assert client.get(f"/head?label={LABEL.hex()}").ok() == receipts[-1].encode()
    assert len(client.get(f"/stream?label={LABEL.hex()}&with_proof=1").items()) == 5
    leaf = receipts[0].leaf_hash.hex()
    assert client.get(f"/receipt?leaf_hash={leaf}").ok() == receipts[0].encode()
    assert client.get("/healthz").status == 200
    limit_files(hub, UNLIMITED)
    receipt = author.send(client)
    assert receipt.stream_seq == 6
    again = live_hub.restarted(hub)
    try:
        assert again.client().get(f"/head?label={LABEL.hex()}").ok() == receipt.encode()
    finally:
        again.stop()


def test_readiness_says_that_the_disk_refuses(hub: LiveHub) -> None:
    client, author = hub.client(), Author(LABEL)
    author.send(client)
    live_hub.until(lambda: client.get("/manifest_latest").status == 200)
    limit_files(hub, 1)
    assert client.submit(author.draft().encode()).code == "E.STORE"
    live_hub.until(lambda: readiness(client)[0] == 503)
    assert any("disk" in str(reason) for reason in readiness(client)[1])
    limit_files(hub, UNLIMITED)
    author.send(client)
    live_hub.until(lambda: readiness(client) == (200, []))


def test_readiness_says_it_though_nobody_writes(hub: LiveHub) -> None:
    client = hub.client()
    live_hub.until(lambda: readiness(client) == (200, []))
    limit_files(hub, 1)
    live_hub.until(lambda: readiness(client)[0] == 503)
    assert any("disk" in str(reason) for reason in readiness(client)[1])
    limit_files(hub, UNLIMITED)
    live_hub.until(lambda: readiness(client) == (200, []))


def test_acts_that_cannot_be_recorded_are_refused(hub: LiveHub) -> None:
    client = hub.client()
    Author(LABEL).send(client)
    hub.control("token_add", name="kept", all=True)
    limit_files(hub, 1)
    acts: dict[str, dict[str, object]] = {
        "revoke": {"kind": "client-id", "target": "00" * 32},
        "token_add": {"name": "x", "all": True},
        "token_revoke": {"name": "kept"},
        "checkpoint": {},
        "rotate": {},
    }
    for verb, arguments in acts.items():
        with pytest.raises(VeenError) as refused:
            hub.control(verb, **arguments)
        assert (verb, refused.value.code) == (verb, "E.STORE")
    assert list(json.loads((hub.data_dir / "tokens.json").read_bytes())) == ["kept"]
    limit_files(hub, UNLIMITED)
    assert hub.control("rotate")["old_pk"] == hub.hub_pk.hex()
