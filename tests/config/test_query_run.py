"""What a worker says when log or lake have not what a question names [query, coverage]."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from config.lake_plans import now_ms
from config.query_run import QueryRun, Runner
from config.settings_file import Settings
from hub import canonical_json
from hub.canonical_json import Value
from hub.types import HubId, Label, MmrRoot
from hub.wire.receipt import Receipt
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from queryapi.models import Execution, State
from recorder.event import UnixMillis
from recorder.lake.folder import LakeFolder
from tests.config.test_lake_work import SharedSpark, Worker, shared_hub, worker
from tests.support.recorded_log import RecordedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pytest_django import Settings as DjangoSettings

__all__ = ["shared_hub", "worker"]
pytestmark = pytest.mark.django_db(transaction=True)
PRINCIPAL = "ab" * 32
LEASE = timedelta(seconds=60)
MODES = ["none", "full"]


class Desk:
    """Questions to one worker, as its runner takes them."""

    def __init__(self, worker: Worker, spark: SparkSession) -> None:
        self.worker = worker
        settings = Settings(data_dir=worker.state.root, query_time_s=20)
        self.runner = Runner(settings, SharedSpark(spark), worker.work)
        self.hub_id = HubId(worker.bundle.hub.hub_id)
        self.number = 0

    def coverage(self, stream: RecordedStream, to_seq: int | None = None) -> Coverage:
        log = self.worker.work.surroundings().source.open()
        head = log.head(stream.label)
        if head is not None and to_seq is not None:
            head = log.receipt(stream.label, to_seq)
        log.close()
        end = None if head is None else Receipt.decode(head)
        return Coverage(
            stream=stream.name,
            label=stream.label,
            hub_id=self.hub_id,
            from_seq=1,
            to_seq=0 if end is None else end.stream_seq,
            mmr_root=None if end is None else end.mmr_root,
        )

    def asked(self, mode: str, *coverage: Coverage, **changes: Value) -> Descriptor:
        self.number += 1
        source: dict[str, Value] = {
            "scope": [one.stream for one in coverage], "evidence": {"mode": mode},
            "projection": ["*"],
        }  # fmt: skip
        text = canonical_json.encode(source | changes)
        question = read_submitted(text, query_id=f"q-{self.number}")
        return question.asked_by(PRINCIPAL, UnixMillis(now_ms())).pin(list(coverage))

    def ask(self, descriptor: Descriptor) -> int:
        """How many rows came."""
        row = Execution.objects.create(
            result_id=descriptor.result_id,
            query_id=descriptor.query_id,
            principal_id=PRINCIPAL,
            descriptor=descriptor.canonical().decode(),
            state=State.RUNNING,
            holder="desk",
            created_at=timezone.now(),
        )
        with QueryRun(Execution, row.pk, "desk", LEASE) as run:
            return self.runner.answer(row, run).digest.row_count

    def refused(self, descriptor: Descriptor) -> QueryError:
        with pytest.raises(QueryError) as refusal:
            self.ask(descriptor)
        return refusal.value


@pytest.fixture
def desk(worker: Worker, spark: SparkSession, settings: DjangoSettings) -> Iterator[Desk]:
    settings.VEEN_RESULTS_DIR = worker.state.root / "results"
    yield Desk(worker, spark)
    left = list(django_settings.VEEN_RESULTS_DIR.glob(".run-*"))
    assert not left, "a scratch folder is left"


def two(worker: Worker) -> tuple[RecordedStream, RecordedStream]:
    first, second = worker.stream("record/app/a"), worker.stream("record/app/b")
    worker.grant(first, second)
    worker.record(first, 9)
    worker.record(second, 5)
    return first, second


@pytest.mark.parametrize("mode", MODES)
def test_what_the_log_does_not_hold_is_told_at_once_with_every_missing_range(
    desk: Desk, mode: str
) -> None:
    first, second = two(desk.worker)
    here = [desk.coverage(first), desk.coverage(second)]
    assert desk.ask(desk.asked(mode, *here)) == 14
    beyond = [replace(here[0], to_seq=12), replace(here[1], to_seq=6)]
    told = desk.refused(desk.asked(mode, *beyond))
    assert told.error_code is QueryCode.COVERAGE_INCOMPLETE
    assert told.message == (
        f"{first.name}: 10 to 12 are not held here; {second.name}: 6 to 6 are not held here"
    )


@pytest.mark.parametrize("change", [
    {"hub_id": HubId(bytes(32))}, {"label": Label(b"\x07" * 32)},
    {"hub_id": HubId(bytes(32)), "to_seq": 3},
], ids=["hub", "label", "part"])  # fmt: skip
def test_another_log_of_the_same_name_is_not_held_here(
    desk: Desk, change: dict[str, bytes | int]
) -> None:
    first, second = two(desk.worker)
    foreign = replace(desk.coverage(first), **change)  # type: ignore[arg-type]
    told = desk.refused(desk.asked("none", foreign, desk.coverage(second)))
    assert told.error_code is QueryCode.COVERAGE_INCOMPLETE
    assert told.message == f"{first.name}: 1 to {foreign.to_seq} are not held here"


def test_an_empty_part_of_another_log_is_no_answer_either(desk: Desk) -> None:
    stream = desk.worker.stream()
    empty = desk.coverage(stream)
    assert desk.ask(desk.asked("full", empty)) == 0
    told = desk.refused(desk.asked("full", replace(empty, hub_id=HubId(bytes(32)))))
    assert told.error_code is QueryCode.COVERAGE_INCOMPLETE
    assert told.message == f"{stream.name}: this log is not held here"


@pytest.mark.parametrize("mode", MODES)
def test_another_root_at_the_end_is_another_history(desk: Desk, mode: str) -> None:
    first, second = two(desk.worker)
    forged = replace(desk.coverage(second, 4), mmr_root=MmrRoot(b"\x05" * 32))
    told = desk.refused(desk.asked(mode, desk.coverage(first), forged))
    assert told.error_code is QueryCode.COVERAGE_MISMATCH
    assert told.message == f"{second.name}: the root at 4 is another one here"


def pruned(desk: Desk, stream: RecordedStream, before_seq: int) -> None:
    desk.worker.bundle.hub.control(
        "prune", label=stream.label.hex(), before_seq=before_seq, reason="tests"
    )


@pytest.mark.parametrize("mode", MODES)
def test_retention_reaches_the_lake_of_a_stream_that_nobody_writes_to(
    desk: Desk, mode: str
) -> None:
    stream = desk.worker.stream()
    desk.worker.record(stream, 9)
    before = desk.coverage(stream)
    assert desk.ask(desk.asked(mode, before)) == 9
    pruned(desk, stream, 6)
    told = desk.refused(desk.asked(mode, before))
    assert told.error_code is QueryCode.COVERAGE_PRUNED
    assert told.message == f"{stream.name}: 1 to 5 were pruned"
    assert desk.worker.lake(stream).first_seq == 6
    assert desk.ask(desk.asked(mode, replace(before, from_seq=6))) == 4
    pruned(desk, stream, 8)
    assert desk.worker.work.tick() == 0
    assert desk.worker.lake(stream).first_seq == 8, "a tick does it too"


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_of_which_everything_was_pruned_answers_with_nothing(
    desk: Desk, mode: str
) -> None:
    stream = desk.worker.stream()
    desk.worker.record(stream, 4)
    all_gone = replace(desk.coverage(stream), from_seq=5)
    desk.worker.work.tick()
    pruned(desk, stream, 5)
    assert desk.ask(desk.asked(mode, all_gone)) == 0
    desk.worker.record(stream, 3)
    assert desk.ask(desk.asked(mode, all_gone)) == 0, "also when it has gone on"
    assert desk.ask(desk.asked(mode, replace(desk.coverage(stream), from_seq=5))) == 3


def test_a_lake_made_after_everything_was_pruned_answers_with_nothing(desk: Desk) -> None:
    stream = desk.worker.stream()
    desk.worker.record(stream, 4)
    all_gone = replace(desk.coverage(stream), from_seq=5)
    pruned(desk, stream, 5)
    assert desk.ask(desk.asked("full", all_gone)) == 0
    assert desk.worker.lake(stream).upto_root is None


Spoil = Callable[[LakeFolder], object]


def cut_manifest(folder: LakeFolder) -> None:
    folder.manifest_path.write_bytes(folder.manifest_path.read_bytes()[:-9])


def cut_rows(folder: LakeFolder) -> None:
    manifest = folder.read()
    assert manifest is not None
    path = folder.path(manifest.segments[0].rows)
    path.write_bytes(path.read_bytes()[:-99])


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("spoil", [cut_manifest, cut_rows])
@pytest.mark.parametrize(("mode", "code"), [
    ("none", QueryCode.EXECUTION_FAILED), ("full", QueryCode.EVIDENCE_FAILED),
])  # fmt: skip
def test_a_damaged_lake_is_named_also_where_it_keeps_events_from_being_added(
    desk: Desk, mode: str, code: QueryCode, spoil: Spoil, more: int
) -> None:
    stream = desk.worker.stream()
    desk.worker.record(stream, 5)
    desk.worker.work.tick()
    spoil(LakeFolder.of(desk.worker.bundle.lake, stream.label))
    if more:
        desk.worker.record(stream, more)
    told = desk.refused(desk.asked(mode, desk.coverage(stream)))
    assert told.error_code is code, told
    assert told.message.startswith(f"{stream.name} "), told
    assert "the lake is damaged: " in told.message
    assert str(desk.worker.state.root) not in told.message


def test_a_query_waits_for_the_lake_s_lock_as_long_as_its_own_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.lake_work.LOCK_SLICE_S", 0.05)
    stream = desk.worker.stream()
    desk.worker.record(stream, 5)
    folder = LakeFolder.of(desk.worker.bundle.lake, stream.label)
    refusals = []
    note = desk.worker.work._note

    def noted(name: str, flaw: Exception) -> None:
        refusals.append(name)
        if len(refusals) == 3:
            release.set()
        note(name, flaw)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.worker.work, "_note", noted)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with folder.locked():
            held.set()
            release.wait(20)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(20)
    assert desk.ask(desk.asked("none", desk.coverage(stream))) == 5
    other.join()
    assert len(refusals) >= 3


def test_random_bits_of_a_manifest_are_damage_or_change_nothing(
    desk: Desk, rng: random.Random
) -> None:
    """Whichever bit it is, full evidence never ends in an error of ours or in another answer."""
    stream = desk.worker.stream()
    desk.worker.record(stream, 6)
    asked = desk.coverage(stream)
    assert desk.ask(desk.asked("full", asked)) == 6
    path = LakeFolder.of(desk.worker.bundle.lake, stream.label).manifest_path
    content = path.read_bytes()
    for _ in range(20):
        spoiled = bytearray(content)
        bit = rng.randrange(len(content) * 8)
        spoiled[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoiled)
        found: int | QueryCode
        try:
            found = desk.ask(desk.asked("full", asked))
        except QueryError as failure:
            found = failure.error_code
        assert found in {
            6, QueryCode.EVIDENCE_FAILED, QueryCode.COVERAGE_MISMATCH, QueryCode.COVERAGE_PRUNED,
            QueryCode.LAKE_BEHIND, QueryCode.EXECUTION_FAILED,
        }  # fmt: skip
        path.unlink()
        path.write_bytes(content)
