"""fsck finds what was changed even where every checksum was made to fit."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hub.crypto.signing import SigningKey
from hub.errors import StoreError
from hub.server.core import HubCore
from hub.storage import frames, manifests, segments
from hub.storage.disk import Disk
from hub.storage.framedfile import FramedFile
from hub.storage.fsck import FsckReport, run_fsck
from hub.storage.layout import Layout
from hub.storage.replay import LoggedBatch, batches
from hub.types import PublicKey, UnixSeconds
from hub.wire.receipt import Receipt
from hub.wire.rotation import RotationRecord
from tests.support.hubs import (
    Producer,
    Truth,
    abandon,
    fill,
    label,
    open_core,
    opened,
    rich_directory,
    seed,
)

A = label("R1")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return rich_directory(tmp_path_factory.mktemp("rich") / "d")


@pytest.fixture
def root(original: Truth, tmp_path: Path) -> Path:
    shutil.copytree(original.root.parent, tmp_path / "copy")
    return tmp_path / "copy" / "d"


def counts(report: FsckReport) -> dict[str, int]:
    return {row["check"]: row["count"] for row in report.checks}


def test_a_sound_directory_has_no_findings_and_every_check_is_counted(
    root: Path, original: Truth
) -> None:
    report = run_fsck(root)
    found = counts(report)
    entries = len(original.entries)
    assert (report.ok, report.findings) == (True, ())
    assert (report.entries, report.labels) == (entries, 4)
    assert report.hub_id == original.hub_id.hex()
    assert found["RECEIPT signature"] == found["MSG signature"] == found["root"] == entries
    assert found["leaf"] == found["index record"] == found["leaf index row"] == entries
    assert found["ct_hash"] + found["spine"] == entries
    assert found["frame"] == 2 * entries
    assert found["rotation record"] == found["attachment"] == 1
    assert found["read token"] == 2
    assert found["manifest"] == report.manifests >= 4
    assert found["head"] == found["snapshot label"] == 4
    json.dumps(report.as_json())


def test_it_writes_nothing(root: Path) -> None:
    def state() -> dict[str, tuple[str, int]]:
        return {
            str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in root.parent.rglob("*")
            if path.is_file()
        }

    before = state()
    run_fsck(root)
    assert state() == before


def test_progress_goes_up_to_the_total(root: Path) -> None:
    said: list[dict[str, int]] = []
    report = run_fsck(root, progress=said.append)
    assert said
    assert all(one["bytes"] <= one["total"] == report.bytes for one in said)


def test_a_pinned_key_that_is_none_of_the_log_is_a_finding(root: Path) -> None:
    with opened(root) as core:
        first, now = core.identity.first_pk, core.identity.key.public
    assert run_fsck(root, hub_pk=first).ok
    assert run_fsck(root, hub_pk=now).ok
    report = run_fsck(root, hub_pk=PublicKey(SigningKey(seed("stranger")).public))
    assert [found.code for found in report.findings] == ["V.TRUST"]


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no data directory"):
        run_fsck(tmp_path)


# -- forgeries whose checksums fit


def rewrite(root: Path, number: int, change: Callable[[LoggedBatch], bytes | None]) -> None:
    """Write a segment anew, batch by batch; None keeps a batch as it is."""
    path = Layout(root).segment(number)
    data = path.read_bytes()
    _, offset = segments.read_header(data, number, str(path))
    parts = [data[:offset]]
    start = offset
    for batch in batches(data, offset, str(path)):
        changed = change(batch)
        parts.append(data[start : batch.end] if changed is None else changed)
        start = batch.end
    path.write_bytes(b"".join(parts))


def encode(batch: LoggedBatch, messages: list[bytes], receipts: list[bytes]) -> bytes:
    kinds = [entry.frame.kind for entry in batch.entries]
    blocks = [frames.frame(kind, data) for kind, data in zip(kinds, messages, strict=True)]
    blocks += [frames.frame(frames.RECEIPT, data) for data in receipts]
    return b"".join((*blocks, frames.commit(len(messages), batch.entries_so_far)))


def payloads(batch: LoggedBatch) -> tuple[list[bytes], list[bytes]]:
    return (
        [entry.frame.payload for entry in batch.entries],
        [entry.receipt_frame.payload for entry in batch.entries],
    )


def test_a_receipt_signature_that_was_replaced_is_found_at_its_offset(root: Path) -> None:
    def change(batch: LoggedBatch) -> bytes | None:
        messages, receipts = payloads(batch)
        receipts[0] = receipts[0][:-64] + receipts[1][-64:]
        return encode(batch, messages, receipts)

    rewrite(root, 2, change)
    report = run_fsck(root)
    assert report.findings[0].file == "log/00000002.seg"
    assert report.findings[0].code == "E.SIG"
    assert report.findings[0].offset > 0
    assert run_fsck(root, verify_signatures=False).ok  # so it was the signature that gave it away


def test_a_message_signature_that_was_replaced_is_found(root: Path) -> None:
    def change(batch: LoggedBatch) -> bytes | None:
        messages, receipts = payloads(batch)
        messages[1] = messages[1][:-64] + bytes(64)
        return encode(batch, messages, receipts)

    rewrite(root, 2, change)
    assert run_fsck(root).findings[0].reason.startswith("MSG")


def signed_again(batch: LoggedBatch, key: SigningKey) -> bytes:
    """The batch with the same statements signed by another key."""
    messages, receipts = payloads(batch)
    fields = (Receipt.decode(data) for data in receipts)
    forged = [
        Receipt.sign(
            key, one.label, one.stream_seq, one.leaf_hash, one.mmr_root, one.hub_ts
        ).encode()
        for one in fields
    ]
    return encode(batch, messages, forged)


@pytest.mark.parametrize("place", ["before the rotation", "behind the rotation"])
def test_a_key_of_the_log_counts_only_on_its_side_of_the_rotation(
    tmp_path: Path, place: str
) -> None:
    """A stolen old key signs on, or a new one signs history anew: whole, in order, and found."""
    root = tmp_path / "d"
    producer = Producer("a", label("A"))
    with opened(root) as core:
        fill(core, [producer], 8)
        old = core.identity.key
        core.rotate()
        boundary = core.store.state.entries
        fill(core, [producer], 8)
        new = core.identity.key
    assert run_fsck(root).ok

    def change(batch: LoggedBatch) -> bytes | None:
        is_before = batch.entries_so_far <= boundary
        if is_before != (place == "before the rotation"):
            return None
        return signed_again(batch, new if is_before else old)

    rewrite(root, 1, change)
    report = run_fsck(root)
    assert {found.code for found in report.findings} == {"E.SIG"}
    assert {found.file for found in report.findings} == {"log/00000001.seg"}
    assert len(report.findings) >= 8


def test_two_entries_that_changed_places_are_found(root: Path) -> None:
    def change(batch: LoggedBatch) -> bytes | None:
        messages, receipts = payloads(batch)
        return encode(batch, messages[::-1], receipts[::-1])

    rewrite(root, 2, change)
    assert run_fsck(root).findings[0].file == "log/00000002.seg"


def test_a_batch_that_was_taken_out_is_missed(root: Path) -> None:
    taken: list[int] = []

    def change(batch: LoggedBatch) -> bytes | None:
        if not taken:
            taken.append(batch.entries_so_far)
            return b""
        return None

    rewrite(root, 2, change)
    report = run_fsck(root)
    assert report.findings[0].file == "log/00000002.seg"
    assert not report.ok


def test_a_missing_segment_is_named_and_those_behind_it_are_checked(root: Path) -> None:
    whole = run_fsck(root)
    Layout(root).segment(2).unlink()
    report = run_fsck(root)
    assert report.findings[0].file == "log/00000002.seg"
    assert report.findings[0].reason == "segment is missing"
    assert not [found for found in report.findings[1:] if found.file.startswith("log/")]
    assert report.entries == whole.entries
    assert report.segments == whole.segments - 1


def test_a_segment_of_another_log_is_found(root: Path, tmp_path: Path) -> None:
    other = rich_directory(tmp_path / "other" / "d").root
    shutil.copy(Layout(other).segment(1), Layout(root).segment(1))
    assert "another log" in run_fsck(root).findings[0].reason


def test_a_forged_rotation_is_found(root: Path) -> None:
    thief = SigningKey(seed("thief"))
    with opened(root) as core:
        key, hub_id = core.identity.key, core.identity.hub_id
    record = RotationRecord.sign(
        thief,
        SigningKey(seed("thief 2")),
        hub_id=hub_id,
        ts=UnixSeconds(1),
        manifest_id=key.public,  # type: ignore[arg-type]
    )
    FramedFile(Layout(root).rotations, Disk()).append(record.encode())
    codes = {found.code for found in run_fsck(root).findings if "rotations" in found.file}
    assert codes == {"V.TRUST"}


def test_an_index_that_goes_on_behind_the_log_is_found(root: Path) -> None:
    path = Layout(root).label(A) / "index"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:40])
    [found] = run_fsck(root).findings
    assert found.reason == "index goes on behind the log"


def test_a_checkpoint_that_no_manifest_has_is_found(root: Path) -> None:
    path = Layout(root).label(A) / "checkpoints"
    data = path.read_bytes()
    path.write_bytes(data[:512] + data)
    assert [found.reason for found in run_fsck(root).findings] == ["CHECKPOINT of no manifest"]
    path.write_bytes(data[512:])
    assert "is missing" in run_fsck(root).findings[0].reason
    path.write_bytes(data[:-512])  # the newest is restored by a start
    assert run_fsck(root).ok


def test_a_manifest_that_is_missing_from_the_chain_is_named(root: Path) -> None:
    layout = Layout(root)
    second = list(manifests.chain(layout))[1]
    manifests.path_of(layout, second.id).unlink()
    report = run_fsck(root)
    assert any(second.id.hex() in found.file for found in report.findings)


def test_what_a_stop_leaves_is_no_finding(tmp_path: Path) -> None:
    """Index behind the log, half a batch at its end, heads behind: a start deals with them."""
    root = tmp_path / "d"
    core = open_core(root)
    producer = Producer("a", label("A"))
    fill(core, [producer], 6)
    core.store.snapshot()
    fill(core, [producer], 4)
    abandon(core)
    path = Layout(root).segment(1)
    path.write_bytes(path.read_bytes() + frames.frame(frames.MSG, b"half a batch"))
    (root / "manifests" / "latest.tmp").write_bytes(b"half a name")
    report = run_fsck(root)
    assert report.findings == ()
    assert counts(report)["uncommitted tail"] == 1
    assert report.entries == 10


def test_a_hub_that_is_writing_can_be_checked(tmp_path: Path) -> None:
    root = tmp_path / "d"
    core: HubCore = open_core(root, segment_bytes=20_000)
    producers = [Producer("a", label("A")), Producer("b", label("B"))]
    fill(core, producers, 20)
    reports: list[FsckReport] = []
    stop = threading.Event()

    def check() -> None:
        while not stop.is_set():
            reports.append(run_fsck(root, verify_signatures=False))

    thread = threading.Thread(target=check)
    thread.start()
    for _ in range(20):
        fill(core, producers, 20)
        core.checkpoint()
    stop.set()
    thread.join()
    core.close()
    assert reports
    assert [report.findings for report in reports if not report.ok] == []
    assert run_fsck(root).entries == 420


def test_a_service_key_that_was_replaced_is_found(root: Path) -> None:
    path = root / "keys" / "service.key"
    path.write_text(seed("other service").hex() + "\n")
    assert [found.file for found in run_fsck(root).findings] == ["keys/service.key"]


def test_a_directory_without_secrets_can_be_checked(root: Path) -> None:
    shutil.rmtree(root / "keys")
    assert run_fsck(root).ok
