"""Evidence for an answer, spot or full, all of it as tasks on Spark [Query 6; architecture].

    (1) the coverage of each stream ends in a root that a pinned key vouches for
    (2) the leaves of the whole coverage fold to it                       spot and full
    (3) sealed files have the hashes of their newest records, and events of segments without one
        are all opened again                                              full
    (4) every event behind a sampled row is verified (evidence_events)

(1) to (3) come before the rows are read, (4) after they are known. What (3) leaves out is the
opening of events in sealed, recorded segments that did not match: that is an audit's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from queryapi.contract.codes import QueryCode, failed_at
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Descriptor, Mode
from recorder.lake.reader import LakeSnapshot
from spark_jobs.evidence_events import EventChecker, Witness
from spark_jobs.evidence_fold import Tile, find_break, fold_chunk, root_of
from spark_jobs.evidence_records import (
    FileCheck,
    SealRecord,
    coverage_of_records,
    file_checks,
    read_records,
)
from spark_jobs.evidence_trust import Ground, Means, check_ground
from spark_jobs.query_batch import batches
from spark_jobs.query_damage import checking, opened
from spark_jobs.query_plan import VERIFIED_ROWS, Chunk, cut, whole_chunks
from spark_jobs.query_tasks import Engine

FOLD_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTask:
    """One piece of what must hold before any row is read."""

    fold: Chunk | None = None
    check: FileCheck | None = None
    reopen: Chunk | None = None
    witness: Witness | None = None
    reads_records: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundAnswer:
    """What a piece gave."""

    tiles: tuple[Tile, ...] = ()
    records: tuple[SealRecord, ...] = ()


def prepare(
    engine: Engine, descriptor: Descriptor, means: Means, snapshots: Mapping[str, LakeSnapshot]
) -> dict[str, Ground]:
    """Steps (1) to (3); evidence_failed at the first place that does not hold."""
    assert descriptor.coverage is not None
    is_full = descriptor.evidence.mode is Mode.FULL
    ground = check_ground(means, descriptor.coverage)
    records = _records(engine, means) if is_full else ()
    tasks: list[GroundTask] = []
    for part in descriptor.coverage:
        if part.stream not in snapshots:
            continue
        snapshot = snapshots[part.stream]
        if is_full:
            witness = ground[part.stream].witness
            tasks += _file_tasks(part, snapshot, records, witness)
        for chunk in whole_chunks(part, snapshot):
            tasks += [GroundTask(fold=piece) for piece in cut(chunk, FOLD_ROWS)]
    _run(engine, "evidence: ground", tasks, descriptor.coverage, ground)
    return ground


def _file_tasks(
    part: Coverage, snapshot: LakeSnapshot, records: Sequence[SealRecord], witness: Witness
) -> Iterator[GroundTask]:
    for segment in snapshot.manifest.find(part.from_seq, part.to_seq):
        checks = file_checks(records, part, snapshot, segment)
        if checks is not None:
            yield from (GroundTask(check=one) for one in checks)
            continue
        held = replace(
            part,
            from_seq=max(part.from_seq, segment.from_seq),
            to_seq=min(part.to_seq, segment.to_seq),
        )
        for chunk in whole_chunks(held, snapshot):
            for piece in cut(chunk, VERIFIED_ROWS):
                yield GroundTask(reopen=piece, witness=witness)


def _run(
    engine: Engine,
    name: str,
    tasks: Sequence[GroundTask],
    coverage: Sequence[Coverage],
    ground: Mapping[str, Ground],
) -> list[GroundAnswer]:
    answers = engine.run(name, _ground_task, tasks)
    for part in coverage:
        if part.stream not in ground:
            continue
        folds = [
            (task.fold, answer.tiles)
            for task, answer in zip(tasks, answers, strict=True)
            if task.fold is not None and task.fold.stream == part.stream
        ]
        before = ground[part.stream].before
        if root_of(before, [tiles for _, tiles in folds]) != part.mmr_root:
            if not folds:  # All of it was pruned.
                reason = "the peaks of what was pruned do not lead to the root of the coverage"
                raise failed_at(QueryCode.EVIDENCE_FAILED, part.stream, part.to_seq, reason)
            raise find_break([chunk for chunk, _ in folds], before)
    return answers


def _ground_task(_number: int, task: GroundTask) -> GroundAnswer:
    """A task: one piece of the ground."""
    if task.check is not None:
        task.check.run()
        return GroundAnswer()
    chunk = task.fold or task.reopen
    assert chunk is not None
    with checking(chunk):
        if task.fold is not None:
            return GroundAnswer(tiles=tuple(fold_chunk(chunk)))
        assert task.witness is not None
        checker = EventChecker(task.witness, chunk)
        for batch in batches(chunk):
            checker.verify(batch, is_signed=task.reads_records)
        return GroundAnswer(records=tuple(read_records(chunk)) if task.reads_records else ())


def _records(engine: Engine, means: Means) -> tuple[SealRecord, ...]:
    """Every record of a sealed file, verified like any other event."""
    place = means.records
    snapshot = None if place is None else opened(place.lake, place.label)
    coverage = None if snapshot is None else coverage_of_records(snapshot)
    if place is None or snapshot is None or coverage is None:
        return ()
    held = replace(means, places={coverage.stream: place})
    ground = check_ground(held, [coverage])
    witness = ground[coverage.stream].witness
    chunks = [
        piece for chunk in whole_chunks(coverage, snapshot) for piece in cut(chunk, VERIFIED_ROWS)
    ]
    tasks = [GroundTask(reopen=one, witness=witness, reads_records=True) for one in chunks]
    tasks += [GroundTask(fold=one) for one in chunks]
    answers = _run(engine, "evidence: records", tasks, [coverage], ground)
    return tuple(record for answer in answers for record in answer.records)
