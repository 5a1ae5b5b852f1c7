"""The worker keeps the lake fresh, pays what it owes once, and names what is wrong."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from config import lake_work as lake_work_module
from config.lake_jobs import JobRunner, resume_jobs
from config.lake_plans import now_ms
from config.lake_work import LakeWork
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from config.up_state import StateDir, make_directories
from hub.errors import ErrorCode, VeenError
from hub.models import Finding
from recorder import services
from recorder.lake import compaction
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, SegmentState
from recorder.models import AuthoredEvent, LakeJob, Stream
from tests.support import web_bundle
from tests.support.live_hub import LiveHub
from tests.support.recorded_log import RecordedStream
from tests.support.web_bundle import LiveLog, WebBundle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pytest_django import Settings as DjangoSettings

# Spark's watching thread looks at the rows too, so they must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


class SharedSpark(SparkDriver):
    """The driver of a worker, with the session of these tests."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(Settings(), Path("/nowhere"))
        self._spark = spark


@dataclass
class Worker:
    state: StateDir
    bundle: WebBundle
    work: LakeWork
    runner: JobRunner
    settings: DjangoSettings

    def stream(self, name: str = "record/app/web") -> RecordedStream:
        made = self.bundle.stream(f"{name}-{uuid.uuid4().hex[:6]}")
        self.grant(made)
        return made

    def grant(self, *streams: RecordedStream) -> None:
        """The file of reader keys, as the author writes it."""
        keys = {
            one.name: [{"key_id": n, "secret": s.secret.hex()} for n, s in one.secrets]
            for one in streams
        }
        path = self.state.secret("readers.keys")
        path.touch(mode=0o600)
        path.write_text(json.dumps({"ver": 1, "streams": keys}))

    def record(self, stream: RecordedStream, count: int) -> None:
        self.bundle.log.commit(stream.events(count))

    def lake(self, stream: RecordedStream) -> LakeManifest:
        found = LakeFolder.of(self.bundle.lake, stream.label).read()
        assert found is not None
        return found


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with web_bundle.running(tmp_path_factory.mktemp("bundle")) as hub:
        yield hub


@pytest.fixture
def worker(
    spark: SparkSession,
    shared_hub: LiveHub,
    tmp_path: Path,
    settings: DjangoSettings,
    transactional_db: None,
) -> Worker:
    state = StateDir.at(tmp_path)
    make_directories(state)
    token = str(shared_hub.control("token_add", name=f"w{uuid.uuid4().hex}", all=True)["token"])
    bundle = WebBundle(root=tmp_path, hub=shared_hub, log=LiveLog(shared_hub, token))
    bundle.point(settings)
    settings.VEEN_STATUS_FILE = state.status
    settings.VEEN_AUTHOR_SOCKET = state.author_socket
    bundle.status()
    state.secret("worker.token").write_text(token)
    state.hub.symlink_to(shared_hub.data_dir)
    driver = SharedSpark(spark)
    work = LakeWork(state, Settings(data_dir=tmp_path), driver)
    return Worker(
        state=state, bundle=bundle, work=work, runner=JobRunner(work, driver), settings=settings
    )


def test_a_tick_takes_what_is_new_and_the_next_finds_nothing(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 7)
    assert worker.work.tick() == 7
    manifest = worker.lake(stream)
    assert (manifest.upto_seq, manifest.segments[0].summary.errors) == (7, {})
    assert worker.work.tick() == 0
    assert worker.lake(stream) == manifest
    worker.record(stream, 3)
    assert worker.work.tick() == 3


def test_what_a_lake_owes_is_recorded_once_whatever_stops_in_between(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = worker.stream()
    worker.record(stream, 4)
    worker.work.tick()
    monkeypatch.setattr(compaction, "SEAL_AGE_MS", 0)

    def stop(*_: object, **__: object) -> LakeManifest:
        raise VeenError(ErrorCode.STORE, "the machine stops before the manifest is replaced")

    monkeypatch.setattr(lake_work_module, "now_ms", lambda: now_ms() + 5_000)
    monkeypatch.setattr("config.lake_plans.now_ms", lambda: now_ms() + 5_000)
    publish = LakeFolder.publish
    worker.work.tick()
    [event] = AuthoredEvent.objects.filter(event_type="lake.sealed")
    manifest = worker.lake(stream)
    assert manifest.owed == ()
    assert [one.state for one in manifest.segments] == [SegmentState.SEALED]
    said = json.loads(event.payload_text)
    assert said["files"] == manifest.segments[0].hashes()
    assert (event.stream, event.subject_id) == ("record/infrastructure/lake", stream.name)

    folder = LakeFolder.of(worker.bundle.lake, stream.label)
    monkeypatch.setattr(LakeFolder, "publish", stop)
    worker.record(stream, 1)
    worker.work.tick()
    monkeypatch.setattr(LakeFolder, "publish", publish)
    worker.work.tick()
    again = folder.read()
    assert again is not None
    assert again.owed == ()
    assert AuthoredEvent.objects.filter(event_type="lake.sealed").count() == 2


def test_a_key_that_is_granted_later_opens_what_was_sealed(worker: Worker) -> None:
    stream = worker.stream()
    stream.rotate_key()
    worker.record(stream, 3)
    worker.grant(RecordedStream(stream.name, secrets=stream.secrets[1:]))
    worker.work.tick()
    assert worker.lake(stream).segments[0].summary.errors == {"sealed": 3}
    worker.grant(stream)
    worker.work.tick()
    assert worker.lake(stream).segments[0].summary.errors == {}


def test_a_lake_of_another_log_becomes_a_finding_and_stops_no_other_stream(
    worker: Worker,
) -> None:
    bad, good = worker.stream("record/app/bad"), worker.stream("record/app/good")
    worker.grant(bad, good)
    worker.record(bad, 2)
    worker.work.tick()
    folder = LakeFolder.of(worker.bundle.lake, bad.label)
    manifest = folder.read()
    assert manifest is not None
    [segment] = manifest.segments
    forged = replace(segment, upto_root="00" * 32)
    folder.publish(manifest, replace(manifest, segments=(forged,), upto_root="00" * 32), now_ms=0)
    worker.record(bad, 1)
    worker.record(good, 2)
    assert worker.work.tick() == 2
    [finding] = Finding.objects.all()
    assert (finding.code, finding.object) == ("V.EQUIVOCATION", f"lake {bad.name}")


def test_bringing_up_waits_for_what_was_asked_and_says_when_it_cannot(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 5)
    assert worker.work.bring_up_to({stream.name: 5}, 20)
    assert worker.lake(stream).upto_seq == 5
    assert not worker.work.bring_up_to({stream.name: 6}, 5)
    with pytest.raises(VeenError) as refusal:
        worker.work.bring_up_to({"record/app/nobody": 1}, 5)
    assert refusal.value.code is ErrorCode.NOTFOUND


def test_bringing_up_nothing_is_done_at_once_whatever_streams_there_are(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 1)
    assert worker.work.bring_up_to({}, 5)


def job(kind: str, **args: object) -> LakeJob:
    return LakeJob.objects.create(kind=kind, args=args, created_at=timezone.now())


def test_a_seal_that_was_asked_for_takes_what_is_new_and_seals_all(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 6)
    asked = job("seal", streams=[stream.name])
    assert worker.runner.run_pending() == 1
    asked.refresh_from_db()
    assert asked.state == LakeJob.State.DONE
    assert asked.result == {"sealed": {stream.name: [worker.lake(stream).segments[0].name]}}
    assert asked.progress == {"stream": "", "done": 1, "total": 1}
    assert AuthoredEvent.objects.filter(event_type="lake.sealed").count() == 1
    assert worker.runner.run_pending() == 0


def test_an_audit_records_its_verdict_and_a_difference_is_a_finding(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 6)
    worker.work.tick()
    first = job("audit", streams=[stream.name], actor="token:alice")
    worker.runner.run_pending()
    first.refresh_from_db()
    assert first.state == LakeJob.State.DONE, first.error
    [verdict] = first.result["verdicts"]
    assert (verdict["verdict"], verdict["events"]) == ("equal", 6)
    event = AuthoredEvent.objects.get(event_type="lake.audited")
    assert json.loads(event.payload_text) == verdict
    assert event.subject_id == "token:alice"
    assert not Finding.objects.exists()

    path = LakeFolder.of(worker.bundle.lake, stream.label).path(
        worker.lake(stream).segments[0].rows
    )
    path.write_bytes(path.read_bytes() + b"x")
    second = job("audit", streams=[], from_hub=True)
    worker.runner.run_pending()
    second.refresh_from_db()
    [verdict] = second.result["verdicts"]
    assert verdict["verdict"] == "different"
    assert Finding.objects.get().code == "lake.different"
    assert AuthoredEvent.objects.filter(event_type="lake.audited").count() == 2


def test_jobs_that_cannot_be_done_say_why_and_the_next_goes_on(worker: Worker) -> None:
    stream = worker.stream()
    worker.record(stream, 1)
    worker.work.tick()
    bad = job("audit", streams=[stream.name], from_seq=1, to_seq=99)
    unknown = job("seal", streams=["record/app/nobody"])
    good = job("audit", streams=[stream.name])
    assert worker.runner.run_pending() == 3
    for one in (bad, unknown, good):
        one.refresh_from_db()
    assert (bad.state, unknown.state, good.state) == ("failed", "failed", "done")
    assert "holds 1 to 1" in bad.error
    assert bad.finished_at is not None


def test_a_cancelled_job_stays_cancelled_and_a_dead_worker_s_job_waits_again(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = worker.stream()
    worker.record(stream, 2)
    worker.work.tick()
    waiting = job("audit", streams=[stream.name])
    assert services.cancel_job(waiting.pk).state == LakeJob.State.CANCELLED
    assert worker.runner.run_pending() == 0
    running = job("seal", streams=[stream.name])

    def cancelled_meanwhile(_: Stream) -> list[str]:
        services.cancel_job(running.pk)
        return ["never"]

    monkeypatch.setattr(worker.work, "seal", cancelled_meanwhile)
    worker.runner.run_pending()
    running.refresh_from_db()
    assert (running.state, running.result) == (LakeJob.State.CANCELLED, {})
    left = job("seal", streams=[])
    LakeJob.objects.filter(pk=left.pk).update(state=LakeJob.State.RUNNING)
    assert resume_jobs() == 1
    left.refresh_from_db()
    assert left.state == LakeJob.State.PENDING


def test_without_a_running_hub_a_tick_says_so(worker: Worker) -> None:
    worker.state.status.unlink()
    with pytest.raises(VeenError) as refusal:
        worker.work.tick()
    assert refusal.value.code is ErrorCode.CONFIG


def test_reader_keys_that_others_can_read_or_that_are_none_are_refused(worker: Worker) -> None:
    worker.stream()
    path = worker.state.secret("readers.keys")
    path.chmod(0o644)
    with pytest.raises(VeenError) as refusal:
        worker.work.tick()
    assert refusal.value.code is ErrorCode.KEYSTORE
    path.chmod(0o600)
    path.write_text('{"streams": 3}')
    with pytest.raises(VeenError) as refusal:
        worker.work.tick()
    assert refusal.value.code is ErrorCode.KEYSTORE
    assert Stream.objects.count() == 1
