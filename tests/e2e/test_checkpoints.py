"""CHECKPOINTs and manifests over HTTP, on demand and on schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub import label as labels
from hub.server.config import HubConfig
from hub.types import Label, ManifestId, MmrRoot
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import NO_MANIFEST, Manifest
from hub.wire.profile import DEFAULT_PROFILES, PRODUCT, Profile
from hub.wire.proof import ConsistencyProof, MmrProof
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub

LABELS = [Label(bytes([number]) * 32) for number in (9, 3, 7)]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """Makes manifests only when asked."""
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("checkpoints") / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
        checkpoint_interval_s=10**10,
        checkpoint_messages=10**9,
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        authors = [Author(label) for label in LABELS]
        for round_ in range(4):
            for author in authors:
                client.batch(*[author.next(b"%d" % round_) for _ in range(3)]).items()
            hub.control("checkpoint")
        yield hub


@pytest.fixture
def client(hub: LiveHub) -> HttpClient:
    return hub.client()


def test_a_manifest_covers_every_label_and_verifies(hub: LiveHub, client: HttpClient) -> None:
    reply = client.get("/manifest_latest")
    manifest = Manifest.decode(reply.ok())
    manifest.verify(hub.hub_pk)
    assert manifest.profile_id == PRODUCT.id
    found = {item.label_curr: item.upto_seq for item in manifest.checkpoints}
    assert found == dict.fromkeys(sorted(LABELS), 12)
    assert client.get(f"/manifest?id={manifest.id.hex()}").ok() == reply.body


def test_manifests_chain_back_to_the_first(hub: LiveHub, client: HttpClient) -> None:
    manifest = Manifest.decode(client.get("/manifest_latest").ok())
    count = 1
    while manifest.previous != NO_MANIFEST:
        before = Manifest.decode(client.get(f"/manifest?id={manifest.previous.hex()}").ok())
        before.verify(hub.hub_pk)
        assert before.created_at <= manifest.created_at
        assert before.id == ManifestId(manifest.previous)
        manifest, count = before, count + 1
    assert count == 4


def test_the_control_verb_answers_what_it_signed(hub: LiveHub, client: HttpClient) -> None:
    said = hub.control("checkpoint")
    manifest = Manifest.decode(client.get(f"/manifest?id={said['manifest_id']}").ok())
    assert said["created_at"] == manifest.created_at
    assert [item["label"] for item in said["checkpoints"]] == [
        item.label_curr.hex() for item in manifest.checkpoints
    ]


def test_every_entry_up_to_a_checkpoint_is_proved_against_it(
    hub: LiveHub, client: HttpClient
) -> None:
    query = f"label={LABELS[0].hex()}"
    for upto_seq in (3, 6, 9, 12):
        wire = client.get(f"/checkpoint?{query}&upto_seq={upto_seq}").ok()
        checkpoint = Checkpoint.decode(wire)
        checkpoint.verify(hub.hub_pk)
        assert checkpoint.upto_seq == upto_seq
        assert checkpoint.label_prev == checkpoint.label_curr == LABELS[0]
        for seq in range(1, upto_seq + 1):
            proof = client.get(f"/proof?{query}&seq={seq}&size={upto_seq}").ok()
            MmrProof.decode(proof).verify(
                stream_seq=seq, mmr_size=upto_seq, root=checkpoint.mmr_root
            )


def test_two_checkpoints_are_consistent(client: HttpClient) -> None:
    query = f"label={LABELS[1].hex()}"
    roots: dict[int, MmrRoot] = {}
    for upto_seq in (3, 12):
        wire = client.get(f"/checkpoint?{query}&upto_seq={upto_seq}").ok()
        roots[upto_seq] = Checkpoint.decode(wire).mmr_root
    proof = client.get(f"/consistency?{query}&from_size=3&to_size=12").ok()
    ConsistencyProof.decode(proof).verify(roots[3], roots[12])


def test_checkpoint_latest_is_that_of_the_newest_manifest(client: HttpClient) -> None:
    manifest = Manifest.decode(client.get("/manifest_latest").ok())
    for label in LABELS:
        checkpoint = manifest.checkpoint(label)
        assert checkpoint is not None
        wire = client.get(f"/checkpoint_latest?label={label.hex()}").ok()
        assert wire == checkpoint.encode()


def test_a_checkpoint_that_was_never_made_is_404(client: HttpClient) -> None:
    for upto_seq in (0, 4, 99):
        reply = client.get(f"/checkpoint?label={LABELS[0].hex()}&upto_seq={upto_seq}")
        assert (reply.status, reply.code) == (404, "E.NOTFOUND")


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_checkpoint_range_pages_through_all_of_them(client: HttpClient, limit: int) -> None:
    found: list[tuple[Label, int]] = []
    path: str | None = f"/checkpoint_range?epoch_min=0&epoch_max=5&limit={limit}"
    while path is not None:
        reply = client.get(path)
        items = reply.items()
        assert len(items) <= limit
        for item in items:
            checkpoint = Checkpoint.decode(item)
            found.append((checkpoint.label_curr, checkpoint.upto_seq))
        path = reply.next_link()
    assert found == [(label, upto) for label in sorted(LABELS) for upto in (3, 6, 9, 12)]


def test_a_listing_neither_repeats_nor_drops_while_checkpoints_are_added(
    hub: LiveHub, client: HttpClient
) -> None:
    extra = [Author(Label(bytes([number]) * 32)) for number in (100, 101)]
    for author in extra:
        author.send(client)
    hub.control("checkpoint")
    reply = client.get("/checkpoint_range?epoch_min=0&epoch_max=0&limit=6")
    before = [Checkpoint.decode(item) for item in reply.items()]
    extra[0].send(client)
    client.batch(*[Author(LABELS[0]).next()]).items()
    hub.control("checkpoint")
    following = reply.next_link()
    assert following is not None
    after = [Checkpoint.decode(i) for i in client.get(following.replace("=6", "=99")).items()]
    places = [(item.label_curr, item.upto_seq) for item in (*before, *after)]
    assert len(places) == len(set(places))
    assert {(label, upto) for label in LABELS for upto in (3, 6, 9, 12)} <= set(places)


def test_epochs_outside_the_range_are_left_out(client: HttpClient) -> None:
    assert client.get("/checkpoint_range?epoch_min=1&epoch_max=9").items() == []


def test_labels_of_an_epoch_are_found_by_it(tmp_path: Path) -> None:
    """A label has one epoch for ever; those of others are passed over."""
    yearly = Profile(epoch_sec=10**9, pad_block=0)  # in epoch 1 until the year 2033
    config = HubConfig(
        data_dir=tmp_path / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
        profiles=(*DEFAULT_PROFILES, yearly),
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        plain, dated = Author(LABELS[0]), Author(LABELS[1], profile=yearly)
        for _ in range(2):
            plain.send(client)
            dated.send(client)
            hub.control("checkpoint")

        def places(low: int, high: int) -> list[tuple[Label, int]]:
            found = client.get(f"/checkpoint_range?epoch_min={low}&epoch_max={high}").items()
            read = [Checkpoint.decode(item) for item in found]
            return [(item.label_curr, item.upto_seq) for item in read]

        assert places(1, 1) == [(LABELS[1], 1), (LABELS[1], 2)]
        assert (LABELS[0], 2) in places(0, 0)
        assert (LABELS[1], 1) not in places(0, 0)
        assert set(places(0, 1)) == {*places(0, 0), *places(1, 1)}
        page = client.get("/checkpoint_range?epoch_min=1&epoch_max=1&limit=1")
        assert len(client.get(page.next_link() or "").items()) == 1


def test_a_manifest_by_an_unknown_id_is_404(client: HttpClient) -> None:
    assert client.get(f"/manifest?id={'11' * 32}").code == "E.NOTFOUND"


def test_a_hub_checkpoints_by_itself_when_something_is_new_and_then_rests(tmp_path: Path) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
        checkpoint_interval_s=1,
    )
    with live_hub.running(config) as hub:
        client = hub.client()
        assert client.get("/manifest_latest").code == "E.NOTFOUND"
        assert client.get("/readyz").status == 200
        Author(LABELS[0]).send(client)
        live_hub.until(lambda: client.get("/manifest_latest").status == 200)
        first = client.get("/manifest_latest").ok()
        # A message on a housekeeping label causes no manifest by time.
        hub.control("label_class", label=LABELS[1].hex(), **{"class": "wallet"})
        housekeeping = labels.derive(bytes(32), labels.stream_id("hub/admission")).hex()
        assert int(hub.control("status")["uncheckpointed"]) == 1
        assert client.get(f"/head?label={housekeeping}").status == 200
        Author(LABELS[2]).send(client)
        live_hub.until(lambda: client.get("/manifest_latest").ok() != first)
        manifest = Manifest.decode(client.get("/manifest_latest").ok())
        assert manifest.previous == Manifest.decode(first).id
        assert {item.label_curr.hex() for item in manifest.checkpoints} == {
            LABELS[0].hex(), LABELS[2].hex(), housekeeping,
        }  # fmt: skip


def test_volume_makes_a_manifest_before_its_time(tmp_path: Path) -> None:
    config = HubConfig(
        data_dir=tmp_path / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
        checkpoint_interval_s=10**10,
        checkpoint_messages=50,
    )
    with live_hub.running(config) as hub:
        client, author = hub.client(), Author(LABELS[0])
        client.batch(*[author.next() for _ in range(60)]).items()
        live_hub.until(lambda: client.get("/manifest_latest").status == 200)
