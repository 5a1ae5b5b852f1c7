"""What a liar with write access to the lake can do, and what each mode of evidence says to it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hub.canonical_json import Value
from hub.crypto.signing import SigningKey
from hub.wire.receipt import Receipt
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.evaluate import evaluate
from recorder import streams
from recorder.event import format_time
from recorder.lake.columns import PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment
from recorder.lake.segments import SegmentContent, read_file, write_segment
from spark_jobs.evidence_trust import Means
from tests.spark_jobs.query.conftest import Ask
from tests.support import hubs
from tests.support.query_log import QuestionedLog, without_record

A, B = "record/app/a", "record/app/b"
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuestionedLog]:
    log = QuestionedLog(tmp_path_factory.mktemp("log"), [A, B])
    rng = random.Random(7)
    log.fill(rng, A, 90)
    log.fill(rng, B, 25)
    log.ingest(A, segment_rows=30)  # 1-30 and 31-60 are sealed and recorded, 61-90 is live
    log.ingest(B, segment_rows=100)
    log.record_seals(A)
    yield log
    log.close()


@pytest.fixture
def lake(original: QuestionedLog, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original.lake, tmp_path / "lake"))


@pytest.fixture
def means(original: QuestionedLog, lake: Path) -> Means:
    found = original.means()
    assert found.records is not None
    places = {name: replace(place, lake=lake) for name, place in found.places.items()}
    return replace(found, places=places, records=replace(found.records, lake=lake))


def question(log: QuestionedLog, mode: str = "full", **changes: Value) -> Descriptor:
    evidence: dict[str, Value] = {"mode": mode}
    if mode == "spot":
        evidence["sample_rate"] = 1
    source: dict[str, Value] = {"scope": [A, B], "evidence": evidence, "projection": ["*"]}
    return log.pinned(source | changes)


def count(log: QuestionedLog, mode: str = "full", **changes: Value) -> Descriptor:
    aggregate: Value = {"group_by": ["origin", "payload.status"], "metrics": ["count"]}
    return question(log, mode, projection=None, aggregate=aggregate, **changes)


def rewrite(
    lake: Path,
    label: bytes,
    number: int,
    *,
    rows: Change = lambda table: table,
    proofs: Change = lambda table: table,
) -> Segment:
    """Replace a segment by another that only its maker thinks is right, manifest included."""
    folder = LakeFolder(lake / label.hex())
    manifest = folder.read()
    assert manifest is not None
    old = manifest.segments[number]
    content = SegmentContent(
        rows=rows(read_file(folder, old.rows, ROWS)),
        proofs=proofs(read_file(folder, old.proofs, PROOFS)),
        upto_root=bytes.fromhex(old.upto_root),  # type: ignore[arg-type]
        key_ids=old.key_ids,
    )
    new = write_segment(folder, content, old.state)
    changed = (*manifest.segments[:number], new, *manifest.segments[number + 1 :])
    folder.publish(manifest, replace(manifest, segments=changed), now_ms=0)
    return new


def set_value(name: str, position: int, value: object) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[position] = value
        column = pa.array(values, table.schema.field(name).type)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return change


def swap(first: int, second: int, *names: str) -> Change:
    def change(table: pa.Table) -> pa.Table:
        for name in names or table.schema.names:
            values = table[name].to_pylist()
            values[first], values[second] = values[second], values[first]
            column = pa.array(values, table.schema.field(name).type)
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    return change


def readable(log: QuestionedLog, first: int, last: int) -> int:
    """The 0-based place, from `first`, of an event with content."""
    rows = log.rows(A)[first - 1 : last]
    return next(at for at, row in enumerate(rows) if row.error is None and at > 2)


def refused(
    ask: Ask, lake: Path, means: Means, descriptor: Descriptor, *, at: str | None = None
) -> QueryError:
    with pytest.raises(QueryError) as failure:
        ask(lake, descriptor, means=means)
    assert failure.value.error_code is QueryCode.EVIDENCE_FAILED, failure.value
    if at is not None:
        assert failure.value.message.startswith(f"{at}: "), failure.value
    return failure.value


def test_an_untouched_lake_is_verified_in_every_mode(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    rows = original.all_rows()
    for mode in ("spot", "full"):
        for asked in (question(original, mode), count(original, mode)):
            found = ask(lake, asked, means=means)
            expected = evaluate(asked, rows)
            assert found.evidence == expected.evidence
            assert found.outcome.evidence_hash == expected.evidence_hash
            assert found.outcome.unreadable_count == expected.unreadable_count > 0


@pytest.mark.parametrize("number", [0, 2])
def test_a_changed_payload_is_seen_whether_the_segment_is_recorded_or_not(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask, number: int
) -> None:
    label = original.streams[A].label
    at = readable(original, 1 + 30 * number, 30 + 30 * number)
    rewrite(lake, label, number, rows=set_value("payload_text", at, '{"n":1}'))
    seq = 30 * number + at + 1
    place = f"{A} 1" if number == 0 else f"{A} {seq}"  # A recorded file falls as a whole.
    for asked in (question(original), count(original)):
        refused(ask, lake, means, asked, at=place)
    for asked in (question(original, "spot"), count(original, "spot")):
        refused(ask, lake, means, asked, at=f"{A} {seq}")
    assert ask(lake, question(original, "none")).outcome.row_count == 115


def test_an_event_hidden_from_the_filter_is_seen_by_full(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    at = readable(original, 61, 90)
    row = original.rows(A)[60 + at]
    asked = question(original, filter={"event_type": [str(row.event_type)]})
    rewrite(lake, original.streams[A].label, 2, rows=set_value("event_type", at, "other"))
    refused(ask, lake, means, asked, at=f"{A} {61 + at}")


def test_a_flipped_bit_anywhere_in_a_recorded_file_fails_full(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask, rng: random.Random
) -> None:
    folder = LakeFolder.of(lake, original.streams[A].label)
    manifest = folder.read()
    assert manifest is not None
    segment = manifest.segments[1]
    for one in (segment.rows, segment.proofs):
        path = folder.path(one)
        content = bytearray(path.read_bytes())
        position = rng.randrange(len(content))
        content[position] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        refused(ask, lake, means, question(original), at=f"{A} 31")
        path.write_bytes(
            LakeFolder.of(original.lake, original.streams[A].label).path(one).read_bytes()
        )
    ask(lake, question(original), means=means)


def test_cve_2026_22703_a_genuine_receipt_beside_another_payload(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    label = original.streams[A].label
    rewrite(lake, label, 2, proofs=swap(4, 5, "msg"))
    for mode in ("spot", "full"):
        failure = refused(ask, lake, means, question(original, mode), at=f"{A} 65")
        assert "another MSG" in failure.message


def test_a_forged_receipt_planted_in_the_lake(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    row = original.rows(A)[64]
    forged = Receipt.sign(
        SigningKey(hubs.seed("stranger")), original.streams[A].label, row.hub_commit_seq,
        row.leaf_hash, row.mmr_root, row.hub_commit_time // 1000,  # type: ignore[arg-type]
    ).encode()  # fmt: skip
    rewrite(lake, original.streams[A].label, 2, proofs=set_value("receipt", 4, forged))
    for mode in ("spot", "full"):
        for asked in (question(original, mode), count(original, mode)):
            failure = refused(ask, lake, means, asked, at=f"{A} 65")
            assert "no key that is pinned" in failure.message


def test_a_forged_message_planted_in_the_lake(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    msg = bytearray(original.entries(A)[64][0])
    msg[-1] ^= 1
    rewrite(lake, original.streams[A].label, 2, proofs=set_value("msg", 4, bytes(msg)))
    failure = refused(ask, lake, means, question(original, "spot"), at=f"{A} 65")
    assert "signature" in failure.message


def test_two_events_in_each_other_s_place(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    names = [name for name in ROWS.names if name not in {"hub_commit_seq", "mmr_root"}]
    rewrite(lake, original.streams[A].label, 2, rows=swap(4, 5, *names), proofs=swap(4, 5, "msg"))
    for mode in ("spot", "full"):
        refused(ask, lake, means, question(original, mode), at=f"{A} 65")


def test_a_row_dropped_from_a_segment(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    folder = LakeFolder.of(lake, original.streams[B].label)
    manifest = folder.read()
    assert manifest is not None
    segment = manifest.segments[0]
    table = read_file(folder, segment.rows, ROWS)
    content = SegmentContent(
        rows=pa.concat_tables([table.slice(0, 9), table.slice(10)]),
        proofs=read_file(folder, segment.proofs, PROOFS),
        upto_root=bytes.fromhex(segment.upto_root),  # type: ignore[arg-type]
        key_ids=segment.key_ids,
    )
    rows = write_segment(folder, content, segment.state).rows
    _publish(folder, manifest, replace(segment, rows=rows))
    refused(ask, lake, means, question(original, "spot"), at=f"{B} 1")  # The file is too short.
    refused(ask, lake, means, question(original, "full"), at=f"{B} 10")
    with pytest.raises(QueryError) as failure:
        ask(lake, question(original, "none"))
    assert failure.value.error_code is QueryCode.EXECUTION_FAILED


def _publish(folder: LakeFolder, old: LakeManifest, only: Segment) -> None:
    folder.publish(old, replace(old, segments=(only,)), now_ms=0)


def test_a_manifest_that_lies_about_times_hides_nothing_from_full(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    rows = original.rows(A)
    window: Value = {"time": {"to": format_time(rows[20].hub_commit_time)}}
    asked = question(original, filter=window, scope=[A])
    folder = LakeFolder.of(lake, original.streams[A].label)
    manifest = folder.read()
    assert manifest is not None
    first, *rest = manifest.segments
    lying = replace(first, min_hub_commit_time=first.max_hub_commit_time + 10**6)
    folder.publish(manifest, replace(manifest, segments=(lying, *rest)), now_ms=0)
    found = ask(lake, asked, means=means)
    assert found.outcome.rows_hash == evaluate(asked, rows).rows_hash


def test_without_records_every_event_is_opened_again(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    at = readable(original, 1, 30)
    asked = question(original, filter={"subject_id": "nobody"})
    rewrite(lake, original.streams[A].label, 0, rows=set_value("origin", at, "elsewhere"))
    failure = refused(ask, lake, without_record(means), asked, at=f"{A} {at + 1}")
    assert "origin in the lake is not what was recorded" in failure.message


def test_a_record_that_is_not_of_this_file_is_not_believed_either(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    """The records are events of the log: changing one in the lake is seen as such."""
    label = original.streams[streams.LAKE].label
    rewrite(lake, label, 0, rows=set_value("payload_text", 0, "{}"))
    refused(ask, lake, means, question(original), at=f"{streams.LAKE} 1")


def test_a_coverage_whose_root_nobody_signed(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    stranger = SigningKey(hubs.seed("stranger")).public
    failure = refused(ask, lake, replace(means, hub_pk=stranger), question(original, "spot"))
    assert failure.message.startswith(f"{A} 90: ")


def test_evidence_without_anything_to_verify_with_is_no_evidence(
    original: QuestionedLog, lake: Path, ask: Ask
) -> None:
    with pytest.raises(QueryError) as failure:
        ask(lake, question(original, "spot"))
    assert failure.value.error_code is QueryCode.EXECUTION_FAILED


def test_a_key_that_is_not_at_hand_is_told(
    original: QuestionedLog, lake: Path, means: Means, ask: Ask
) -> None:
    places = {name: replace(place, secrets=()) for name, place in means.places.items()}
    with pytest.raises(QueryError, match="not at hand") as failure:
        ask(lake, question(original, "spot"), means=replace(means, places=places))
    assert failure.value.error_code is QueryCode.EXECUTION_FAILED
