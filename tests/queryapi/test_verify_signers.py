"""Offline, after the hub's key was rotated: whose receipts count, and which are somebody else's."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hub import canonical_json
from hub.crypto.signing import SigningKey
from hub.errors import ProofError
from hub.selftest.specimens import HUB, HUB_2, LABEL, T, message
from hub.types import Label, MmrRoot, StreamSeq
from hub.verify_report import Report
from hub.wire.checkpoint import Checkpoint
from hub.wire.manifest import Manifest
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord, hub_id_of
from queryapi.client import DESCRIPTOR, DIGEST, EVIDENCE, ROWS
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.replayed import read_events
from queryapi.signers import ROTATIONS
from queryapi.verify import verify_saved
from recorder.event import UnixMillis, format_time
from recorder.projection import Row, RowError, receipt_id
from tests.support.memory_log import MemoryLog

STREAM, SIZE, HANDED_OVER_AT = "record/app/a", 9, 5
SIGNED = "every event's receipt is signed by the pinned key"
HUB_ID = hub_id_of(HUB.public)
MESSAGES = [message(number) for number in range(1, SIZE + 1)]
LOG = MemoryLog(one.leaf_hash() for one in MESSAGES)
Sign = Callable[[int], SigningKey]


def honest(seq: int) -> SigningKey:
    return HUB if seq <= HANDED_OVER_AT else HUB_2


def events(sign: Sign = honest, label: Label = LABEL) -> list[tuple[Row, bytes]]:
    """A log of sealed events whose hub handed it over to another key."""
    found = []
    for seq, msg in enumerate(MESSAGES, 1):
        leaf = msg.leaf_hash()
        receipt = Receipt.sign(sign(seq), label, StreamSeq(seq), leaf, LOG.roots[seq], T)
        row = Row(
            stream=STREAM, hub_commit_seq=StreamSeq(seq), hub_commit_time=UnixMillis(T * 1000),
            subject_id=None, principal_id=msg.client_id.hex(), event_type=None, event_time=None,
            origin=None, payload_text=None, error=RowError.SEALED, receipt_id=receipt_id(leaf),
            leaf_hash=leaf, mmr_root=LOG.roots[seq], hub_id=HUB_ID,
        )  # fmt: skip
        found.append((row, receipt.encode()))
    return found


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    """A saved answer, with the rotation and the last manifest of the old key."""
    source = canonical_json.encode(
        {"scope": [STREAM], "projection": ["receipt_id"], "evidence": {"mode": "full"}}
    )
    coverage = Coverage(
        stream=STREAM, label=LABEL, hub_id=HUB_ID, from_seq=1, to_seq=SIZE,
        mmr_root=MmrRoot(LOG.roots[SIZE]),
    )  # fmt: skip
    asked = read_submitted(source, query_id="q-1").asked_by("ab" * 32, UnixMillis(0))
    descriptor = asked.pin([coverage])
    found = evaluate(descriptor, [row for row, _ in events()])
    digest = ResultDigest(
        query_id="q-1", result_id=descriptor.result_id, row_count=SIZE,
        evidence_policy=descriptor.evidence, rows_hash=found.rows_hash,
        evidence_hash=found.evidence_hash, executed_at=format_time(UnixMillis(0)),
        hub_id=HUB_ID.hex(), profile_id="00" * 32, unreadable_count=SIZE,
    )  # fmt: skip
    folder = tmp_path / "answer"
    folder.mkdir()
    (folder / DESCRIPTOR).write_bytes(descriptor.canonical())
    (folder / DIGEST).write_bytes(digest.canonical())
    (folder / ROWS).write_bytes(rows_bytes(found.rows))
    (folder / EVIDENCE).write_bytes(found.evidence)
    save_rotations(folder, HANDED_OVER_AT)
    return folder


def save_rotations(folder: Path, upto: int) -> None:
    checkpoint = Checkpoint.sign(
        HUB, label_prev=LABEL, label_curr=LABEL, upto_seq=StreamSeq(upto), mmr_root=LOG.roots[upto]
    )
    last = Manifest.sign(HUB, profile_id=PRODUCT.id, created_at=T, checkpoints=[checkpoint])
    record = RotationRecord.sign(HUB, HUB_2, hub_id=HUB_ID, ts=T, manifest_id=last.id)
    saved = {
        "rotations": [b64encode(record.encode()).decode()],
        "manifests": [b64encode(last.encode()).decode()],
    }
    (folder / ROTATIONS).write_text(json.dumps(saved))


def told(report: Report) -> str:
    [check] = [one for one in report.checks if not one.ok]
    assert check.name == SIGNED
    return check.detail.partition(": ")[2]  # behind the code


@pytest.mark.parametrize("pinned", [HUB, HUB_2], ids=["the old key", "the new key"])
def test_receipts_of_both_keys_count_whichever_is_pinned(answer: Path, pinned: SigningKey) -> None:
    report = verify_saved(answer, events=events(), hub_pk=pinned.public)
    assert report.is_valid(), report.checks


def test_without_the_rotation_the_other_key_s_receipts_are_a_stranger_s(answer: Path) -> None:
    (answer / ROTATIONS).unlink()
    report = verify_saved(answer, events=events(), hub_pk=HUB_2.public)
    assert told(report) == f"{STREAM} 1: signed by no key that is pinned here"


def test_a_superseded_key_signs_nothing_after_its_end(answer: Path) -> None:
    """Whoever stole the old key cannot write history with it."""
    report = verify_saved(answer, events=events(lambda _: HUB), hub_pk=HUB_2.public)
    assert told(report) == f"{STREAM} 6: signed by a superseded key after its end"
    save_rotations(answer, 3)  # Another end, honestly signed, with the receipts as they were.
    report = verify_saved(answer, events=events(), hub_pk=HUB_2.public)
    assert told(report) == f"{STREAM} 4: signed by a superseded key after its end"


def test_the_end_of_a_key_cannot_be_left_out(answer: Path) -> None:
    saved = json.loads((answer / ROTATIONS).read_text())
    (answer / ROTATIONS).write_text(json.dumps(saved | {"manifests": []}))
    report = verify_saved(answer, events=events(), hub_pk=HUB_2.public)
    assert told(report) == f"{STREAM} 1: signed by a superseded key after its end"


@pytest.mark.parametrize("text", ["[]", "{}", '{"rotations":[],"manifests":1}', "x",
                                  '{"rotations":["!"],"manifests":[]}'])  # fmt: skip
def test_rotations_that_are_none_are_named(answer: Path, text: str) -> None:
    (answer / ROTATIONS).write_text(text)
    assert ROTATIONS in told(verify_saved(answer, events=events(), hub_pk=HUB_2.public))


def test_rekor_uuid_swap_genuine_receipts_of_another_stream(answer: Path) -> None:
    """The hub really signed them, at these places, under these roots: of another label."""
    other = events(lambda _: HUB_2, label=Label(bytes(31) + b"\x01"))
    report = verify_saved(answer, events=other, hub_pk=HUB_2.public)
    assert told(report) == f"{STREAM} 1: the receipt is of another stream"


def line(row: Row, receipt: bytes, msg: bytes) -> str:
    return json.dumps({
        "stream": row.stream, "hub_commit_seq": row.hub_commit_seq,
        "hub_commit_time": format_time(row.hub_commit_time), "principal_id": row.principal_id,
        "receipt_id": row.receipt_id, "receipt": b64encode(receipt).decode(),
        "error": "sealed", "payload": None, "event_time": None, "subject_id": None,
        "event_type": None, "origin": None, "msg": b64encode(msg).decode(),
    })  # fmt: skip


def test_cve_2026_22703_a_genuine_receipt_beside_another_message(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    (first, receipt), *_ = events()
    path.write_text(line(first, receipt, MESSAGES[0].encode()))
    assert [row for row, _ in read_events(path, {STREAM: HUB_ID})] == [first]
    path.write_text(line(first, receipt, MESSAGES[1].encode()))
    with pytest.raises(ProofError, match="for another message"):
        list(read_events(path, {STREAM: HUB_ID}))
    claimed = replace(first, principal_id="cd" * 32)
    path.write_text(line(claimed, receipt, MESSAGES[0].encode()))
    with pytest.raises(ProofError, match="another key signed"):
        list(read_events(path, {STREAM: HUB_ID}))
