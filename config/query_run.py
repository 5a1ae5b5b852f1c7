"""One execution of a query in the worker: fresh lake, Spark, files, digest [Query 8; architecture].

What is on disk is never computed again: a result folder with a digest is the answer, whoever wrote
it. Scratch folders are private to a run, which holds a lock on its own, and removed with it; those
of a run that was killed are found by their free locks.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from django.db import connection

from config.lake_plans import Surroundings, label_of, now_ms
from config.lake_work import LakeDamageError, LakeWork
from config.query_reach import check_reach
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from hub import canonical_json
from hub.errors import ErrorCode, VeenError
from hub.storage.disk import Disk
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from queryapi import queries, services
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor, Mode
from queryapi.contract.descriptor_reader import read_recorded
from queryapi.contract.digest import Compared, ResultDigest, compare
from queryapi.models import Execution, Replay
from queryapi.result_files import ResultFolder, publish
from queryapi.services import Timings
from recorder import streams
from recorder.event import format_time
from recorder.models import Stream
from spark_jobs.evidence_trust import Means
from spark_jobs.query import run_query
from spark_jobs.query_damage import damaged
from spark_jobs.query_job import QueryJob, QueryLimits, QueryOutcome
from spark_jobs.session import QUERY_POOL
from spark_jobs.tasks import JobControl

SCRATCH: Final = ".run-"
SCRATCH_YOUNG_S: Final = 1.0  # made, and perhaps not yet locked
PROGRESS_S: Final = 0.3


class QueryRun:
    """Renews a lease while the work goes on, and says when it must stop."""

    def __init__(
        self,
        kind: type[Execution | Replay],
        pk: uuid.UUID | str,
        holder: str,
        lease: timedelta,
    ) -> None:
        self._kind = kind
        self._pk = pk
        self._holder = holder
        self._lease = lease
        self._ended = threading.Event()
        self._is_lost = False
        self._deadline: float | None = None
        self._said_at = 0.0
        self.step = ""
        self._thread = threading.Thread(target=self._renew, name=f"lease-{pk}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def limit(self, seconds: float) -> None:
        """From now on it may take so long."""
        self._deadline = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """How much of the time limit is left."""
        return 3600.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def is_late(self) -> bool:
        """Whether the time limit is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def must_stop(self) -> bool:
        """Whether it was cancelled, taken over, or is late."""
        return self._is_lost or self.is_late

    def _renew(self) -> None:
        """Looks often, so that cancelling is felt at once."""
        try:
            while not self._ended.wait(PROGRESS_S):
                if not services.hold(self._kind, self._pk, self._holder, self._lease):
                    self._is_lost = True
                    return
        finally:
            connection.close()

    def say(self, step: str) -> None:
        """The step whose tasks are counted from now on."""
        self.step = step
        self.progress(0, 0)

    def progress(self, done: int, total: int) -> None:
        """Spark's own count; seldom, and never of a replay, which has no status to show."""
        now = time.monotonic()
        if self._kind is not Execution or (now - self._said_at < PROGRESS_S and done < total):
            return
        self._said_at = now
        services.note_progress(str(self._pk), self.step, done, total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An answer on disk."""

    digest: ResultDigest
    rows_bytes: int
    timings: Timings


class Runner:
    """Runs questions of this worker."""

    def __init__(self, settings: Settings, driver: SparkDriver, lake: LakeWork) -> None:
        self._settings = settings
        self._driver = driver
        self._lake = lake

    def answer(self, execution: Execution, run: QueryRun) -> Found:
        """The answer in its result folder, made now or left there by a run that was stopped."""
        run.limit(self._settings.query_time_s)
        target = queries.results_dir() / execution.result_id
        known = ResultFolder(target).digest()
        if known is not None:
            size = ResultFolder(target).rows.stat().st_size
            return Found(digest=known, rows_bytes=size, timings=Timings(ingest_ms=0, run_ms=0))
        descriptor = read_recorded(execution.descriptor.encode())
        with self._scratch() as folder:
            outcome, digest, timings = self._run(descriptor, folder, run)
            with written_or_failed():
                publish(folder, target, digest)
        return Found(digest=digest, rows_bytes=outcome.rows_bytes, timings=timings)

    def compare(self, replay: Replay, run: QueryRun) -> tuple[ResultDigest, list[Compared]]:
        """A recorded query asked again, and its digest beside the recorded one."""
        run.limit(self._settings.query_time_s)
        descriptor = read_recorded(replay.descriptor.encode())
        with self._scratch() as folder:
            _, digest, _ = self._run(descriptor, folder, run)
        theirs = ResultDigest.decode(canonical_json.parse(replay.their_digest))
        return digest, compare(theirs, digest)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        folder = queries.results_dir() / f"{SCRATCH}{secrets.token_hex(8)}"
        with written_or_failed():
            Disk().mkdir(folder)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def _run(
        self, descriptor: Descriptor, folder: Path, run: QueryRun
    ) -> tuple[QueryOutcome, ResultDigest, Timings]:
        started = time.monotonic()
        around = self._lake.surroundings()
        found = streams_of(descriptor)
        run.say("lake")
        self._bring_up(around, descriptor, found, run)
        ingested = time.monotonic()
        job = QueryJob(
            descriptor=descriptor,
            lake=around.lake,
            folder=folder,
            limits=QueryLimits(
                rows_max=self._settings.query_rows_max, bytes_max=self._settings.query_bytes_max
            ),
            means=means_of(around, found),
        )
        control = JobControl(
            pool=pool_of_runner(), on_progress=_beside(run), is_cancelled=run.must_stop
        )
        with written_or_failed(), self._driver.working() as spark:
            outcome = run_query(spark, job, control, run.say)
        digest = ResultDigest(
            query_id=descriptor.query_id,
            result_id=descriptor.result_id,
            row_count=outcome.row_count,
            evidence_policy=descriptor.evidence,
            rows_hash=outcome.rows_hash,
            evidence_hash=outcome.evidence_hash,
            executed_at=format_time(now_ms()),
            hub_id=around.pin.hub_id.hex(),
            profile_id=PRODUCT.id.hex(),
            unreadable_count=outcome.unreadable_count,
        )
        timings = Timings(
            ingest_ms=round((ingested - started) * 1000),
            run_ms=round((time.monotonic() - ingested) * 1000),
        )
        return outcome, digest, timings

    def _bring_up(
        self,
        around: Surroundings,
        descriptor: Descriptor,
        found: Mapping[str, Stream],
        run: QueryRun,
    ) -> None:
        """Ingest inside the query's own time, or lake_behind; what no time brings is told first."""
        assert descriptor.coverage is not None
        mode = descriptor.evidence.mode
        check_reach(around, descriptor.coverage, found, mode)
        wanted = {part.stream: part.to_seq for part in descriptor.coverage if part.to_seq}
        if mode is Mode.FULL:
            wanted |= _records_upto(around)
        try:
            is_there = self._lake.bring_up_to(wanted, run.left_s, run.must_stop)
        except LakeDamageError as damage:
            raise damaged(mode, damage, damage.stream, wanted[damage.stream]) from damage
        except VeenError as refusal:
            if refusal.code is ErrorCode.BUSY:
                raise
            message = "The lake could not be brought up to the coverage."
            raise QueryError(QueryCode.LAKE_BEHIND, message) from refusal
        if not is_there and run.must_stop() and not run.is_late:
            raise QueryError(QueryCode.CANCELLED, "the query was cancelled")
        if not is_there:
            message = "The lake did not reach the coverage in time."
            raise QueryError(QueryCode.LAKE_BEHIND, message)


@contextmanager
def written_or_failed() -> Iterator[None]:
    """A disk that takes no more ends the query; whatever it had written goes with its folder."""
    try:
        yield
    except OSError as refusal:
        message = f"The result could not be written: {refusal.strerror or refusal}."
        raise QueryError(QueryCode.EXECUTION_FAILED, message) from refusal


def pool_of_runner() -> str:
    """Spark shares fairly between pools, and serves one pool in order: so each runner has one."""
    return f"{QUERY_POOL}-{threading.current_thread().name}"


def sweep_scratch(results: Path) -> int:
    """Remove what killed runs left half done; how many there were."""
    swept = 0
    for folder in results.glob(f"{SCRATCH}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # It has ended meanwhile.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(lock).st_mtime > SCRATCH_YOUNG_S:
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
        except BlockingIOError:
            pass  # Its run goes on.
        finally:
            os.close(lock)
    return swept


def streams_of(descriptor: Descriptor) -> dict[str, Stream]:
    """Those of its streams that this zone knows by name."""
    return {one.name: one for one in Stream.objects.filter(name__in=descriptor.scope)}


def means_of(around: Surroundings, found: Mapping[str, Stream]) -> Means:
    records = Stream.objects.filter(name=streams.LAKE).first()
    return Means(
        hub_pk=around.pin.hub_pk,
        places={name: around.place(stream) for name, stream in found.items()},
        records=None if records is None else around.place(records),
    )


def _records_upto(around: Surroundings) -> dict[str, int]:
    """How far the records of sealed files go by now."""
    stream = Stream.objects.filter(name=streams.LAKE).first()
    if stream is None:
        return {}
    log = around.source.open()
    try:
        head = log.head(label_of(stream))
    finally:
        log.close()
    return {} if head is None else {stream.name: int(Receipt.decode(head).stream_seq)}


def _beside(run: QueryRun) -> Callable[[int, int], None]:
    """For Spark's watching thread, which keeps no connection."""

    def on_progress(done: int, total: int) -> None:
        try:
            run.progress(done, total)
        finally:
            connection.close()

    return on_progress
