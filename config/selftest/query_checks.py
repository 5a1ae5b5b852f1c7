"""The Query API of a running bundle, as an investigator, a cheat, an accident meet it [Query 7]."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Final

from config.selftest.bundle import FrozenSpark, until
from config.selftest.forged_lake import change_payload, manifest_of, put_back
from config.selftest.query_ground import STREAMS, Ground, questions
from hub import canonical_json
from hub.canonical_json import Value
from hub.selftest.checks import Checks, NotHeldError, require
from queryapi.client import Query
from queryapi.contract.codes import QueryCode, QueryError
from queryapi.verify import verify_saved
from recorder.lake.folder import LakeFolder

ANSWER_S: Final = 120.0
MODES: Final[dict[str, Value]] = {
    "none": {"mode": "none"},
    "spot": {"mode": "spot", "sample_rate": 1},
    "full": {"mode": "full"},
}


def check_modes(checks: Checks, ground: Ground) -> None:
    """Every kind of question in every mode: digest, evidence, offline verification."""
    client = ground.client()
    for kind, source in questions().items():
        asked = {mode: client.query(source, evidence=policy) for mode, policy in MODES.items()}
        for mode, query in asked.items():
            checks.hold(f"{kind}, {mode}: as in plain Python", partial(_answer, ground, query))
        checks.hold(
            f"{kind}, full: verifies offline, from the events up",
            partial(_offline, ground, asked["full"]),
        )
    checks.hold("the same question again: the first answer", lambda: _again(ground))


def _answer(ground: Ground, query: Query) -> None:
    query.wait(ANSWER_S)
    ground.check(query.descriptor()["descriptor"], query.digest())


def _offline(ground: Ground, query: Query) -> None:
    folder = ground.folder / query.result_id
    query.save(folder)
    report = verify_saved(folder, events=ground.events, hub_pk=ground.bundle.hub_pk)
    flaws = [check.name for check in report.checks if not check.ok]
    require(report.is_valid(), f"not valid: {flaws}")
    found = ground.client().replay(
        canonical_json.parse((folder / "descriptor.json").read_bytes()),
        canonical_json.parse((folder / "digest.json").read_bytes()),
    ).wait(ANSWER_S)  # fmt: skip
    require(found["equal"] is True, f"its replay differs: {found['comparison']}")


def _again(ground: Ground) -> None:
    source = {**questions()["count"], "query_id": f"q-again-{ground.rng.getrandbits(64):x}"}
    first = ground.client().query(source)
    again = ground.client().query(source)
    require(first.result_id == again.result_id, "another answer to the same query_id")
    try:
        ground.client().query(source, evidence={"mode": "full"})
    except QueryError as refusal:
        require(refusal.error_code is QueryCode.DUPLICATE_QUERY_ID, str(refusal))
        return
    raise NotHeldError("one query_id stands for two questions")


def check_paging(checks: Checks, ground: Ground) -> None:
    """Pages are slices of the one hashed whole."""
    query = ground.client().query(questions()["selection"])
    checks.need("a selection completes", lambda: query.wait(ANSWER_S))
    digest = query.digest()
    whole = ground.client().web.read(f"/api/query/result/{query.result_id}/rows.json")
    checks.hold(
        "rows.json: the bytes that rows_hash covers",
        lambda: require(sha256(whole).hexdigest() == digest.rows_hash, "another hash"),
    )
    rows = canonical_json.parse(whole, depth_max=72, is_bounded=False)
    for limit in (7, 100, 10_000):
        checks.hold(f"pages of {limit}: the same rows in the same order",
                    partial(_same_pages, query, limit, rows))  # fmt: skip

    def beyond() -> None:
        found = query.page(digest.row_count + 5, 10)
        require((found["rows"], found["page"]["has_more"]) == ([], False), "not empty")

    checks.hold("a page behind the end: empty", beyond)
    checks.hold("a stranger: no such query", lambda: _refused(
        lambda: ground.client(ground.stranger).result(query.result_id),
        QueryCode.QUERY_NOT_FOUND))  # fmt: skip
    checks.hold("a stranger's own question: no such stream", lambda: _refused(
        lambda: ground.client(ground.stranger).query(questions()["selection"]),
        QueryCode.FORBIDDEN_SCOPE))  # fmt: skip


def _same_pages(query: Query, limit: int, rows: Value) -> None:
    require(_paged(query, limit) == rows, "other rows")


def _paged(query: Query, limit: int) -> list[Value]:
    found: list[Value] = []
    while True:
        page = query.page(len(found), limit)
        found += page["rows"]
        if not page["page"]["has_more"]:
            return found


def _refused(act: Callable[[], object], code: QueryCode) -> None:
    try:
        act()
    except QueryError as refusal:
        require(refusal.error_code is code, f"{refusal.error_code} instead of {code}")
        return
    raise NotHeldError(f"was answered; it must be refused with {code}")


def _running(query: Query) -> None:
    until(lambda: query.status()["status"] == "running", "the query runs", ANSWER_S)


def check_cancel(checks: Checks, ground: Ground) -> None:
    """A running query is cancelled, for good, and others go on."""
    with FrozenSpark(ground.bundle):
        query = ground.client().query(questions()["selection"], evidence={"mode": "full"})
        other = ground.client().query(questions()["count"])
        checks.need("a query runs", lambda: _running(query))
        told = checks.need("cancel is answered at once", query.cancel)
        checks.hold("it is failed, with the code cancelled", lambda: require(
            (told["status"], told["error_code"]) == ("failed", "cancelled"), str(told)
        ))  # fmt: skip
    checks.hold("its result: cancelled", lambda: _refused(
        lambda: query.page(0, 1), QueryCode.CANCELLED))  # fmt: skip
    checks.hold("another query goes on", lambda: _answer(ground, other))
    checks.hold("it stays cancelled", lambda: require(
        query.status()["error_code"] == "cancelled", "it changed"))  # fmt: skip


def check_restart(checks: Checks, ground: Ground, *, whole: bool) -> None:
    """A worker killed in mid-query, and the whole bundle stopped: nothing lost, nothing twice."""
    queries: list[Query] = []

    def ask() -> Query:
        queries.append(ground.client().query(questions()["aggregate"], evidence={"mode": "full"}))
        _running(queries[-1])
        return queries[-1]

    with FrozenSpark(ground.bundle):
        killed = checks.need("a query runs", ask)
        before = ground.bundle.worker_pid()
        checks.need("kill -9 of worker and JVM", ground.bundle.kill_worker)
    checks.hold("the worker is started again", lambda: until(
        lambda: ground.bundle.worker_pid() not in (0, before), "another worker", ANSWER_S
    ))  # fmt: skip
    checks.hold("the query completes, as in plain Python", lambda: _answer(ground, killed))
    if whole:
        with FrozenSpark(ground.bundle):
            stopped = checks.need("another query runs", ask)
            time.sleep(0.5)
            ground.bundle.kill_worker()
            checks.need("the whole bundle stops", ground.bundle.stop)
        checks.need("and starts again", ground.bundle.start)
        checks.hold("that query completes too", lambda: _answer(ground, stopped))
    checks.hold("each is recorded once: descriptor, digest, execution",
                lambda: _recorded_once(ground, queries))  # fmt: skip


def _recorded_once(ground: Ground, queries: list[Query]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    names = [f"record/query/{name}" for name in ("requests", "results", "audit/executions")]
    for event in ground.replayed(names):
        payload: Any = event.payload  # always an object there
        seen[event.event_type, payload.get("query_id", "")] += 1
    for query in queries:
        for event_type in ("query.submitted", "query.result", "query.executed"):
            count = seen[event_type, query.query_id]
            require(count == 1, f"{event_type} of {query.query_id}: {count} times")


def check_tampered(checks: Checks, ground: Ground) -> None:
    """A row changed by someone who can write the lake, manifest included."""
    stream = STREAMS[0]
    folder = LakeFolder.of(ground.bundle.lake, ground.coverage[stream].label)
    honest = checks.need("the lake is there", lambda: manifest_of(folder))
    seq = checks.need("a payload is changed in it", lambda: change_payload(folder, honest))
    try:
        for kind in ("selection", "count"):
            checks.hold(f"{kind}, full: evidence_failed, naming stream and sequence",
                        partial(_caught, ground, kind, stream, seq))  # fmt: skip
    finally:
        put_back(folder, honest)
    query = ground.client().query(questions()["selection"], evidence={"mode": "full"})
    checks.hold("the row put back: verified again", lambda: _answer(ground, query))


def _caught(ground: Ground, kind: str, stream: str, seq: int) -> None:
    query = ground.client().query(questions()[kind], evidence={"mode": "full"})
    try:
        query.wait(ANSWER_S)
    except QueryError as failure:
        require(failure.error_code is QueryCode.EVIDENCE_FAILED, f"failed with {failure}")
        told = failure.message
        require(stream in told and str(seq) in told, f"{stream} {seq} is not named: {told}")
        return
    raise NotHeldError("it was answered")
