"""The hub's key rotates while others write; old receipts stay good, forged rotations do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import VeenError
from hub.server.config import HubConfig
from hub.types import HubId, Label, ManifestId, PublicKey, UnixSeconds
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.proof import MmrProof
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, decode_record, follow, hub_id_of
from tests.support import live_hub
from tests.support.live_hub import Author, HttpClient, LiveHub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    config = HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=2)
    with live_hub.running(config) as hub:
        yield hub


def rotations(client: HttpClient) -> list[RotationRecord]:
    records = [decode_record(item) for item in client.get("/rotations").items()]
    assert all(isinstance(record, RotationRecord) for record in records)
    return [record for record in records if isinstance(record, RotationRecord)]


def is_covered(client: HttpClient, receipt: Receipt, manifest: Manifest) -> bool:
    """Whether the receipt's leaf is included under the manifest."""
    checkpoint = manifest.checkpoint(receipt.label)
    if checkpoint is None or receipt.stream_seq > checkpoint.upto_seq:
        return False
    path = f"/proof?label={receipt.label.hex()}&seq={receipt.stream_seq}&size={checkpoint.upto_seq}"
    proof = MmrProof.decode(client.get(path).ok())
    assert proof.leaf_hash == receipt.leaf_hash
    proof.verify(
        stream_seq=receipt.stream_seq, mmr_size=checkpoint.upto_seq, root=checkpoint.mmr_root
    )
    return True


def is_signed_by(receipt: Receipt, key: PublicKey) -> bool:
    try:
        receipt.verify(key)
    except VeenError:
        return False
    return True


def test_rotation_under_load_keeps_every_receipt_good(hub: LiveHub) -> None:
    receipts: list[Receipt] = []
    lock = threading.Lock()
    stop = threading.Event()

    def write(number: int) -> None:
        client, author = hub.client(), Author(Label(bytes([number]) * 32))
        while not stop.is_set():
            receipt = author.send(client)
            with lock:
                receipts.append(receipt)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    keys = [hub.hub_pk]
    for round_ in range(3):
        wanted = 40 * (round_ + 1)
        live_hub.until(lambda wanted=wanted: len(receipts) >= wanted)  # type: ignore[misc]
        said = hub.control("rotate")
        assert said["old_pk"] == keys[-1].hex()
        keys.append(PublicKey(bytes.fromhex(said["new_pk"])))
    live_hub.until(lambda: len(receipts) >= 160)
    stop.set()
    for thread in threads:
        thread.join()

    client = hub.client()
    records = rotations(client)
    assert follow(hub.hub_pk, HubId(hub.hub_id), records) == keys
    assert client.get("/profile").map()["hub_pk"] == keys[-1]
    assert client.get("/profile").map()["hub_id"] == hub.hub_id  # stays with the log
    signers = [0] * len(keys)
    for receipt in receipts:
        signer = next(n for n, key in enumerate(keys) if is_signed_by(receipt, key))
        signers[signer] += 1
        if signer < len(records):
            record = records[signer]
            manifest = Manifest.decode(client.get(f"/manifest?id={record.manifest_id.hex()}").ok())
            manifest.verify(record.old_pk)
            assert is_covered(client, receipt, manifest)
    assert all(signers), signers
    for number in range(4):
        _no_gap_at_the_handover(client, Label(bytes([number]) * 32), keys)
    hub.stop()
    live_hub.check_fsck(hub.data_dir)


def _no_gap_at_the_handover(client: HttpClient, label: Label, keys: list[PublicKey]) -> None:
    """Along a label the signing key only ever moves forward."""
    before = 0
    size = Receipt.decode(client.get(f"/head?label={label.hex()}").ok()).stream_seq
    for seq in range(1, size + 1):
        receipt = Receipt.decode(client.get(f"/receipt?label={label.hex()}&seq={seq}").ok())
        signer = next(n for n, key in enumerate(keys) if is_signed_by(receipt, key))
        assert signer >= before
        before = signer


def test_checkpoints_of_the_window_carry_both_witnesses(hub: LiveHub) -> None:
    client = hub.client()
    Author(Label(b"w" * 32)).send(client)
    said = hub.control("rotate")
    old, new = (PublicKey(bytes.fromhex(said[name])) for name in ("old_pk", "new_pk"))
    last = Manifest.decode(client.get(f"/manifest?id={said['manifest_id']}").ok())
    first = Manifest.decode(client.get("/manifest_latest").ok())
    assert (last.hub_pk, first.hub_pk) == (old, new)
    assert first.previous == last.id
    for manifest in (last, first):
        manifest.verify(manifest.hub_pk)
        for checkpoint in manifest.checkpoints:
            checkpoint.verify_witnesses([old, new])
    wire = client.get(f"/checkpoint_latest?label={(b'w' * 32).hex()}").ok()
    Checkpoint.decode(wire).verify(new)


def test_a_rotation_forged_from_public_checkpoints_is_refused(hub: LiveHub) -> None:
    client = hub.client()
    Author(Label(b"f" * 32)).send(client)
    hub.control("rotate")
    thief = SigningKey.generate()
    [record] = rotations(client)
    last = Manifest.decode(client.get(f"/manifest?id={record.manifest_id.hex()}").ok())
    checkpoint = last.checkpoints[0]
    public = [checkpoint.hub_sig, *checkpoint.witness_sigs, last.sig, record.old_sig]
    for signature in public:
        forged = RotationRecord.sign(
            thief,
            thief,
            hub_id=HubId(hub.hub_id),
            ts=UnixSeconds(1),
            manifest_id=ManifestId(last.id),
        )
        claimed = RotationRecord(
            hub_id=forged.hub_id,
            old_pk=hub.hub_pk,
            new_pk=thief.public,
            ts=forged.ts,
            manifest_id=forged.manifest_id,
            old_sig=signature,
            new_sig=forged.new_sig,
        )
        with pytest.raises(VeenError):
            follow(hub.hub_pk, HubId(hub.hub_id), [claimed])


def test_a_rotated_hub_restarts_with_its_new_key_and_its_old_name(hub: LiveHub) -> None:
    author = Author(Label(b"r" * 32))
    client = hub.client()
    author.send(client)
    said = hub.control("rotate")
    author.send(client)
    again = live_hub.restarted(hub)
    try:
        assert again.hub_pk.hex() == said["new_pk"]
        assert again.hub_id == hub.hub_id == hub_id_of(hub.hub_pk)
        receipt = author.send(again.client())
        receipt.verify(again.hub_pk)
        assert receipt.stream_seq == 3
    finally:
        again.stop()


def test_a_rotation_is_recorded_before_it_happens(hub: LiveHub) -> None:
    before = hub.control("status")["messages"]
    hub.control("rotate")
    assert hub.control("status")["messages"] == before + 1
