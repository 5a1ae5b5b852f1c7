"""The worker's queries: taken from their rows, run on Spark, recorded, never twice [Query 8].

Rows are the queue. A query is taken by one update and held by a lease that its runner renews; when
the runner is gone the lease ends and another goes on from what is on disk: a finished result is
recorded, not computed again. Runners are threads of their own, so that a long query keeps nobody
from ingest, cancelling or another query.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from django.db import close_old_connections, connection
from django.utils import timezone

from config.lake_work import LakeWork
from config.query_run import QueryRun, Runner, sweep_scratch
from config.settings_file import Settings
from config.spark_driver import SparkDriver, StoppingError
from hub.errors import ErrorCode, VeenError
from queryapi import events, queries, services
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.models import Execution, Replay, State
from recorder.models import AuthoredEvent
from recorder.services import wait_for_event

RUNNERS: Final = 4
LEASE: Final = timedelta(seconds=10)
# A worker or a JVM that somebody kills looks like one that the question itself brings down, by its
# memory perhaps. So attempts are bounded, but well beyond the restarts of a bad day; those of a
# worker that is asked to stop do not count.
ATTEMPTS_MAX: Final = 10
FAULTED_ATTEMPT: Final = 3  # an error of ours comes again: from this attempt on it is the end
RECORD_WAIT_S: Final = 5.0
LOOKED_AT: Final = 200
CLEANED_AT_ONCE: Final = 20
SWEEP_S: Final = 20.0

logger = logging.getLogger(__name__)


class QueryWork:
    """All queries of one worker process."""

    def __init__(self, settings: Settings, driver: SparkDriver, lake: LakeWork) -> None:
        self._settings = settings
        self._driver = driver
        self._runner = Runner(settings, driver, lake)
        self._holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._pool = ThreadPoolExecutor(RUNNERS, thread_name_prefix="query")
        self._lock = threading.Lock()
        self._active: set[str] = set()
        self._swept_at = float("-inf")

    def look(self) -> int:
        """Start whatever waits, as far as runners are free; how many were started."""
        if self._driver.is_stopping:
            return 0
        self._clean()
        with self._lock:
            started = 0
            for key, row in self._due():
                if len(self._active) >= RUNNERS:
                    break
                self._active.add(key)
                self._pool.submit(self._run, key, row).add_done_callback(_log_fault)
                started += 1
            return started

    def _due(self) -> list[tuple[str, Execution | Replay]]:
        """Rows that may be taken now, oldest first, no principal crowding out the others."""
        now = timezone.now()
        left = [(str(row.pk), row) for row in queries.left_behind(now, LOOKED_AT)]
        waiting: list[tuple[str, Execution | Replay]] = []
        most = self._settings.query_running_max
        for who in queries.waiting_principals():
            # Of those in `_active` one may have been taken, and be about to run: it counts.
            rows = queries.waiting_of(who, most + RUNNERS)
            taken = sum(str(row.pk) in self._active for row in rows)
            free = max(0, most - queries.running_of(who) - taken)
            mine = [(str(row.pk), row) for row in rows if str(row.pk) not in self._active]
            waiting += mine[:free]
        waiting.sort(key=lambda pair: pair[1].created_at)
        return [*[pair for pair in left if pair[0] not in self._active], *waiting]

    def _run(self, key: str, row: Execution | Replay) -> None:
        close_old_connections()
        try:
            if isinstance(row, Execution):
                self._execute(row)
            else:
                self._replay(row)
        finally:
            connection.close()
            with self._lock:
                self._active.discard(key)
        self.look()  # A runner is free now.
        connection.close()

    # -- queries

    def _execute(self, execution: Execution) -> None:
        if execution.state == State.PENDING:
            if not self._is_recorded(execution) or not services.start(
                execution, self._holder, LEASE
            ):
                return
        elif not services.take_over(Execution, execution.pk, self._holder, LEASE):
            return
        execution.refresh_from_db()
        if execution.digest:
            self._settle(execution)
            return
        if execution.attempts > ATTEMPTS_MAX:
            self._fail(execution, QueryCode.INTERNAL_ERROR, "The query could not be run.")
            return
        self._attempt(execution)

    def _fail(self, execution: Execution, code: QueryCode, message: str) -> None:
        services.fail(execution, code, message, holder=self._holder)

    @staticmethod
    def _is_recorded(execution: Execution) -> bool:
        """Execution starts when the RECEIPT of the descriptor is held."""
        event = wait_for_event(events.submitted_key(execution.result_id), RECORD_WAIT_S)
        if event.state == AuthoredEvent.State.REFUSED:
            services.fail(execution, QueryCode.INTERNAL_ERROR, "The query could not be recorded.")
        return event.state == AuthoredEvent.State.RECORDED

    def _attempt(self, execution: Execution) -> None:
        with QueryRun(Execution, execution.pk, self._holder, LEASE) as run:
            try:
                found = self._runner.answer(execution, run)
            except QueryError as failure:
                self._end(execution, run, failure)
                return
            except VeenError as refusal:
                self._refused(execution, refusal)
                return
            except Exception:
                if execution.attempts < FAULTED_ATTEMPT:
                    raise
                logger.exception("query.fault")
                self._fail(execution, QueryCode.INTERNAL_ERROR, "The query could not be run.")
                return
            if not services.keep_digest(
                execution, self._holder, found.digest, found.rows_bytes, found.timings
            ):
                return  # Cancelled, whose files are removed, or somebody else has it by now.
            self._settle(execution)

    def _end(self, execution: Execution, run: QueryRun, failure: QueryError) -> None:
        if failure.error_code is not QueryCode.CANCELLED:
            self._fail(execution, failure.error_code, failure.message)
        elif run.is_late:
            message = f"The query took longer than {self._settings.query_time_s} seconds."
            self._fail(execution, QueryCode.EXECUTION_FAILED, message)
        # Else whoever cancelled it has ended it, or another worker has taken it.

    def _refused(self, row: Execution | Replay, refusal: VeenError) -> None:
        """What may pass is tried again; anything else is the end."""
        logger.warning("query.refused", extra={"reason": str(refusal)})
        is_stopped = isinstance(refusal, StoppingError)
        if is_stopped or (refusal.code is ErrorCode.BUSY and row.attempts < ATTEMPTS_MAX):
            services.let_go(type(row), row.pk, self._holder, counts=not is_stopped)
        elif isinstance(row, Execution):
            self._fail(row, QueryCode.EXECUTION_FAILED, f"The query failed: {refusal.code}.")
        else:
            message = f"The replay failed: {refusal.code}."
            self._fail_replay(row, QueryCode.EXECUTION_FAILED, message)

    @staticmethod
    def _settle(execution: Execution) -> None:
        """COMPLETED only after the digest's RECEIPT is held; until then the next look tries."""
        event = wait_for_event(events.result_key(execution.result_id), RECORD_WAIT_S)
        if event.state == AuthoredEvent.State.RECORDED:
            services.complete(execution)
        elif event.state == AuthoredEvent.State.REFUSED:
            logger.error("query.digest_refused", extra={"result_id": execution.result_id})

    # -- replays

    def _replay(self, replay: Replay) -> None:
        if not self._takes(replay):
            return
        replay.refresh_from_db()
        code = QueryCode.INTERNAL_ERROR
        if replay.attempts > ATTEMPTS_MAX:
            self._fail_replay(replay, code, "The replay could not be run.")
            return
        with QueryRun(Replay, replay.pk, self._holder, LEASE) as run:
            try:
                digest, compared = self._runner.compare(replay, run)
            except QueryError as failure:
                code, message = failure.error_code, failure.message
                if code is QueryCode.CANCELLED:  # By its time: nobody else can.
                    code = QueryCode.EXECUTION_FAILED
                    message = f"The replay took longer than {self._settings.query_time_s} seconds."
                self._fail_replay(replay, code, message)
            except VeenError as refusal:
                self._refused(replay, refusal)
            except Exception:
                if replay.attempts < FAULTED_ATTEMPT:
                    raise
                logger.exception("query.fault")
                self._fail_replay(replay, code, "The replay could not be run.")
            else:
                services.complete_replay(replay, self._holder, digest, compared)

    def _takes(self, replay: Replay) -> bool:
        if replay.state == State.PENDING:
            return services.start_replay(replay, self._holder, LEASE)
        return services.take_over(Replay, replay.pk, self._holder, LEASE)

    def _fail_replay(self, replay: Replay, code: QueryCode, message: str) -> None:
        services.fail_replay(replay, code, message, holder=self._holder)

    # -- retention

    def _clean(self) -> None:
        before = timezone.now() - timedelta(days=self._settings.results_days)
        for execution in queries.expired(before)[:CLEANED_AT_ONCE]:
            if execution.pk not in self._active:  # A run that was cancelled may still write.
                shutil.rmtree(queries.results_dir() / execution.result_id, ignore_errors=True)
                services.forget_rows(execution)
        if time.monotonic() - self._swept_at > SWEEP_S:
            self._swept_at = time.monotonic()
            sweep_scratch(queries.results_dir())


def _log_fault(done: Future[None]) -> None:
    """An error of ours; the row's lease ends, and its attempts are counted."""
    fault = done.exception()
    if fault is not None:
        logger.error("query.fault", exc_info=fault)
