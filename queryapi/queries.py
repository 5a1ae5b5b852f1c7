"""Reads of the query layer: states, answers, and what waits for the worker [Query 7.3-7.5]."""

from __future__ import annotations

import uuid
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import Q, QuerySet

from hub import canonical_json
from hub.canonical_json import Value
from queryapi import events, policy
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.contract.descriptor import is_result_id
from queryapi.contract.descriptor_reader import is_query_id, read_recorded
from queryapi.contract.digest import ResultDigest, compare
from queryapi.models import Execution, Replay, State
from queryapi.result_files import ResultFolder
from recorder.auth import ADMIN, Caller
from recorder.event import format_time
from recorder.models import AuthoredEvent

RETRY_AFTER_S: Final = 1
CONFLICT: Final = 409
_LIST_CHUNK: Final = 200
_KINDS: Final[tuple[type[Execution | Replay], ...]] = (Execution, Replay)


def find(caller: Caller, result_id: str) -> Execution:
    """An execution that this caller may see, or query_not_found."""
    return policy.visible(caller, by_result_id(Execution.objects.all(), result_id))


def by_result_id(rows: QuerySet[Execution], result_id: str) -> Execution | None:
    """The row of this id; what cannot be one, as a NUL in it, is not even looked for."""
    return rows.filter(pk=result_id).first() if is_result_id(result_id) else None


def find_query(caller: Caller, query_id: str) -> Execution:
    """The same by query_id."""
    found = Execution.objects.filter(query_id=query_id).first() if is_query_id(query_id) else None
    return policy.visible(caller, found)


def find_replay(caller: Caller, replay_id: uuid.UUID) -> Replay:
    """A replay of this caller, or query_not_found."""
    return policy.visible(caller, Replay.objects.filter(pk=replay_id).first())


def listed(caller: Caller, limit: int, *, after: str | None = None) -> list[Execution]:
    """What this caller may see, newest first, behind a query of theirs where one is named.

    A right that was withdrawn since takes the queries it was needed for out of the list.
    """
    rows = Execution.objects.order_by("-created_at", "-result_id")
    if caller.token.role != ADMIN:
        rows = rows.filter(principal_id=caller.token.principal_id)
    if after is not None:
        last = by_result_id(rows, after)
        if last is None:
            message = "after names no query of yours."
            raise QueryError(QueryCode.QUERY_NOT_FOUND, message)
        same = Q(created_at=last.created_at, result_id__lt=last.result_id)
        rows = rows.filter(Q(created_at__lt=last.created_at) | same)
    readable = set(caller.readable().values_list("name", flat=True))
    seen = (one for one in rows.iterator(_LIST_CHUNK) if readable.issuperset(policy.scope_of(one)))
    return list(islice(seen, limit))


def status_of(execution: Execution) -> dict[str, Value]:
    """The status object."""
    return {
        "query_id": execution.query_id,
        "result_id": execution.result_id,
        "status": execution.state,
        "error_code": execution.error_code or None,
        "message": execution.message or None,
        "progress": {
            "step": execution.step or None,
            "done": execution.tasks_done,
            "total": execution.tasks_total,
        },
        "submitted_at": _time(execution.created_at),
        "started_at": _time(execution.started_at),
        "finished_at": _time(execution.finished_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(int(moment.timestamp() * 1000))


def record_event_of(key: str, hub_id: str) -> dict[str, Value] | None:
    """Where an event of ours stands in the log; None until its RECEIPT is held."""
    row = AuthoredEvent.objects.filter(pk=key, state=AuthoredEvent.State.RECORDED).first()
    if row is None:
        return None
    return {
        "stream": row.stream,
        "seq": row.hub_commit_seq,
        "hub_id": hub_id,
        "receipt_id": row.receipt_id,
    }


def digest_of(execution: Execution) -> ResultDigest:
    """The digest of a completed query, or why there is none."""
    if execution.state == State.FAILED:
        # Whatever the code is elsewhere: here the query has ended, and there will be no result.
        raise QueryError(QueryCode(execution.error_code), execution.message, status=CONFLICT)
    if execution.state != State.COMPLETED:
        message = "The result is not ready yet."
        raise QueryError(QueryCode.RESULT_NOT_READY, message, retry_after_s=RETRY_AFTER_S)
    return ResultDigest.decode(canonical_json.parse(execution.digest))


def folder_of(execution: Execution) -> ResultFolder:
    """The files of a completed query, or query_not_found once they were removed."""
    if not has_rows(execution):
        message = "The rows are no longer kept; submit the query again or replay it."
        raise QueryError(QueryCode.QUERY_NOT_FOUND, message)
    return ResultFolder(results_dir() / execution.result_id)


def has_rows(execution: Execution) -> bool:
    """Whether the files of a completed query are still kept."""
    folder = ResultFolder(results_dir() / execution.result_id)
    return execution.rows_removed_at is None and folder.rows.exists()


def results_dir() -> Path:
    """Where results lie."""
    found: Path = settings.VEEN_RESULTS_DIR
    return found


def digest_event(execution: Execution, digest: ResultDigest) -> dict[str, Value] | None:
    """The event of the digest, which stands beside it."""
    return record_event_of(events.result_key(execution.result_id), digest.hub_id)


def descriptor_event(execution: Execution) -> dict[str, Value] | None:
    """The event of the descriptor."""
    descriptor = read_recorded(execution.descriptor.encode())
    assert descriptor.coverage is not None
    hub_id = descriptor.coverage[0].hub_id.hex()
    return record_event_of(events.submitted_key(execution.result_id), hub_id)


def replay_of(replay: Replay) -> dict[str, Value]:
    """The object of GET /api/query/replay/{replay_id}."""
    theirs = ResultDigest.decode(canonical_json.parse(replay.their_digest))
    found: dict[str, Value] = {
        "replay_id": str(replay.id),
        "status": replay.state,
        "error_code": replay.error_code or None,
        "message": replay.message or None,
        "local_digest": None,
        "comparison": [],
        "equal": None,
    }
    if replay.local_digest:
        ours = ResultDigest.decode(canonical_json.parse(replay.local_digest))
        compared = compare(theirs, ours)
        found["local_digest"] = ours.to_json()
        found["comparison"] = [one.to_json() for one in compared]
        found["equal"] = all(one.equal for one in compared)
    return found


# -- for the worker


def left_behind(now: datetime, most: int) -> list[Execution | Replay]:
    """Rows whose worker is gone, or whose digest waits for its RECEIPT, oldest first."""
    return [
        row
        for kind in _KINDS
        for row in kind.objects.filter(state=State.RUNNING, held_until__lt=now).order_by(
            "created_at"
        )[:most]
    ]


def waiting_principals() -> set[str]:
    """Whoever has queries or replays that nobody has taken."""
    return {
        who
        for kind in _KINDS
        for who in kind.objects.filter(state=State.PENDING)
        .order_by()
        .values_list("principal_id", flat=True)
        .distinct()
    }


def waiting_of(principal_id: str, most: int) -> list[Execution | Replay]:
    """What nobody has taken of a principal's, oldest first."""
    rows: list[Execution | Replay] = [
        row
        for kind in _KINDS
        for row in kind.objects.filter(principal_id=principal_id, state=State.PENDING).order_by(
            "created_at", "pk"
        )[:most]
    ]
    return sorted(rows, key=lambda row: row.created_at)[:most]


def running_of(principal_id: str) -> int:
    """How many queries and replays of a principal run."""
    mine = {"principal_id": principal_id, "state": State.RUNNING}
    return sum(kind.objects.filter(**mine).count() for kind in _KINDS)


def expired(before: datetime) -> QuerySet[Execution]:
    """Queries whose files go: kept long enough, or left by one that failed after writing them."""
    is_over = Q(state=State.COMPLETED, finished_at__lt=before) | Q(state=State.FAILED)
    return Execution.objects.filter(is_over, rows_removed_at__isnull=True)
