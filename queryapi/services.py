"""The writes of the query layer, one function per verb; states only go forward [Query 8.1].

What must not be lost is one transaction: a query with its recorded descriptor, a digest with its
event, a failure with its audit line. A row is moved by an update that names where it comes from;
who comes second changes nothing and is told so.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from hub.canonical_json import Value
from hub.models import Finding
from hub.services import note_finding
from queryapi import events, launcher, policy
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_recorded, read_submitted
from queryapi.contract.digest import Compared, ResultDigest
from queryapi.heads import pin_coverage
from queryapi.models import OPEN, Execution, Replay, State
from recorder.auth import Caller
from recorder.event import UnixMillis
from recorder.hub_reads import HubReads

RETRY_AFTER_S: Final = 5
RATE_WINDOW: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What the audit line says of a run, in milliseconds."""

    ingest_ms: int
    run_ms: int

    def to_json(self) -> dict[str, Value]:
        """Members of query.executed."""
        return {"ingest_ms": self.ingest_ms, "run_ms": self.run_ms}


# -- asking


def submit_query(source: bytes, caller: Caller) -> Execution:
    """Normalize, pin, store and have it recorded; a known query_id gives its first answer.

    When this returns, the query is durable and will be executed whatever stops.
    """
    now = timezone.now()
    asked = read_submitted(source, query_id=f"q-{secrets.token_hex(16)}").asked_by(
        caller.token.principal_id, UnixMillis(int(now.timestamp() * 1000))
    )
    with HubReads() as hub:
        streams = policy.check_scope(caller, asked, hub.hub_id.hex())
        known = Execution.objects.filter(query_id=asked.query_id).first()
        if known is not None:
            return _same(known, asked)
        _check_rate(caller, now)
        descriptor = asked.pin(pin_coverage(hub, streams, settings.VEEN_LAKE_DIR))
    try:
        with transaction.atomic():
            execution = Execution.objects.create(
                result_id=descriptor.result_id,
                query_id=descriptor.query_id,
                principal_id=descriptor.principal_id,
                descriptor=descriptor.canonical().decode(),
                created_at=now,
            )
            events.record_submitted(descriptor)
            transaction.on_commit(launcher.wake)
    except IntegrityError:  # Somebody else was faster with the same query_id.
        return _same(Execution.objects.get(query_id=asked.query_id), asked)
    return execution


def _same(known: Execution, asked: Descriptor) -> Execution:
    recorded = read_recorded(known.descriptor.encode())
    if known.principal_id != asked.principal_id or recorded.question() != asked.question():
        message = "This query_id was used for another query."
        raise QueryError(QueryCode.DUPLICATE_QUERY_ID, message)
    return known


def _check_rate(caller: Caller, now: datetime) -> None:
    """Raise rate_limited; replays count like queries."""
    who = {"principal_id": caller.token.principal_id}
    limits = settings.VEEN
    counts = [
        (
            kind.objects.filter(**who, state__in=OPEN).count(),
            kind.objects.filter(**who, created_at__gte=now - RATE_WINDOW).count(),
        )
        for kind in (Execution, Replay)
    ]
    if sum(waiting for waiting, _ in counts) >= limits.query_waiting_max:
        message = f"More than {limits.query_waiting_max} of your queries are not finished yet."
        raise QueryError(QueryCode.RATE_LIMITED, message, retry_after_s=RETRY_AFTER_S)
    if sum(recent for _, recent in counts) >= limits.query_rate_max:
        message = f"More than {limits.query_rate_max} queries in a minute."
        raise QueryError(QueryCode.RATE_LIMITED, message, retry_after_s=RETRY_AFTER_S)


def submit_replay(descriptor: Descriptor, digest: ResultDigest, caller: Caller) -> Replay:
    """Ask a recorded query again; whoever replays needs the right to all that it reads."""
    assert descriptor.coverage is not None
    now = timezone.now()
    with HubReads() as hub:
        policy.check_coverage(caller, descriptor.coverage, hub.hub_id.hex())
    _check_rate(caller, now)
    with transaction.atomic():
        replay = Replay.objects.create(
            principal_id=caller.token.principal_id,
            query_id=descriptor.query_id,
            result_id=descriptor.result_id,
            descriptor=descriptor.canonical().decode(),
            their_digest=digest.canonical().decode(),
            created_at=now,
        )
        transaction.on_commit(launcher.wake)
    return replay


# -- running


def start(execution: Execution, holder: str, lease: timedelta) -> bool:
    """Take a waiting execution; False when somebody else has it."""
    now = timezone.now()
    waiting = Execution.objects.filter(pk=execution.pk, state=State.PENDING)
    return bool(
        waiting.update(
            state=State.RUNNING,
            holder=holder,
            held_until=now + lease,
            started_at=now,
            attempts=F("attempts") + 1,
        )
    )


def take_over(
    kind: type[Execution | Replay], pk: uuid.UUID | str, holder: str, lease: timedelta
) -> bool:
    """Take what a dead worker left running; False while its lease holds."""
    now = timezone.now()
    left = kind.objects.filter(pk=pk, state=State.RUNNING, held_until__lt=now)
    return bool(left.update(holder=holder, held_until=now + lease, attempts=F("attempts") + 1))


def hold(
    kind: type[Execution | Replay], pk: uuid.UUID | str, holder: str, lease: timedelta
) -> bool:
    """Keep a running row; False when it is no longer ours, and the work must stop."""
    mine = kind.objects.filter(pk=pk, state=State.RUNNING, holder=holder)
    return bool(mine.update(held_until=timezone.now() + lease))


def let_go(
    kind: type[Execution | Replay], pk: uuid.UUID | str, holder: str, *, counts: bool = True
) -> None:
    """Give a running row back, so that it can be taken over at once.

    An attempt that ended for no fault of the query's does not count.
    """
    mine = kind.objects.filter(pk=pk, state=State.RUNNING, holder=holder)
    past = timezone.now() - timedelta(seconds=1)
    mine.update(held_until=past, attempts=F("attempts") - (0 if counts else 1))


def note_progress(result_id: str, step: str, done: int, total: int) -> None:
    """What status shows."""
    running = Execution.objects.filter(pk=result_id, state=State.RUNNING)
    running.update(step=step, tasks_done=done, tasks_total=total)


# -- ending


def keep_digest(
    execution: Execution, holder: str, digest: ResultDigest, rows_bytes: int, timings: Timings
) -> bool:
    """Fix the answer and have it recorded; from here on only COMPLETED can follow.

    False when the query was cancelled or taken over meanwhile: then nothing is recorded.
    """
    descriptor = read_recorded(execution.descriptor.encode())
    with transaction.atomic():
        mine = Execution.objects.filter(
            pk=execution.pk, state=State.RUNNING, holder=holder, digest=""
        )
        if not mine.update(digest=digest.canonical().decode(), rows_bytes=rows_bytes):
            return False
        events.record_result(execution, digest)
        events.record_access(execution, descriptor, digest)
        facts: dict[str, Value] = {
            "outcome": State.COMPLETED.value,
            "row_count": digest.row_count,
            "rows_bytes": rows_bytes,
            "unreadable_count": digest.unreadable_count,
            "executed_at": digest.executed_at,
            **timings.to_json(),
        }
        events.record_executed(execution, facts)
    return True


def forget_rows(execution: Execution) -> None:
    """Note that the files of an answer were removed; digest and descriptor stay."""
    Execution.objects.filter(pk=execution.pk).update(rows_removed_at=timezone.now())


def complete(execution: Execution) -> bool:
    """The digest's RECEIPT is held: the answer may be shown."""
    recorded = Execution.objects.filter(pk=execution.pk, state=State.RUNNING).exclude(digest="")
    return bool(recorded.update(state=State.COMPLETED, finished_at=timezone.now(), step=""))


def fail(execution: Execution, code: QueryCode, message: str, *, holder: str = "") -> bool:
    """End it without an answer, with its audit line; False when it had ended or is recorded.

    A worker names itself: one that lost the query meanwhile must not end it for its successor.
    """
    now = timezone.now()
    with transaction.atomic():
        unfinished = Execution.objects.filter(pk=execution.pk, state__in=OPEN, digest="")
        if holder:
            unfinished = unfinished.filter(holder=holder)
        ended = unfinished.update(
            state=State.FAILED, error_code=code.value, message=message, finished_at=now, step=""
        )
        if not ended:
            return False
        facts: dict[str, Value] = {
            "outcome": State.FAILED.value, "error_code": code.value, "message": message,
        }  # fmt: skip
        events.record_executed(execution, facts)
        _note_evidence(code, f"query {execution.result_id}", message, now)
    return True


def _note_evidence(code: QueryCode, about: str, message: str, now: datetime) -> None:
    """What the log does not bear out is a finding, whoever asked and however often."""
    if code is QueryCode.EVIDENCE_FAILED:
        note_finding(code.value, about, message, severity=Finding.Severity.CRITICAL, now=now)


def cancel(execution: Execution) -> Execution:
    """End it for its asker; what is already recorded stays."""
    fail(execution, QueryCode.CANCELLED, "The query was cancelled.")
    return Execution.objects.get(pk=execution.pk)


# -- replays


def start_replay(replay: Replay, holder: str, lease: timedelta) -> bool:
    """Take a waiting replay; False when somebody else has it."""
    waiting = Replay.objects.filter(pk=replay.pk, state=State.PENDING)
    held_until = timezone.now() + lease
    return bool(
        waiting.update(
            state=State.RUNNING, holder=holder, held_until=held_until, attempts=F("attempts") + 1
        )
    )


def complete_replay(
    replay: Replay, holder: str, digest: ResultDigest, compared: Sequence[Compared]
) -> bool:
    """Keep what the replay found, and have it recorded."""
    facts: dict[str, Value] = {
        "outcome": State.COMPLETED.value,
        "local_digest": digest.to_json(),
        "comparison": [one.to_json() for one in compared],
        "equal": all(one.equal for one in compared),
    }
    with transaction.atomic():
        mine = Replay.objects.filter(pk=replay.pk, state=State.RUNNING, holder=holder)
        if not mine.update(
            state=State.COMPLETED,
            local_digest=digest.canonical().decode(),
            finished_at=timezone.now(),
        ):
            return False
        events.record_replayed(replay, facts)
        events.record_access(replay, read_recorded(replay.descriptor.encode()), digest)
    return True


def fail_replay(replay: Replay, code: QueryCode, message: str, *, holder: str) -> bool:
    """End a replay that has no answer, and have that recorded; only for who holds it."""
    facts: dict[str, Value] = {
        "outcome": State.FAILED.value, "error_code": code.value, "message": message,
    }  # fmt: skip
    now = timezone.now()
    with transaction.atomic():
        unfinished = Replay.objects.filter(pk=replay.pk, state__in=OPEN, holder=holder)
        if not unfinished.update(
            state=State.FAILED, error_code=code.value, message=message, finished_at=now
        ):
            return False
        events.record_replayed(replay, facts)
        _note_evidence(code, f"replay {replay.id}", message, now)
    return True
