"""Which rows a worker takes, which it may end, and which files it removes [Query 8.1]."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from config.lake_work import LakeWork
from config.query_run import QueryRun, written_or_failed
from config.query_work import ATTEMPTS_MAX, RUNNERS, QueryWork
from config.settings_file import Settings
from config.spark_driver import SparkDriver, StoppingError
from hub.errors import ErrorCode, VeenError
from queryapi import services
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.models import Execution, Replay, State
from recorder.models import AuthoredEvent
from tests.queryapi.api.conftest import (
    Call,
    Callers,
    asked,
    bundle,
    call,
    callers,
    name,
    read_token,
    shared_hub,
    web,
)
from tests.queryapi.api.test_submit import question
from tests.support import query_desk
from tests.support.web_bundle import WebBundle

__all__ = ["asked", "bundle", "call", "callers", "name", "read_token", "shared_hub", "web"]
pytestmark = pytest.mark.django_db
LEASE = timedelta(seconds=60)


@pytest.fixture
def work(tmp_path: Path) -> QueryWork:
    """A worker's queries; nothing of Spark is needed to choose among them."""
    settings = Settings(data_dir=tmp_path, query_running_max=2)
    return QueryWork(settings, SparkDriver(settings, tmp_path), cast("LakeWork", None))


def take(call: Call, who: str, name: str, count: int) -> list[Execution]:
    ids = [call(who, "POST", "submit", question(name)).json()["result_id"] for _ in range(count)]
    return [Execution.objects.get(pk=one) for one in ids]


def test_no_principal_takes_all_runners_however_often_a_worker_looks(
    call: Call, callers: Callers, name: str, work: QueryWork
) -> None:
    """Queries that were taken and do not run yet count like those that run."""
    first = take(call, callers.alice, name, RUNNERS + 2)
    [other] = take(call, callers.bob, name, 1)
    due = [key for key, _ in work._due()]
    assert due == [first[0].pk, first[1].pk, other.pk]
    work._active.update(due)
    assert work._due() == []
    assert services.start(first[0], "worker", LEASE)
    assert work._due() == []
    work._active.discard(first[1].pk)
    services.cancel(first[1])
    assert [key for key, _ in work._due()] == [first[2].pk]


def test_a_worker_that_lost_a_query_cannot_end_it_for_its_successor(
    call: Call, callers: Callers, name: str
) -> None:
    [execution] = take(call, callers.alice, name, 1)
    assert services.start(execution, "slow", timedelta(seconds=-1))
    assert services.take_over(Execution, execution.pk, "successor", LEASE)
    late = (QueryCode.LAKE_BEHIND, "too late")
    assert not services.fail(execution, *late, holder="slow")
    assert Execution.objects.get(pk=execution.pk).state == State.RUNNING
    assert not AuthoredEvent.objects.filter(event_type="query.executed").exists()
    assert services.fail(execution, *late, holder="successor")
    assert Execution.objects.get(pk=execution.pk).error_code == "lake_behind"


def test_a_worker_that_lost_a_replay_cannot_end_it_either(
    call: Call, callers: Callers, asked: WebBundle, name: str
) -> None:
    [execution] = take(call, callers.alice, name, 1)
    done = query_desk.complete(asked, execution.pk)
    body = f'{{"descriptor":{done.descriptor},"result_digest":{done.digest}}}'.encode()
    taken = call(callers.alice, "POST", "replay", body).json()
    replay = Replay.objects.get(pk=taken["replay_id"])
    assert services.start_replay(replay, "slow", timedelta(seconds=-1))
    assert services.take_over(Replay, replay.pk, "successor", LEASE)
    assert not services.fail_replay(replay, QueryCode.CANCELLED, "", holder="slow")
    assert services.fail_replay(replay, QueryCode.CANCELLED, "", holder="successor")


def test_a_query_that_takes_too_long_fails_and_says_so(
    call: Call, callers: Callers, name: str, work: QueryWork
) -> None:
    [execution] = take(call, callers.alice, name, 1)
    assert services.start(execution, work._holder, LEASE)
    run = QueryRun(Execution, execution.pk, work._holder, LEASE)
    assert not run.must_stop()
    run.limit(0)
    assert run.must_stop()
    assert run.left_s == 0
    work._end(execution, run, QueryError(QueryCode.CANCELLED, "the query was cancelled"))
    found = Execution.objects.get(pk=execution.pk)
    assert (found.state, found.error_code) == (State.FAILED, "execution_failed")
    assert found.message == "The query took longer than 600 seconds."


def test_what_may_pass_is_tried_again_and_then_given_up(
    call: Call, callers: Callers, name: str, work: QueryWork
) -> None:
    """A JVM that dies is E.BUSY: the query is let go at once, for the next look, nine times."""
    [execution] = take(call, callers.alice, name, 1)
    assert services.start(execution, work._holder, LEASE)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        execution.refresh_from_db()
        assert (execution.state, execution.attempts) == (State.RUNNING, attempt)
        work._refused(execution, VeenError(ErrorCode.BUSY, "the JVM of Spark ended"))
        services.take_over(Execution, execution.pk, work._holder, LEASE)
    found = Execution.objects.get(pk=execution.pk)
    assert (found.state, found.error_code) == (State.FAILED, "execution_failed")


def test_a_worker_that_is_asked_to_stop_is_no_fault_of_its_queries(
    call: Call, callers: Callers, name: str, work: QueryWork
) -> None:
    [execution] = take(call, callers.alice, name, 1)
    assert services.start(execution, work._holder, LEASE)
    for _ in range(2 * ATTEMPTS_MAX):
        execution.refresh_from_db()
        work._refused(execution, StoppingError())
        assert services.take_over(Execution, execution.pk, work._holder, LEASE)
    execution.refresh_from_db()
    assert (execution.state, execution.attempts) == (State.RUNNING, 1)


def test_a_worker_that_stops_begins_nothing(
    call: Call, callers: Callers, name: str, work: QueryWork
) -> None:
    take(call, callers.alice, name, 1)
    work._driver.cancel_jobs()
    assert work.look() == 0
    assert not work._active


def test_queries_and_replays_count_together_and_old_ones_of_one_principal_starve_nobody(
    call: Call, callers: Callers, asked: WebBundle, name: str, work: QueryWork
) -> None:
    [execution] = take(call, callers.alice, name, 1)
    done = query_desk.complete(asked, execution.pk)
    body = f'{{"descriptor":{done.descriptor},"result_digest":{done.digest}}}'.encode()
    replays = [
        Replay.objects.get(pk=call(callers.alice, "POST", "replay", body).json()["replay_id"])
        for _ in range(3)
    ]
    mine = take(call, callers.alice, name, 20)
    [other] = take(call, callers.bob, name, 1)
    assert [key for key, _ in work._due()] == [str(replays[0].pk), str(replays[1].pk), other.pk]
    assert services.start_replay(replays[0], "worker", LEASE)
    assert services.start_replay(replays[1], "worker", LEASE)
    assert [key for key, _ in work._due()] == [other.pk], "two run, and no third of hers"
    for one in replays[:2]:
        Replay.objects.filter(pk=one.pk).update(state=State.FAILED)
    work._active.add(str(replays[2].pk))
    assert [key for key, _ in work._due()] == [mine[0].pk, other.pk]


def test_files_go_with_their_time_and_with_a_query_that_failed_after_writing_them(
    call: Call, callers: Callers, asked: WebBundle, name: str, work: QueryWork
) -> None:
    kept, old, cancelled, writing = take(call, callers.alice, name, 4)
    for one in (kept, old):
        query_desk.complete(asked, one.pk)
    past = timezone.now() - timedelta(days=31)
    Execution.objects.filter(pk=old.pk).update(finished_at=past)
    results: Path = django_settings.VEEN_RESULTS_DIR
    for one in (cancelled, writing):
        services.cancel(one)
        (results / one.pk).mkdir()
    work._active.add(writing.pk)
    work._clean()
    assert {folder.name for folder in results.iterdir()} == {kept.pk, writing.pk}
    work._active.discard(writing.pk)
    work._clean()
    assert {folder.name for folder in results.iterdir()} == {kept.pk}
    assert call(callers.alice, "GET", f"result/{old.pk}").json()["error_code"] == "query_not_found"
    assert call(callers.alice, "GET", f"status/{old.pk}").json()["status"] == "completed"


def test_a_disk_that_refuses_is_told_as_such_and_a_busy_one_is_not() -> None:
    with pytest.raises(QueryError, match="No space left") as failure, written_or_failed():
        raise OSError(28, "No space left on device")
    assert failure.value.error_code is QueryCode.EXECUTION_FAILED
    with pytest.raises(VeenError) as busy, written_or_failed():
        raise VeenError(ErrorCode.BUSY)
    assert busy.value.code is ErrorCode.BUSY
