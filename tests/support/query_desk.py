"""Queries answered without Spark, by the evaluator in plain Python, for tests of the edges."""

from __future__ import annotations

import struct
from datetime import timedelta
from pathlib import Path

from queryapi import events, services
from queryapi.contract.descriptor_reader import read_recorded
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.models import Execution
from queryapi.result_files import EVIDENCE, INDEX, ROWS, publish
from recorder.models import AuthoredEvent
from tests.support.web_bundle import WebBundle

LEASE = timedelta(seconds=60)
HOLDER = "desk"


def recorded(key: str, seq: int = 1) -> AuthoredEvent:
    """What the author does, without its log."""
    AuthoredEvent.objects.filter(pk=key).update(
        state=AuthoredEvent.State.RECORDED, hub_commit_seq=seq, receipt_id="rcpt-" + "ab" * 32
    )
    return AuthoredEvent.objects.get(pk=key)


def write_answer(folder: Path, bundle: WebBundle, execution: Execution) -> ResultDigest:
    """The files of an answer."""
    descriptor = read_recorded(execution.descriptor.encode())
    rows = [row for name in descriptor.scope for row in bundle.log.rows(bundle.streams[name])]
    found = evaluate(descriptor, rows)
    folder.mkdir(parents=True)
    (folder / ROWS).write_bytes(rows_bytes(found.rows))
    (folder / EVIDENCE).write_bytes(found.evidence)
    starts, at = [], 1
    for row in found.rows:
        starts.append(at)
        at += len(row) + 1
    (folder / INDEX).write_bytes(struct.pack(f"<{len(starts) + 1}Q", *starts, at))
    return ResultDigest(
        query_id=descriptor.query_id,
        result_id=descriptor.result_id,
        row_count=len(found.rows),
        evidence_policy=descriptor.evidence,
        rows_hash=found.rows_hash,
        evidence_hash=found.evidence_hash,
        executed_at="2026-03-01T09:00:00.000Z",
        hub_id=bundle.hub.hub_id.hex(),
        profile_id="00" * 32,
        unreadable_count=found.unreadable_count,
    )


def complete(bundle: WebBundle, result_id: str) -> Execution:
    """A query from PENDING to COMPLETED, by the services that the worker uses."""
    execution = Execution.objects.get(pk=result_id)
    results = bundle.root / "results"
    scratch = results / f".desk-{result_id}"
    digest = write_answer(scratch, bundle, execution)
    publish(scratch, results / result_id, digest)
    assert services.start(execution, HOLDER, LEASE)
    timings = services.Timings(ingest_ms=1, run_ms=2)
    assert services.keep_digest(execution, HOLDER, digest, 3, timings)
    recorded(events.submitted_key(result_id), 5)
    recorded(events.result_key(result_id), 7)
    assert services.complete(execution)
    return Execution.objects.get(pk=result_id)
