"""A full disk, a damaged lake, fifty questions at once: a clear code, and others go on."""

from __future__ import annotations

import contextlib
import json
import resource
from base64 import b64decode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from config.selftest.bundle import until
from config.selftest.query_ground import STREAMS
from hub import canonical_json
from hub.canonical_json import Value
from hub.client import Draft
from hub.types import Label
from hub.wire.payload import PayloadHeader
from hub.wire.readerkey import ReaderKeyRecord
from queryapi.client import Query
from queryapi.contract.codes import QueryCode
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.lake.folder import LakeFolder
from tests.support.query_scene import ANSWER_S, COUNT, Scene

LARGE = "record/app/large"
EVENTS = 220
EVENT_BYTES = 50_000
FILE_BYTES_MAX = 6_000_000  # less than the rows of a large answer, more than any other file
AT_ONCE = 50


def fill_large(scene: Scene) -> None:
    """A stream whose rows come to eleven megabytes."""
    scene.bundle.act("stream.create", name=LARGE, event_types=["large"], sensitivity="medium")

    def drafts(given: Mapping[str, Any]) -> list[Draft]:
        [entry] = given["streams"]
        key = ReaderKeyRecord.decode(b64decode(entry["reader_key"]))
        return [
            Draft(
                label=Label(bytes.fromhex(entry["label"])),
                reader_pk=key.reader_pk,
                header=PayloadHeader(schema=SCHEMA),
                body=RecorderEvent(
                    subject_id="s",
                    event_type="large",
                    event_time=UnixMillis(number),
                    origin="o",
                    payload=canonical_json.encode_text("x" * EVENT_BYTES),
                ).encode(),
            )
            for number in range(EVENTS)
        ]

    assert scene.bundle.send("large", LARGE, drafts) == EVENTS


@contextlib.contextmanager
def files_up_to(size: int, pids: list[int]) -> Iterator[None]:
    """No file of these processes may grow over a size: their writes fail as on a full disk."""
    for pid in pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def full_disk(scene: Scene) -> list[Query]:
    """The driver's file, and then a task's, finds no room; the next query has what it needs."""
    fill_large(scene)
    scene.await_worker()
    settled = _large(scene)
    settled.wait(ANSWER_S)
    tasks = scene.spark_python()
    assert tasks, "Spark has no Python processes"
    told = {}
    for kind, pids in (("driver", [scene.bundle.worker_pid()]), ("task", tasks)):
        with files_up_to(FILE_BYTES_MAX if kind == "driver" else FILE_BYTES_MAX // 3, pids):
            failed, other = _large(scene), scene.count()
            told[kind] = scene.fails(failed, QueryCode.EXECUTION_FAILED)
            scene.completes(other)
        assert not scene.folder(failed).exists()
    assert told["driver"] == "The result could not be written: File too large."
    assert told["task"] == "a task could not write: File too large"
    until(lambda: not scene.scratch(), "what was half written is gone", ANSWER_S)
    again = _large(scene)
    again.wait(ANSWER_S)
    assert again.digest().rows_hash == settled.digest().rows_hash
    return [settled, again]


def _large(scene: Scene) -> Query:
    return scene.ask(scope=[LARGE], evidence={"mode": "none"}, projection=["payload"])


def flipped_bit(scene: Scene) -> list[Query]:
    """One bit of the lake is wrong: the query about it fails and is told where, others go on."""
    label = scene.ground.coverage[STREAMS[0]].label
    folder = LakeFolder.of(scene.bundle.lake, label)
    manifest = folder.read()
    assert manifest is not None
    path = folder.path(manifest.segments[0].rows)
    content = bytearray(path.read_bytes())
    content[middle_of(path, "leaf_hash")] ^= 1
    path.write_bytes(content)
    failed, other = scene.ask(), scene.ask(scope=[STREAMS[1]])
    message = scene.fails(failed, QueryCode.EVIDENCE_FAILED)
    assert message.startswith(f"{STREAMS[0]} "), message
    scene.completes(other)
    found = scene.sql(
        "SELECT severity, detail FROM hub_finding WHERE code = ? AND object = ?",
        "evidence_failed", f"query {failed.result_id}",
    )  # fmt: skip
    assert found == [("critical", message)]
    return [other, refilled(scene, folder)]


def middle_of(path: Path, name: str) -> int:
    """A place inside the values of a column: a bit of a header may well mean nothing to anyone."""
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(at) for at in range(group.num_columns)]
    [found] = [one for one in columns if one.path_in_schema == name]
    return int(found.data_page_offset + found.total_compressed_size // 2)


def refilled(scene: Scene, folder: LakeFolder) -> Query:
    """What the runbook says: the lake is made from the log, so a spoiled folder may go."""
    scene.bundle.stop()
    folder.root.rename(scene.ground.folder / "spoiled")
    scene.bundle.start()
    healed = scene.ask()
    scene.completes(healed)
    return healed


def answered_at_once(scene: Scene) -> list[Query]:
    """Within the budget that a caller allows, submit itself brings the rows."""
    source: dict[str, Value] = {
        "scope": [STREAMS[1]], "aggregate": COUNT, "evidence": {"mode": "full"},
    }  # fmt: skip
    web = scene.client.web
    body = canonical_json.encode(source)
    found = json.loads(web.send("/api/query/submit", body, {"Prefer": "wait=30"}))
    ids = found["result_digest"]
    query = Query(client=scene.client, query_id=ids["query_id"], result_id=ids["result_id"])
    assert found["rows"] == list(query.rows())
    assert found["record_event"]["stream"] == "record/query/results"
    scene.completes(query)
    return [query]


def fifty_at_once(scene: Scene) -> list[Query]:
    """Two askers, all at the same moment, and one question asked ten times under one id."""
    clients = [scene.ground.client(), scene.ground.client(scene.bundle.admin_token)]
    source: dict[str, Value] = {
        "scope": [STREAMS[1]], "aggregate": COUNT, "evidence": {"mode": "none"},
    }  # fmt: skip

    def ask(number: int) -> Query:
        same: dict[str, Value] = {"query_id": "q-ten-times"} if number % 5 == 0 else {}
        return clients[0 if same else number % 2].query({**source, **same})

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(ask, range(AT_ONCE)))
    assert len({one.result_id for one in asked}) == AT_ONCE * 4 // 5 + 1
    for one in asked:
        scene.completes(one)
    return asked
