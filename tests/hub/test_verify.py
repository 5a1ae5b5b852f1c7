from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from hub import mmr
from hub.authoring import author
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import (
    ClientSeq,
    Hash,
    HubId,
    Label,
    LeafHash,
    ManifestId,
    MmrRoot,
    PublicKey,
    StreamSeq,
    UnixSeconds,
)
from hub.verify import Evidence, Pins, Report, verify_evidence, verify_rotations, verify_trust_file
from hub.verify_stream import verify_items
from hub.wire import cbor
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from tests.support.memory_log import MemoryLog

HUB = SigningKey(b"\x01" * 32)
NEXT = SigningKey(b"\x02" * 32)
CLIENT = SigningKey(b"\x03" * 32)
LABEL = Label(b"\x04" * 32)
NOW = 1_700_000_000
SIZE = 11


class SmallLog:
    """Eleven messages of one client with receipts by HUB."""

    def __init__(self) -> None:
        self.tree = MemoryLog()
        self.messages: list[bytes] = []
        self.receipts: list[Receipt] = []
        for number in range(SIZE):
            made = author(
                key=CLIENT,
                profile=PRODUCT,
                label=LABEL,
                client_seq=ClientSeq(number + 1),
                prev_ack=number,
                auth_ref=None,
                reader_pk=DhSecret(b"\x05" * 32).public,
                header=PayloadHeader(schema=Hash(b"\x06" * 32)),
                body=b"%d" % number,
            )
            self.tree.append(made.leaf_hash)
            self.messages.append(made.msg_bytes)
            self.receipts.append(self.receipt(number + 1))

    def receipt(self, seq: int, key: SigningKey = HUB, **changes: object) -> Receipt:
        fields: dict[str, object] = {
            "label": LABEL,
            "stream_seq": StreamSeq(seq),
            "leaf_hash": LeafHash(self.tree.leaves[seq - 1]),
            "mmr_root": self.tree.roots[seq],
            "hub_ts": UnixSeconds(NOW + seq),
        }
        return Receipt.sign(key, **(fields | changes))  # type: ignore[arg-type]

    def proof(self, seq: int, size: int) -> bytes:
        return mmr.prove(seq, size, self.tree.node).encode()

    def checkpoint(self, size: int, key: SigningKey = HUB) -> Checkpoint:
        return Checkpoint.sign(
            key,
            label_prev=LABEL,
            label_curr=LABEL,
            upto_seq=StreamSeq(size),
            mmr_root=self.tree.roots[size],
        )

    def manifest(self, size: int, key: SigningKey = HUB) -> Manifest:
        return Manifest.sign(
            key,
            profile_id=PRODUCT.id,
            created_at=UnixSeconds(NOW),
            checkpoints=[self.checkpoint(size, key)],
        )

    def item(self, seq: int, size: int | None = None, receipt: Receipt | None = None) -> bytes:
        parts = [(receipt or self.receipts[seq - 1]).encode(), self.messages[seq - 1]]
        if size is not None:
            parts.append(self.proof(seq, size))
        return cbor.head(cbor.ARRAY, len(parts)) + b"".join(parts)


@pytest.fixture(scope="module")
def log() -> SmallLog:
    return SmallLog()


PINS = Pins.of_key(HUB.public)


def failures(report: Report) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


def test_each_kind_of_verdict_is_reported_apart(log: SmallLog) -> None:
    report = verify_evidence(
        Evidence(
            receipt=log.receipts[2].encode(),
            msg=log.messages[2],
            proof=log.proof(3, 9),
            checkpoint=log.checkpoint(9).encode(),
            consistency=mmr.prove_consistency(3, 9, log.tree.node).encode(),
        ),
        PINS,
        now=NOW + 60,
        max_age_s=3600,
    )
    assert failures(report) == []
    assert report.verdicts() == {
        "integrity": "holds",
        "binding": "holds",
        "position": "holds",
        "consistency": "holds",
        "completeness": "not checked",
        "freshness": "holds",
    }
    report.require()


def test_a_proof_against_the_receipts_own_root_needs_no_checkpoint(log: SmallLog) -> None:
    report = verify_evidence(
        Evidence(receipt=log.receipts[4].encode(), proof=log.proof(5, 5)), PINS
    )
    assert report.is_valid()
    assert report.verdicts()["position"] == "holds"


def test_a_later_receipt_lends_its_root(log: SmallLog) -> None:
    report = verify_evidence(
        Evidence(
            receipt=log.receipts[4].encode(),
            proof=log.proof(5, 8),
            against=(log.receipts[7].encode(),),
        ),
        PINS,
    )
    assert report.is_valid()


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda log: {"msg": log.messages[3]}, "binding"),
        (lambda log: {"proof": log.proof(4, 9)}, "binding"),
        (lambda log: {"proof": log.proof(3, 8)}, "position"),
        (lambda log: {"receipt": log.receipt(3, NEXT).encode()}, "integrity"),
        (lambda log: {"checkpoint": log.checkpoint(9, NEXT).encode()}, "integrity"),
        (lambda log: {"receipt": log.receipt(3, stream_seq=StreamSeq(4)).encode()}, "position"),
        (lambda log: {"msg": log.messages[2][:-1]}, "integrity"),
        (lambda _: {"receipt": None}, "position"),
    ],
)
def test_what_does_not_belong_together_fails_under_its_own_name(
    log: SmallLog, change: Callable[[SmallLog], dict[str, bytes | None]], verdict: str
) -> None:
    parts: dict[str, bytes | None] = {
        "receipt": log.receipts[2].encode(),
        "msg": log.messages[2],
        "proof": log.proof(3, 9),
        "checkpoint": log.checkpoint(9).encode(),
    }
    report = verify_evidence(Evidence(**(parts | change(log))), PINS)  # type: ignore[arg-type]
    assert report.verdicts()[verdict] == "fails"
    assert not report.is_valid()
    with pytest.raises(VeenError):
        report.require()


@pytest.mark.parametrize("name", ["receipt", "msg", "proof", "checkpoint", "consistency"])
def test_no_flipped_bit_survives(log: SmallLog, name: str) -> None:
    parts = {
        "receipt": log.receipts[2].encode(),
        "msg": log.messages[2],
        "proof": log.proof(3, 9),
        "checkpoint": log.checkpoint(9).encode(),
        "consistency": mmr.prove_consistency(3, 9, log.tree.node).encode(),
    }
    whole = parts[name]
    step = 7 if name == "msg" else 1  # the message's own tests flip each of its bits
    for position in range(0, 8 * len(whole), step):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        report = verify_evidence(Evidence(**(parts | {name: bytes(flipped)})), PINS)  # type: ignore[arg-type]
        assert not report.is_valid(), position


def test_nothing_checked_is_not_valid() -> None:
    report = verify_evidence(Evidence(), PINS)
    assert not report.is_valid()
    with pytest.raises(VeenError):
        report.require()


def test_an_old_receipt_is_not_fresh(log: SmallLog) -> None:
    report = verify_evidence(
        Evidence(receipt=log.receipts[0].encode()), PINS, now=NOW + 100, max_age_s=10
    )
    assert report.verdicts()["freshness"] == "fails"


# -- keys that ended ------------------------------------------------------------------------------


def rotation(log: SmallLog, size: int) -> bytes:
    return RotationRecord.sign(
        HUB,
        NEXT,
        hub_id=hub_id_of(HUB.public),
        ts=UnixSeconds(NOW),
        manifest_id=ManifestId(log.manifest(size).id),
    ).encode()


@pytest.mark.parametrize("pinned", [HUB, NEXT])
def test_a_receipt_of_a_superseded_key_counts_under_its_last_manifest(
    log: SmallLog, pinned: SigningKey
) -> None:
    pins = Pins.of_key(pinned.public, [rotation(log, 9)])
    evidence = Evidence(
        receipt=log.receipts[2].encode(),
        msg=log.messages[2],
        proof=log.proof(3, 9),
        manifest=log.manifest(9).encode(),
    )
    assert failures(verify_evidence(evidence, pins)) == []


def test_a_receipt_beyond_the_last_manifest_does_not_count(log: SmallLog) -> None:
    pins = Pins.of_key(HUB.public, [rotation(log, 9)])
    evidence = Evidence(
        receipt=log.receipts[9].encode(),
        proof=log.proof(10, 10),
        manifest=log.manifest(9).encode(),
    )
    report = verify_evidence(evidence, pins)
    assert report.code is ErrorCode.TRUST


def test_a_later_manifest_of_a_superseded_key_does_not_count(log: SmallLog) -> None:
    pins = Pins.of_key(HUB.public, [rotation(log, 9)])
    evidence = Evidence(
        receipt=log.receipts[9].encode(),
        proof=log.proof(10, 11),
        manifest=log.manifest(11).encode(),
    )
    assert not verify_evidence(evidence, pins).is_valid()


def test_rotations_that_contradict_each_other_are_equivocation(log: SmallLog) -> None:
    other = RotationRecord.sign(
        HUB,
        SigningKey.generate(),
        hub_id=hub_id_of(HUB.public),
        ts=UnixSeconds(NOW),
        manifest_id=ManifestId(log.manifest(9).id),
    ).encode()
    report = verify_rotations(HUB.public, [rotation(log, 9), other])
    assert report.code is ErrorCode.EQUIVOCATION
    assert verify_rotations(HUB.public, [rotation(log, 9)]).is_valid()


def trust_file(status: KeyStatus, manifest_id: ManifestId | None) -> TrustFile:
    old = TrustedKey(
        pk=HUB.public,
        status=status,
        superseded_by=None if status is KeyStatus.ACTIVE else NEXT.public,
        last_manifest_id=manifest_id,
    )
    keys = [old]
    if status is not KeyStatus.ACTIVE:
        keys.append(TrustedKey(pk=NEXT.public, status=KeyStatus.ACTIVE))
    hub = TrustedHub(hub_id=HubId(hub_id_of(HUB.public)), keys=tuple(keys))
    return TrustFile(serial=4, realm="test", hubs=(hub,))


def test_the_trust_file_decides_how_far_a_key_counts(log: SmallLog) -> None:
    plain = Evidence(receipt=log.receipts[2].encode())
    active = Pins.of_trust_file(trust_file(KeyStatus.ACTIVE, None))
    assert verify_evidence(plain, active).is_valid()
    ended = Pins.of_trust_file(trust_file(KeyStatus.SUPERSEDED, ManifestId(log.manifest(9).id)))
    assert verify_evidence(plain, ended).code is ErrorCode.TRUST


def test_a_trust_file_is_signed_and_never_older() -> None:
    trust = trust_file(KeyStatus.ACTIVE, None)
    realm = SigningKey(b"\x08" * 32)
    data, signature = trust.encode(), trust.sign(realm)
    assert verify_trust_file(data, signature, realm.public).is_valid()
    assert not verify_trust_file(data, signature, HUB.public).is_valid()
    newer = TrustFile(serial=5, realm=trust.realm, hubs=trust.hubs)
    report = verify_trust_file(data, signature, realm.public, held=newer)
    assert report.verdicts()["freshness"] == "fails"


# -- saved streams --------------------------------------------------------------------------------


def test_a_whole_stream_holds(log: SmallLog) -> None:
    items = [log.item(seq, SIZE) for seq in range(1, SIZE + 1)]
    report = verify_items(items, PINS)
    assert failures(report) == []
    assert report.verdicts()["completeness"] == "holds"
    assert report.verdicts()["position"] == "holds"


def test_a_part_of_a_stream_holds_under_a_manifest(log: SmallLog) -> None:
    items = [log.item(seq, 9) for seq in range(4, 8)]
    assert failures(verify_items(items, PINS, manifest=log.manifest(9).encode())) == []


def test_a_gap_is_named(log: SmallLog) -> None:
    items = [log.item(seq) for seq in (1, 2, 4, 5)]
    report = verify_items(items, PINS)
    assert report.verdicts()["completeness"] == "fails"
    assert any("sequence 4" in check.detail for check in report.checks)


def test_a_swapped_message_is_named(log: SmallLog) -> None:
    bad = b"\x82" + log.receipts[1].encode() + log.messages[2]
    report = verify_items([log.item(1), bad, log.item(3)], PINS)
    assert report.verdicts()["binding"] == "fails"
    assert any("sequence 2" in check.detail for check in report.checks)


def test_a_root_over_other_leaves_is_named(log: SmallLog) -> None:
    lie = log.receipt(2, mmr_root=MmrRoot(b"\x09" * 32))
    report = verify_items([log.item(1), log.item(2, receipt=lie), log.item(3)], PINS)
    assert report.verdicts()["consistency"] == "fails"


def test_a_long_row_of_failures_gives_a_short_report() -> None:
    report = verify_items([b"\x01"] * 5000, PINS)
    assert not report.is_valid()
    assert len(report.checks) < 30


def test_the_verifier_imports_no_socket() -> None:
    code = (
        "import sys, hub.verify, hub.verify_stream, hub.cli.evidence, hub.cli.objects\n"
        "found = {'socket', '_socket', 'ssl', 'http.client', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(', '.join(found) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_pins_need_the_pinned_key() -> None:
    stranger = PublicKey(SigningKey.generate().public)
    assert Pins.of_key(stranger).active == {stranger}
