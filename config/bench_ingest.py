"""`veen bench ingest`: from committed log to queryable lake, and the lag behind a steady load.

The ceiling is the same cryptography in memory on all cores: ct_hash, leaf, running root and, with
opening, the HPKE opening of each message [interfaces, Benchmarks].
"""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from config.bench_log import STREAM, BenchLog, authored, label_of, make_log, open_log
from config.celery import LAKE_TICK_S
from config.java import choose_java, launch_home
from hub import mmr
from hub.authoring import open_message
from hub.bench.cores import core_count, timed_on_all_cores
from hub.crypto.hpke import DhSecret
from hub.types import PublicKey
from hub.wire.msg import Msg
from hub.wire.profile import PRODUCT
from spark_jobs.chunk import StreamSecret
from spark_jobs.ingest import IngestPlan, ingest
from spark_jobs.session import SessionPlan, start_session, stop_session
from spark_jobs.sources import HubFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_EVENTS: Final = 100_000
FULL_EVENTS: Final = 1_000_000
LOAD_PER_S: Final = 500

Say = Callable[[str], None]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """All figures of one run; `say` hears what is being measured."""
    events = QUICK_EVENTS if quick else FULL_EVENTS
    with tempfile.TemporaryDirectory(prefix="vb-") as scratch:
        folder = Path(scratch)
        say(f"a log of {events} sealed events")
        log = make_log(folder / "hub", events)
        say("Spark")
        spark = _session(folder)
        try:
            figures = _figures(spark, folder, log, say)
            say("lag")
            figures |= _lag(spark, folder, 6 if quick else 20)
        finally:
            stop_session(spark)
    return {"name": "ingest", "quick": quick, "events": events, **figures}


def _session(folder: Path) -> SparkSession:
    java = choose_java(None, os.environ)
    return start_session(
        SessionPlan(java_home=launch_home(java, folder), scratch=folder, master="local[*]")
    )


def _figures(spark: SparkSession, folder: Path, log: BenchLog, say: Say) -> dict[str, Any]:
    sample = min(log.events, 20_000)
    _timed(spark, _plan(log, folder / "warm", opens=True), 4_000)
    say("ceilings")
    ceilings = {opens: [_ceiling_per_s(log, sample, opens=opens)] for opens in (False, True)}
    rates: dict[bool, float] = {}
    tenths: dict[bool, float] = {}
    for opens in (False, True):
        say(f"ingest {'with' if opens else 'without'} opening")
        if log.events > QUICK_EVENTS:
            plan = _plan(log, folder / f"tenth-{opens}", opens=opens)
            tenths[opens] = _timed(spark, plan, QUICK_EVENTS)
        rates[opens] = _timed(spark, _plan(log, folder / f"lake-{opens}", opens=opens), log.events)
        ceilings[opens].append(_ceiling_per_s(log, sample, opens=opens))
    ceiling, opening_ceiling = (sum(ceilings[opens]) / 2 for opens in (False, True))
    flatness = {
        name: round(tenths[opens] / rates[opens], 3)
        for name, opens in (("flatness", False), ("flatness_opening", True))
        if opens in tenths
    }
    return {
        "cores": core_count(),
        "events_per_s": round(rates[False]),
        "events_per_s_opening": round(rates[True]),
        "ceiling_per_s": round(ceiling),
        "ceiling_per_s_opening": round(opening_ceiling),
        "ingest_ratio": round(rates[False] / ceiling, 3),
        "opening_ratio": round(rates[True] / opening_ceiling, 3),
        **flatness,
    }


def _plan(log: BenchLog, lake: Path, *, opens: bool) -> IngestPlan:
    return IngestPlan(
        lake=lake,
        stream=STREAM,
        label=log.label,
        source=HubFiles(data_dir=log.data_dir),
        hub_pk=log.hub_pk,
        now_ms=time.time_ns() // 1_000_000,
        secrets=(StreamSecret(key_id=1, secret=log.secret),) if opens else (),
    )


def _timed(spark: SparkSession, plan: IngestPlan, count: int) -> float:
    """Events per second until the manifest names the last of them."""
    started = time.perf_counter()
    done = 0
    while done < count:
        result = ingest(spark, replace(plan, upto=count))
        done += result.events
        assert result.events
    took_s = time.perf_counter() - started
    assert result.manifest.upto_seq == count
    return count / took_s


def _ceiling_per_s(log: BenchLog, count: int, *, opens: bool) -> float:
    """The cryptography alone on objects in memory, on all cores."""
    share = count // core_count()
    return share * core_count() / timed_on_all_cores(_ceiling, log, share, opens)


def _ceiling(log: BenchLog, count: int, opens: bool) -> Callable[[], None]:
    source = HubFiles(data_dir=log.data_dir).open()
    decoded = [Msg.decode(msg) for block in source.blocks(log.label, 1, count) for _, msg in block]
    source.close()
    secrets = [DhSecret(log.secret)]

    def check() -> None:
        peaks: list[bytes] = []
        gc.disable()
        for size, msg in enumerate(decoded):
            msg.check_ct_hash()
            mmr.append(peaks, size, msg.leaf_hash())
            mmr.root(peaks)
            if opens:
                open_message(msg, profile=PRODUCT, secret=secrets)

    return check


def _lag(spark: SparkSession, folder: Path, seconds: int) -> dict[str, Any]:
    """The oldest event that is committed and not yet in the lake, under a steady load."""
    reader = DhSecret.generate()
    batches = list(authored(LOAD_PER_S * seconds, reader.public))
    core = open_log(folder / "live")
    committed: list[float] = []  # when each sequence became durable

    def load() -> None:
        started = time.perf_counter()
        pieces = [one for batch in batches for one in batch]
        step = LOAD_PER_S // 10
        for number, first in enumerate(range(0, len(pieces), step)):
            time.sleep(max(0.0, started + number * 0.1 - time.perf_counter()))
            core.submit(pieces[first : first + step])
            at = time.perf_counter()
            committed.extend([at] * step)

    plan = IngestPlan(
        lake=folder / "live-lake",
        stream=STREAM,
        label=label_of(STREAM),
        source=HubFiles(data_dir=folder / "live"),
        hub_pk=PublicKey(core.identity.key.public),
        now_ms=time.time_ns() // 1_000_000,
        secrets=(StreamSecret(key_id=1, secret=reader.secret),),
    )
    loader = threading.Thread(target=load)
    loader.start()
    held, worst = 0, 0.0
    while loader.is_alive() or held < len(committed):
        tick = time.perf_counter()
        manifest = ingest(spark, plan).manifest
        if manifest.upto_seq > held:
            worst = max(worst, time.perf_counter() - committed[held])
            held = manifest.upto_seq
        time.sleep(max(0.0, tick + LAKE_TICK_S - time.perf_counter()) if loader.is_alive() else 0)
    loader.join()
    core.close()
    return {"lag_s": round(worst, 2), "lag_load_per_s": LOAD_PER_S, "lag_events": held}
