"""C15: directories that earlier formats left behind are opened, checked and written on."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub import mmr
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.selftest.still import StillHub
from hub.storage.fsck import run_fsck
from hub.storage.layout import FORMAT_VERSION
from hub.storage.rebuild import run_rebuild
from hub.types import Label, LeafHash, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from tests.golden import make

FOLDER = Path(__file__).parent
FORMATS = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("format-*.tar.xz"))


@pytest.fixture(params=FORMATS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """The directory, unpacked, and what it must hold."""
    name = request.param
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "d", json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


@pytest.fixture
def hub(golden: tuple[Path, dict[str, Any]]) -> Iterator[StillHub]:
    folder, expected = golden
    with StillHub(
        folder, routing_key=make.ROUTING_KEY, issuer=make.ISSUER.public, now=expected["now"]
    ) as opened:
        yield opened


def heads(hub: StillHub) -> dict[str, dict[str, Any]]:
    return {
        label.hex(): {"size": one.size, "root": mmr.root(one.peaks).hex()}
        for label, one in hub.core.store.state.labels.items()
    }


def test_there_is_a_golden_directory_of_the_present_format() -> None:
    assert f"format-{FORMAT_VERSION}" in FORMATS


def test_fsck_finds_nothing(golden: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = golden
    report = run_fsck(folder)
    assert report.findings == ()
    assert report.ok
    assert report.hub_id == expected["hub_id"]
    assert report.entries == sum(head["size"] for head in expected["heads"].values())


def test_it_opens_writable_with_the_same_identity_and_heads(
    hub: StillHub, golden: tuple[Path, dict[str, Any]]
) -> None:
    _, expected = golden
    assert hub.core.read_only is None
    assert hub.core.identity.hub_id.hex() == expected["hub_id"]
    assert hub.core.identity.key.public.hex() == expected["hub_pk"]
    assert hub.core.identity.first_pk.hex() == expected["first_pk"]
    assert heads(hub) == expected["heads"]
    assert hub.core.checkpoints.latest is not None
    assert hub.core.checkpoints.latest.hex() == expected["last_manifest_id"]


def test_every_receipt_of_then_is_served_and_proven_today(
    hub: StillHub, golden: tuple[Path, dict[str, Any]]
) -> None:
    _, expected = golden
    keys = [PublicKey(bytes.fromhex(expected[name])) for name in ("first_pk", "hub_pk")]
    signers = set()
    for stream in expected["streams"].values():
        label = Label(bytes.fromhex(stream["label"]))
        size = expected["heads"][stream["label"]]["size"]
        root = bytes.fromhex(expected["heads"][stream["label"]]["root"])
        assert len(stream["receipts"]) == size
        for number, text in enumerate(stream["receipts"], start=1):
            wire = bytes.fromhex(text)
            receipt = Receipt.decode(wire)
            assert hub.core.reader.receipt(label, number) == wire
            assert hub.core.find_leaf(LeafHash(receipt.leaf_hash)) == wire
            proof = hub.core.reader.prove(label, number, size)
            assert proof.leaf_hash == receipt.leaf_hash
            proof.verify(stream_seq=number, mmr_size=size, root=root)
            signers.add(_signer(receipt, keys))
    assert signers == set(keys)  # from before and from after the rotation


def _signer(receipt: Receipt, keys: list[PublicKey]) -> PublicKey:
    for key in keys:
        try:
            receipt.verify(key)
        except VeenError:
            continue
        return key
    raise AssertionError(receipt)


def test_what_was_pruned_then_is_still_pruned_and_the_rest_is_read(
    hub: StillHub, golden: tuple[Path, dict[str, Any]]
) -> None:
    for stream in golden[1]["streams"].values():
        label, held = Label(bytes.fromhex(stream["label"])), stream["first_held"]
        assert hub.core.reader.first_held(label) == held
        for number in range(1, len(stream["receipts"]) + 1):
            if number < held:
                with pytest.raises(VeenError) as refusal:
                    hub.core.reader.entry(label, number)
                assert refusal.value.code is ErrorCode.PRUNED
            else:
                _, msg = sorted(hub.core.reader.entry(label, number), key=len)
                Msg.decode(msg).verify()
    assert golden[1]["streams"]["alpha"]["first_held"] > 1


def test_writing_goes_on(hub: StillHub, golden: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = golden
    hub.now += 1
    newcomer = make.prober(hub, make.STREAMS[0], SigningKey(bytes([9]) * 32))
    receipt = newcomer.take(newcomer.draft(b"years later"))
    size = expected["heads"][receipt.label.hex()]["size"]
    assert receipt.stream_seq == size + 1
    consistency = hub.core.reader.prove_consistency(receipt.label, size, size + 1)
    old_root = bytes.fromhex(expected["heads"][receipt.label.hex()]["root"])
    consistency.verify(old_root, receipt.mmr_root, from_size=size, to_size=size + 1)
    hub.core.checkpoint()
    assert run_fsck(folder).findings == ()


def test_capabilities_and_revocations_of_then_still_count(hub: StillHub) -> None:
    """The key revoked in the golden directory may not write, whatever it is given today."""
    revoked = make.prober(hub, make.STREAMS[0], SigningKey(bytes([6]) * 32))
    with pytest.raises(VeenError) as refusal:
        revoked.send(revoked.draft())
    assert refusal.value.code is ErrorCode.CAP


def test_every_index_is_rebuilt_to_the_same_state(golden: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = golden
    run_rebuild(folder)
    assert run_fsck(folder).findings == ()
    with StillHub(
        folder, routing_key=make.ROUTING_KEY, issuer=make.ISSUER.public, now=expected["now"]
    ) as hub:
        assert heads(hub) == expected["heads"]


def test_the_generator_never_replaces_a_golden_directory() -> None:
    with pytest.raises(SystemExit, match="made once"):
        make.main()
