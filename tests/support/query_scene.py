"""A running bundle whose queries can be held at any state, and whose processes can be ended."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from config.selftest.bundle import TemporaryBundle, java_of, until
from config.selftest.query_ground import STREAMS, Ground
from config.up_state import read_json
from hub.canonical_json import Value
from hub.errors import VeenError
from queryapi.client import Client, Query
from queryapi.contract.codes import QueryCode, QueryError

ANSWER_S = 180.0
BROKERS = {"redis-server", "valkey-server"}
COUNT: dict[str, Value] = {"group_by": [], "metrics": ["count"]}


class Scene:
    """One bundle with events of two streams, kept for every step."""

    def __init__(self, folder: Path) -> None:
        self.bundle = TemporaryBundle(
            folder,
            VEEN_SPARK_MASTER="local[2]",
            VEEN_QUERY_SYNC_MS="0",
            VEEN_QUERY_RUNNING_MAX="20",
        )
        self.ground = Ground(bundle=self.bundle, folder=folder, rng=random.Random(11))

    def start(self) -> None:
        self.bundle.start()
        self.ground.create()
        for name in STREAMS[:2]:
            self.ground.record(name, 60)
        self.ground.read()

    # -- asking

    @property
    def client(self) -> Client:
        return self.ground.client()

    def ask(self, **parts: Value) -> Query:
        """A selection with full evidence, unless it is told otherwise."""
        source: dict[str, Value] = {
            "scope": [STREAMS[0]], "evidence": {"mode": "full"}, "projection": ["*"],
        }  # fmt: skip
        return self.client.query(source | parts)

    def count(self, stream: str = STREAMS[1], **parts: Value) -> Query:
        return self.client.query(
            {"scope": [stream], "aggregate": COUNT, "evidence": {"mode": "none"}, **parts}
        )

    def completes(self, query: Query) -> None:
        """The answer, as plain Python computes it."""
        query.wait(ANSWER_S)
        self.ground.check(query.descriptor()["descriptor"], query.digest())

    def fails(self, query: Query, code: QueryCode) -> str:
        """How it is told."""
        with pytest.raises(QueryError) as failure:
            query.wait(ANSWER_S)
        assert failure.value.error_code is code, failure.value
        return failure.value.message

    def recorded_once(self, *queries: Query) -> None:
        """In the log itself: one descriptor, one digest, one line of the execution each."""
        seen: Counter[tuple[str, str]] = Counter()
        names = [f"record/query/{name}" for name in ("requests", "results", "audit/executions")]
        for event in self.ground.replayed(names):
            payload: Any = event.payload
            seen[event.event_type, payload.get("query_id", "")] += 1
        for query in queries:
            for kind in ("query.submitted", "query.result", "query.executed"):
                assert seen[kind, query.query_id] == 1, (kind, query.query_id, seen)

    def reaches(self, query: Query, status: str) -> None:
        until(lambda: query.status()["status"] == status, f"{query.query_id} is {status}", ANSWER_S)

    def folder(self, query: Query) -> Path:
        return self.bundle.state.root / "results" / query.result_id

    def scratch(self) -> list[Path]:
        """Folders of runs that go on, or that were left."""
        return list((self.bundle.state.root / "results").glob(".run-*"))

    # -- its database

    def sql(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.bundle.state.database, timeout=30)) as link:
            found = link.execute(text, values).fetchall()
            link.commit()
            return found

    @contextlib.contextmanager
    def refusing(self, name: str, column: str, condition: str) -> Iterator[None]:
        """The database refuses an update of executions: whoever tries stays where he is."""
        self.sql(
            f"CREATE TRIGGER {name} BEFORE UPDATE OF {column} ON queryapi_execution "
            f"WHEN {condition} BEGIN SELECT RAISE(ABORT, 'held by a test'); END"
        )
        try:
            yield
        finally:
            self.sql(f"DROP TRIGGER {name}")

    def row(self, query: Query) -> dict[str, Any]:
        names = ("state", "digest", "attempts")
        [found] = self.sql(
            f"SELECT {', '.join(names)} FROM queryapi_execution WHERE result_id = ?",  # noqa: S608
            query.result_id,
        )
        return dict(zip(names, found, strict=True))

    def is_recorded(self, key: str) -> bool:
        text = "SELECT state FROM recorder_authoredevent WHERE key = ?"
        return self.sql(text, key) == [("recorded",)]

    # -- its processes

    def pid(self, name: str) -> int:
        rows = (read_json(self.bundle.state.status) or {}).get("processes", [])
        return next(int(one["pid"]) for one in rows if one["name"] == name)

    def java(self) -> int:
        """The JVM of the worker; 0 while there is none."""
        try:
            return java_of(self.bundle.worker_pid())
        except VeenError:
            return 0

    def broker(self) -> int:
        """The private broker, a child of the worker; 0 while there is none."""
        found = children_of(self.bundle.worker_pid())
        return next((pid for pid, name in found.items() if name in BROKERS), 0)

    def spark_python(self) -> list[int]:
        """The processes in which Python tasks run, and the one that makes them."""
        makers = list(children_of(self.java()))
        return [*makers, *[pid for maker in makers for pid in children_of(maker)]]

    def is_working(self) -> bool:
        """Whether a worker with its JVM and its broker is there."""
        return bool(self.bundle.worker_pid() and self.java() and self.broker())

    def await_worker(self) -> None:
        until(self.is_working, "worker, JVM and broker are there", ANSWER_S)

    def kill_broker(self) -> None:
        old = self.broker()
        os.kill(old, signal.SIGKILL)
        until(lambda: self.broker() not in (0, old), "another broker", ANSWER_S)

    def kill_java(self) -> None:
        os.kill(self.java(), signal.SIGKILL)

    def kill_worker(self) -> None:
        old = self.bundle.worker_pid()
        os.kill(old, signal.SIGKILL)
        until(lambda: self.bundle.worker_pid() not in (0, old), "another worker", ANSWER_S)


def children_of(parent: int) -> Mapping[int, str]:
    """Names of the processes that a process started, by their ids."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # It may just have ended.
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[1]) == parent:
                found[int(entry.name)] = name
    return found


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process that gets no time, until the block ends or it is killed."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
