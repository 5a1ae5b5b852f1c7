"""`veen bench evidence`: an answer in mode full beside its checks alone [interfaces, Benchmarks].

A log of sealed, signed events goes through ingest; its segments are sealed and recorded, so that
mode full does all it ever does. The ceiling is the same cryptography on objects in memory, in plain
processes on all cores: both signatures, ct_hash, leaf and opening of every row, the fold of the
whole coverage, and the hashes of the sealed files.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.bench_duckdb import connect
from config.bench_log import STREAM, BenchLog, label_of, make_log, open_log
from config.bench_questions import PRINCIPAL
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from hub import canonical_json
from hub.authoring import author, open_message
from hub.bench.cores import core_count, timed_on_all_cores
from hub.canonical_json import Value
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.server.core import Submission
from hub.storage.disk import Disk
from hub.types import ClientSeq, HubId, MmrRoot
from hub.wire.msg import Msg
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.proof import node_hash
from hub.wire.receipt import Receipt
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from recorder import streams
from recorder.event import SCHEMA, RecorderEvent, UnixMillis
from recorder.lake.manifest import LakeManifest, Owed
from recorder.projection import project_fields
from spark_jobs.chunk import StreamPlace, StreamSecret
from spark_jobs.evidence_trust import Means
from spark_jobs.ingest import IngestPlan, ingest
from spark_jobs.query import run_query
from spark_jobs.query_job import QueryJob, QueryOutcome
from spark_jobs.session import QUERY_POOL
from spark_jobs.sources import HubFiles
from spark_jobs.tasks import JobControl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_EVENTS: Final = 100_000
FULL_EVENTS: Final = 1_000_000
ROWS: Final = {QUICK_EVENTS: 10_000, FULL_EVENTS: 100_000}
TYPES: Final = 10  # of the log's events, each as often as the others
ROUNDS: Final = 3

Say = Callable[[str], None]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    events = QUICK_EVENTS if quick else FULL_EVENTS
    with tempfile.TemporaryDirectory(prefix="vb-") as scratch:
        folder = Path(scratch)
        say(f"a log of {events} sealed events")
        log = make_log(folder / "hub", events)
        driver = SparkDriver(Settings(data_dir=folder), folder / "spark")
        try:
            with driver.working() as spark:
                say("its lake, with the record of every sealed file")
                ground = _make_ground(spark, folder, log)
                figures = _figures(spark, ground, ROWS[events], say)
        finally:
            driver.close()
    return {"name": "evidence", "quick": quick, "events": events, **figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchGround:
    """A log, its lake, and what verifies answers about it."""

    folder: Path
    log: BenchLog
    manifest: LakeManifest
    means: Means

    @property
    def lake(self) -> Path:
        """Where the segments lie."""
        return self.folder / "lake"

    def question(self, rows: int, mode: str) -> Descriptor:
        """So many rows, taken evenly from the whole log."""
        share = rows * TYPES // self.log.events
        types: list[Value] = [f"http.request.{number}" for number in range(share)]
        source: dict[str, Value] = {
            "scope": [STREAM],
            "projection": ["*"],
            "filter": {"event_type": types},
            "evidence": {"mode": mode},
        }
        assert self.manifest.upto_root is not None
        coverage = Coverage(
            stream=STREAM,
            label=self.log.label,
            hub_id=HubId(bytes.fromhex(self.manifest.hub_id)),
            from_seq=1,
            to_seq=self.log.events,
            mmr_root=MmrRoot(bytes.fromhex(self.manifest.upto_root)),
        )
        asked = read_submitted(canonical_json.encode(source), query_id=f"bench-{mode}")
        return asked.asked_by(PRINCIPAL, UnixMillis(0)).pin([coverage])

    def files(self, kind: str) -> list[str]:
        """The files of one kind of every segment."""
        folder = self.means.places[STREAM].folder
        return [str(folder.path(getattr(one, kind))) for one in self.manifest.segments]


def _make_ground(spark: SparkSession, folder: Path, log: BenchLog) -> BenchGround:
    place = _place(folder, log, STREAM)
    manifest = _ingested(spark, place, log)
    records = _place(folder, log, streams.LAKE)
    _record(log, manifest.owed)
    with place.folder.locked():
        manifest = place.folder.publish(manifest, replace(manifest, owed=()), now_ms=_now_ms())
    _ingested(spark, records, log)
    hub_id = HubId(bytes.fromhex(manifest.hub_id))
    means = Means(
        hub_pk=log.hub_pk,
        places={STREAM: replace(place, hub_id=hub_id)},
        records=replace(records, hub_id=hub_id),
    )
    return BenchGround(folder=folder, log=log, manifest=manifest, means=means)


def _place(folder: Path, log: BenchLog, stream: str) -> StreamPlace:
    return StreamPlace(
        lake=folder / "lake",
        stream=stream,
        label=label_of(stream),
        hub_id=HubId(b""),  # known once the log was read
        source=HubFiles(data_dir=log.data_dir),
        secrets=(StreamSecret(key_id=1, secret=log.secret),),
    )


def _ingested(spark: SparkSession, place: StreamPlace, log: BenchLog) -> LakeManifest:
    plan = IngestPlan(
        lake=place.lake,
        stream=place.stream,
        label=place.label,
        source=place.source,
        hub_pk=log.hub_pk,
        now_ms=_now_ms(),
        secrets=place.secrets,
    )
    while True:
        result = ingest(spark, plan)
        if result.manifest.upto_seq == result.head_seq:
            return result.manifest


def _record(log: BenchLog, owed: Sequence[Owed]) -> None:
    """What a lake owes to the log, committed as the recorder does it."""
    key, reader = SigningKey.generate(), DhSecret(log.secret)
    core = open_log(log.data_dir)
    try:
        made = []
        for number, one in enumerate(owed, 1):
            event = RecorderEvent(
                subject_id=STREAM,
                event_type=one.event_type,
                event_time=UnixMillis(_now_ms()),
                origin="recorder",
                payload=one.payload,
            )
            message = author(
                key=key,
                profile=PRODUCT,
                label=label_of(streams.LAKE),
                client_seq=ClientSeq(number),
                prev_ack=0,
                auth_ref=None,
                reader_pk=reader.public,
                header=PayloadHeader(schema=SCHEMA),
                body=event.encode(),
            )
            made.append(Submission(message.msg_bytes, message.leaf_hash))
        answers = core.submit(made)
        assert all(isinstance(answer, bytes) for answer in answers), answers
    finally:
        core.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _figures(spark: SparkSession, ground: BenchGround, rows: int, say: Say) -> dict[str, Any]:
    say("warm")
    _timed(spark, ground, ground.question(rows, "none"))
    say("ceiling")
    ceilings = [_ceiling_per_s(ground, rows)]
    took, found = [], []
    for number in range(ROUNDS):
        say(f"mode full, {number + 1} of {ROUNDS}")
        took_s, outcome = _timed(spark, ground, ground.question(rows, "full"))
        took.append(took_s)
        found.append(outcome)
        assert outcome == found[0], "the same question has one answer and one evidence"
        assert outcome.row_count == rows, outcome
    say("ceiling again")
    ceilings.append(_ceiling_per_s(ground, rows))
    full_s, ceiling = statistics.median(took), sum(ceilings) / len(ceilings)
    fetch_s = _fetch_s(ground, rows)
    plain_per_s = _ceiling_per_s(ground, rows, reads=True)
    return {
        "cores": core_count(),
        "rows": rows,
        "p50_ms": round(full_s * 1000),
        "rows_per_s": round(rows / full_s),
        "ceiling_per_s": round(ceiling),
        "evidence_ratio": round(rows / full_s / ceiling, 3),
        "duckdb_fetch_ms": round(fetch_s * 1000),
        "duckdb_checks_per_s": round(plain_per_s),
        # DuckDB has no checks: it fetches rows and proofs, plain processes read and check them.
        "vs_duckdb": round(full_s / (fetch_s + rows / plain_per_s), 3),
        "target": "evidence_ratio >= 0.7, vs_duckdb <= 1.1",
    }


def _timed(
    spark: SparkSession, ground: BenchGround, descriptor: Descriptor
) -> tuple[float, QueryOutcome]:
    """One execution as the worker does it, its files included."""
    with tempfile.TemporaryDirectory(dir=ground.folder) as scratch:
        folder = Path(scratch) / "result"
        Disk().mkdir(folder)
        job = QueryJob(descriptor=descriptor, lake=ground.lake, folder=folder, means=ground.means)
        control = JobControl(pool=QUERY_POOL, is_cancelled=lambda: False)
        started = time.perf_counter()
        outcome = run_query(spark, job, control)
        return time.perf_counter() - started, outcome


def _ceiling_per_s(ground: BenchGround, rows: int, *, reads: bool = False) -> float:
    """Verified rows per second, with their share of the fold and of the files.

    With `reads` every message is decoded and becomes a row too, as whoever starts from bytes must.
    """
    cores = core_count()
    files = [*ground.files("rows"), *ground.files("proofs")]
    sample = rows // 4  # the same work, a quarter of it
    share = sample // cores
    leaves = ground.log.events * share // rows
    pieces = [(path, Path(path).stat().st_size * share // rows) for path in files]
    took_s = timed_on_all_cores(_ceiling, ground.log, share, leaves, pieces, reads)
    return share * cores / took_s


def _ceiling(
    log: BenchLog, count: int, leaves: int, pieces: Sequence[tuple[str, int]], reads: bool
) -> Callable[[], None]:
    source = HubFiles(data_dir=log.data_dir).open()
    entries = [entry for block in source.blocks(log.label, 1, count) for entry in block]
    source.close()
    decoded = [(Receipt.decode(receipt), Msg.decode(msg)) for receipt, msg in entries]
    secrets = [DhSecret(log.secret)]
    nodes = [decoded[number % count][0].leaf_hash for number in range(leaves)]
    parts = []
    for path, size in pieces:
        with Path(path).open("rb") as file:
            parts.append(file.read(size))

    def check_row(receipt: Receipt, msg: Msg) -> None:
        receipt.verify(log.hub_pk)
        msg.verify()
        if not reads:
            msg.check_ct_hash()
            assert msg.leaf_hash() == receipt.leaf_hash
            open_message(msg, profile=PRODUCT, secret=secrets)

    def check() -> None:
        gc.disable()
        if reads:
            for receipt_bytes, msg_bytes in entries:
                check_row(Receipt.decode(receipt_bytes), Msg.decode(msg_bytes))
                project_fields(msg_bytes, receipt_bytes, secrets)
        else:
            for receipt, msg in decoded:
                check_row(receipt, msg)
        level: list[bytes] = list(nodes)
        while len(level) > 1:
            level = [node_hash(*pair) for pair in zip(level[::2], level[1::2], strict=False)]
        for part in parts:
            sha256(part).digest()

    return check


def _fetch_s(ground: BenchGround, rows: int) -> float:
    """DuckDB's part of the same answer: matching rows with their proofs."""
    share = rows * TYPES // ground.log.events
    types = ", ".join(f"'http.request.{number}'" for number in range(share))
    columns = {kind: ", ".join(f"'{one}'" for one in ground.files(kind))
               for kind in ("rows", "proofs")}  # fmt: skip
    sql = (
        f"SELECT r.*, p.msg, p.receipt FROM read_parquet([{columns['rows']}]) r "  # noqa: S608
        f"JOIN read_parquet([{columns['proofs']}]) p USING (hub_commit_seq) "
        f"WHERE r.event_type IN ({types}) ORDER BY hub_commit_seq"
    )
    connection = connect()
    connection.execute(f"SET threads = {core_count()}")
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        assert connection.sql(sql).to_arrow_table().num_rows == rows
        took.append(time.perf_counter() - started)
    connection.close()
    return statistics.median(took)
