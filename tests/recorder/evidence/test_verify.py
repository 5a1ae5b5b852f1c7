"""Verdicts on packs: the right one holds, and each way to break one fails by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from hub import mmr
from hub.crypto.hashing import h
from hub.errors import ErrorCode
from hub.selftest.specimens import CLIENT, HUB, HUB_2, T
from hub.types import ClientId, HubId, LeafHash, ManifestId, MmrRoot, PublicKey, StreamSeq
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from hub.wire.rotation import hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from recorder.evidence.pack import Pack
from recorder.evidence.verify import Judgement, Signer, earlier_root, verify_pack
from tests.recorder.evidence import packs
from tests.recorder.evidence.packs import CHAIN, HUB_3, LABEL, ROUTING_KEY, make_pack
from tests.support.memory_log import MemoryLog, naive_root, numbered_leaves


def failures(judgement: Judgement) -> set[str]:
    return {check.name for check in judgement.report.checks if not check.ok}


def judge(pack: Pack) -> Judgement:
    return verify_pack(packs.raw_encode(pack), HUB.public, routing_key=ROUTING_KEY)


def test_the_right_pack_is_valid_and_four_verdicts_hold() -> None:
    judgement = judge(make_pack(is_open=True))
    assert judgement.is_valid()
    assert judgement.word() == "valid"
    verdicts = judgement.report.verdicts()
    held = {name for name, word in verdicts.items() if word == "holds"}
    assert held == {"integrity", "binding", "position", "consistency"}
    told = judgement.to_json()
    assert told["event"]["subject_id"] == "user:5"  # type: ignore[index]
    assert told["content"] == "opened"


def test_without_the_opening_the_content_is_sealed_and_the_pack_still_valid() -> None:
    judgement = judge(make_pack())
    assert judgement.is_valid()
    assert judgement.to_json()["content"] == "sealed"
    assert "payload" not in judgement.to_json()["event"]  # type: ignore[operator]


@pytest.mark.parametrize("key", [None, HUB_2.public])
def test_nobody_is_trusted_on_first_use(key: PublicKey | None) -> None:
    judgement = verify_pack(make_pack().encode(), key)
    assert judgement.signer is Signer.UNKNOWN
    assert judgement.word() == "signer unknown"
    assert judgement.report.code is ErrorCode.TRUST
    assert failures(judgement) == {"signer is the hub you trust"}


def test_every_changed_byte_is_refused() -> None:
    pack = make_pack(is_open=True, keys=CHAIN, signer=1)
    for name, data in packs.mutated(pack):
        assert not verify_pack(data, HUB_3.public).is_valid(), name


def test_no_edit_of_the_file_raises_or_is_taken(
    rng: random.Random, scaled: Callable[[int, int], int]
) -> None:
    """Bytes changed, cut out, doubled and put in: a verdict every time, never a green one."""
    whole = make_pack(is_open=True, keys=CHAIN, signer=1).encode()
    for _ in range(scaled(400, 100_000)):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            at, end = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
            edit = rng.randrange(4)
            if edit == 0:
                data[at] = rng.randrange(256)
            elif edit == 1:
                del data[at : min(end, at + 40)]
            elif edit == 2:
                data[at:at] = data[at : min(end, at + 40)]
            else:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
        if bytes(data) != whole:
            assert not verify_pack(bytes(data), HUB_3.public).is_valid()


@pytest.mark.parametrize("swapped", ["msg", "receipt", "proof", "opening"])
def test_genuine_pieces_of_different_events_never_verify(swapped: str) -> None:
    """CVE-2026-22703, on packs (C17): a receipt beside another payload, and its kin."""
    one, two = make_pack(3, is_open=True), make_pack(4, is_open=True)
    mixed = replace(one, **{swapped: getattr(two, swapped)})
    judgement = judge(mixed)
    assert judgement.word() == "not valid"
    if swapped != "opening":
        assert judgement.report.verdicts()["binding"] == "fails"
    both = replace(one, msg=two.msg, opening=two.opening)  # a whole other event beside the receipt
    assert judge(both).report.verdicts()["binding"] == "fails"


def test_a_secret_of_another_message_opens_nothing() -> None:
    pack = replace(make_pack(3), opening=make_pack(4, is_open=True).opening)
    judgement = judge(pack)
    assert failures(judgement) == {"disclosed secret opens the message"}
    assert judgement.to_json()["content"] == "refused"


def test_a_foreign_stream_name_is_seen_by_whoever_holds_the_routing_key() -> None:
    pack = replace(make_pack(), stream="record/app/other")
    assert failures(judge(pack)) == {"label is that of the stream name"}
    assert verify_pack(pack.encode(), HUB.public).is_valid()  # without it the name is a claim


def test_a_receipt_whose_root_is_of_another_history_is_inconsistent() -> None:
    """I2: the hub signed one log to the producer and another in the manifest."""
    pack = make_pack(5, 11)
    receipt = Receipt.decode(pack.receipt)
    other = Receipt.sign(HUB, LABEL, receipt.stream_seq, receipt.leaf_hash, MmrRoot(h(b"other")), T)
    judgement = judge(replace(pack, receipt=other.encode()))
    assert failures(judgement) == {"receipt's root follows from the same proof"}
    assert judgement.report.verdicts()["consistency"] == "fails"


def test_an_event_at_another_place_than_its_receipt_says_is_refused() -> None:
    """I1: order is what the receipts sign; a replay that swaps two events shows here."""
    pack = make_pack(5, 11)
    receipt = Receipt.decode(pack.receipt)
    moved = Receipt.sign(
        HUB, LABEL, StreamSeq(6), receipt.leaf_hash, receipt.mmr_root, receipt.hub_ts
    )
    judgement = judge(replace(pack, receipt=moved.encode()))
    assert judgement.report.verdicts()["position"] == "fails"
    assert "proof reaches the manifest's checkpoint" in failures(judgement)


def test_an_event_left_out_of_the_checkpoint_is_seen() -> None:
    """I2: up to the checkpoint everything is provable; what was left out fails, never silently."""
    pack = make_pack(5, 11)
    kept = [packs.message(number) for number in range(1, 12) if number != 5]
    log = MemoryLog(one.leaf_hash() for one in kept)
    manifest = packs.manifest_of(HUB, 10, log.roots[10])
    found = manifest.checkpoint(LABEL)
    assert found is not None
    without = replace(pack, manifest=manifest.encode(), checkpoint=found.encode())
    assert "proof reaches the manifest's checkpoint" in failures(judge(without))
    # The hub's own proof of that place is of the event that was moved there.
    moved = replace(without, proof=mmr.prove(5, 10, log.node).encode())
    assert "proof is for the receipt's leaf" in failures(judge(moved))


def test_an_event_claimed_for_another_principal_is_refused() -> None:
    """I3: principal_id is the key that signed; nobody can put another beside the same content."""
    msg = Msg.decode(make_pack().msg)
    claimed = replace(msg, client_id=ClientId(HUB_2.public))
    judgement = judge(replace(make_pack(), msg=claimed.encode()))
    assert failures(judgement) == {
        "message is signed by its client_id", "receipt is for this message (I2)",
    }  # fmt: skip
    signed = replace(claimed, sig=HUB_2.sign(claimed.signing_hash()))
    judgement = judge(replace(make_pack(), msg=signed.encode()))
    assert failures(judgement) == {"receipt is for this message (I2)"}
    assert bytes(msg.client_id) == bytes(CLIENT.public)


def test_the_earlier_root_is_that_of_the_log_at_that_size() -> None:
    leaves = numbered_leaves(70)
    log = MemoryLog(leaves)
    for size in range(1, 71):
        for seq in range(1, size + 1):
            proof = mmr.prove(seq, size, log.node)
            assert earlier_root(proof, seq, size) == naive_root(leaves[:seq]), (seq, size)


def trust(*keys: TrustedKey, hub_id: HubId | None = None) -> TrustFile:
    hub = TrustedHub(hub_id=hub_id or hub_id_of(HUB.public), keys=keys)
    return TrustFile(serial=1, realm="realm", hubs=(hub,))


def test_a_trust_file_decides_which_keys_count() -> None:
    pack = make_pack(keys=(HUB, HUB_2))
    manifest_id = Manifest.decode(pack.manifest).id
    active = TrustedKey(pk=HUB_2.public, status=KeyStatus.ACTIVE)
    ended = TrustedKey(
        pk=HUB.public,
        status=KeyStatus.SUPERSEDED,
        superseded_by=HUB_2.public,
        last_manifest_id=manifest_id,
    )
    assert verify_pack(pack.encode(), trust(ended, active)).is_valid()
    revoked = TrustedKey(pk=HUB.public, status=KeyStatus.REVOKED)
    assert not verify_pack(pack.encode(), trust(revoked, active)).is_valid()
    assert not verify_pack(pack.encode(), trust(active)).is_valid()
    elsewhere = trust(ended, active, hub_id=HubId(h(b"another log")))
    assert verify_pack(pack.encode(), elsewhere).signer is Signer.UNKNOWN


def test_a_pack_made_before_its_key_was_revoked_does_not_outlive_it() -> None:
    """The trust file says how far a key counts; a pack against another manifest must be remade."""
    pack = make_pack()
    ended = TrustedKey(
        pk=HUB.public,
        status=KeyStatus.SUPERSEDED,
        superseded_by=HUB_2.public,
        last_manifest_id=ManifestId(h(b"the last one")),
    )
    active = TrustedKey(pk=HUB_2.public, status=KeyStatus.ACTIVE)
    assert not verify_pack(pack.encode(), trust(ended, active)).is_valid()


def test_a_leaf_passed_off_as_the_receipts_is_refused() -> None:
    pack = make_pack(5, 11)
    receipt = Receipt.decode(pack.receipt)
    forged = Receipt.sign(
        HUB_2, LABEL, receipt.stream_seq, LeafHash(receipt.leaf_hash), receipt.mmr_root, T
    )
    assert failures(judge(replace(pack, receipt=forged.encode()))) == {
        "receipt is signed by a pinned key"
    }
