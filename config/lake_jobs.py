"""Runs of seal and audit that people asked for, with progress and a way to stop [SDR0 3.2].

A LakeJob is taken by one update of its row, so two deliveries of a task run it once. A worker that
dies leaves it running; the next one starts it again from the beginning, which is safe.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.db import DatabaseError, connection
from django.utils import timezone

from config.lake_plans import find_streams
from config.lake_work import LakeWork
from config.spark_driver import SparkDriver
from hub.canonical_json import Value
from hub.errors import VeenError
from hub.models import Finding
from hub.services import note_finding
from recorder import services, streams
from recorder.models import AuthoredEvent, LakeJob, Stream
from spark_jobs.audit import AuditResult, audit
from spark_jobs.session import INGEST_POOL
from spark_jobs.tasks import CancelledError, JobControl

SEAL: Final = "seal"
AUDIT: Final = "audit"
PROGRESS_S: Final = 0.5

logger = logging.getLogger(__name__)
State = LakeJob.State
T = TypeVar("T")


def resume_jobs() -> int:
    """What a dead worker left running waits again; called before this one takes anything."""
    return LakeJob.objects.filter(state=State.RUNNING).update(state=State.PENDING)


class JobRunner:
    """Takes waiting jobs one after the other."""

    def __init__(self, work: LakeWork, driver: SparkDriver) -> None:
        self._work = work
        self._driver = driver
        self._lock = threading.Lock()

    def run_pending(self) -> int:
        """Run all that waits; how many there were."""
        if not self._lock.acquire(blocking=False):
            return 0
        try:
            count = 0
            while (job := LakeJob.objects.filter(state=State.PENDING).last()) is not None:
                if LakeJob.objects.filter(pk=job.pk, state=State.PENDING).update(
                    state=State.RUNNING
                ):
                    self._run(job)
                    count += 1
            return count
        finally:
            self._lock.release()

    def _run(self, job: LakeJob) -> None:
        tracked = _Tracked(job)
        try:
            result = self._result(job, tracked)
        except CancelledError:
            logger.info("lake.job_cancelled", extra={"job": str(job.pk)})
            LakeJob.objects.filter(pk=job.pk).update(finished_at=timezone.now())
        except VeenError as refusal:
            tracked.finish(State.FAILED, error=str(refusal))
        else:
            tracked.finish(State.DONE, result=result)

    def _result(self, job: LakeJob, tracked: _Tracked) -> dict[str, Any]:
        found = find_streams(job.args.get("streams", ()))
        if job.kind == SEAL:
            return self._seal(found, tracked)
        assert job.kind == AUDIT, job.kind
        return self._audit(job, found, tracked)

    def _seal(self, found: list[Stream], tracked: _Tracked) -> dict[str, Any]:
        sealed: dict[str, list[str]] = {}
        for number, stream in enumerate(found):
            tracked.say(stream.name, number, len(found))
            if tracked.is_cancelled():
                raise CancelledError
            sealed[stream.name] = self._work.seal(stream)
        tracked.say("", len(found), len(found))
        return {"sealed": sealed}

    def _audit(self, job: LakeJob, found: list[Stream], tracked: _Tracked) -> dict[str, Any]:
        verdicts: list[dict[str, Value]] = []
        for stream in found:
            manifest = self._work.surroundings().place(stream).folder.read()
            if manifest is None or not manifest.segments:
                if job.args.get("streams"):
                    verdicts.append({"stream": stream.name, "verdict": "empty", "events": 0})
                continue
            verdicts.append(self._audit_stream(job, stream, tracked))
        return {"verdicts": verdicts}

    def _audit_stream(self, job: LakeJob, stream: Stream, tracked: _Tracked) -> dict[str, Value]:
        around = self._work.surroundings()
        first, last = job.args.get("from_seq"), job.args.get("to_seq")
        place = around.place(stream)
        manifest = place.folder.read()
        assert manifest is not None
        seqs = (first or manifest.first_seq, last or manifest.upto_seq)
        from_hub = bool(job.args.get("from_hub"))
        control = JobControl(
            pool=INGEST_POOL,
            on_progress=lambda done, total: _beside(
                lambda: tracked.say(stream.name, done, total), None
            ),
            is_cancelled=lambda: _beside(tracked.is_cancelled, False),  # noqa: FBT003
        )
        with self._driver.working() as spark:
            result = audit(
                spark, place, around.pin.hub_pk, seqs, from_hub=from_hub, control=control
            )
        verdict = shown_verdict(stream.name, result, from_hub=from_hub)
        services.record_event(
            key=f"lake.audited:{job.pk}:{stream.label[:32]}",
            identity=AuthoredEvent.Identity.RECORDER,
            stream=streams.LAKE,
            event_type="lake.audited",
            subject_id=str(job.args.get("actor", "recorder-service")),
            payload=verdict,
            event_time_ms=int(job.created_at.timestamp() * 1000),
        )
        if not result.is_equal:
            self._note(stream.name, result)
        return verdict

    @staticmethod
    def _note(stream: str, result: AuditResult) -> None:
        worst = result.differences[0]
        where = f" at {worst.seq}" if worst.seq is not None else ""
        note_finding(
            "lake.different",
            f"lake {stream}",
            f"{result.count} differences from the log; the first{where}: {worst.what}",
            severity=Finding.Severity.CRITICAL,
            now=timezone.now(),
        )


def shown_verdict(stream: str, result: AuditResult, *, from_hub: bool) -> dict[str, Value]:
    """What is recorded of an audit; values of rows are not in it, they may be secret."""
    return {
        "stream": stream,
        "from_seq": result.first,
        "to_seq": result.last,
        "upto_root": result.upto_root,
        "events": result.events,
        "snapshot": result.snapshot,
        "source": "hub" if from_hub else "proofs",
        "verdict": "equal" if result.is_equal else "different",
        "differences": result.count,
        "first_differences": [{"seq": one.seq, "what": one.what} for one in result.differences],
    }


def _beside(look: Callable[[], T], otherwise: T) -> T:
    """A look at the database from Spark's watching thread; a busy database is asked again."""
    try:
        return look()
    except DatabaseError:
        return otherwise
    finally:
        connection.close()  # the thread ends with its job, and keeps nothing


class _Tracked:
    """A row as its job moves on; whoever sets it to cancelled is heard here."""

    def __init__(self, job: LakeJob) -> None:
        self._rows = LakeJob.objects.filter(pk=job.pk)
        self._said_at = 0.0

    def say(self, stream: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said_at < PROGRESS_S and done < total:
            return
        self._said_at = now
        progress = {"stream": stream, "done": done, "total": total}
        self._rows.filter(state=State.RUNNING).update(progress=progress)

    def is_cancelled(self) -> bool:
        return self._rows.filter(state=State.CANCELLED).exists()

    def finish(self, state: str, **fields: object) -> None:
        """Only what still runs ends; a cancelled job stays cancelled."""
        self._rows.filter(state=State.RUNNING).update(
            state=state, finished_at=timezone.now(), **fields
        )
