"""Groups answered from what ingest wrote about whole segments, without scanning [spark].

A groups file counts a segment by one or two common fields, with the ends of its times. It answers
when a question filters and groups by those fields alone and asks for nothing but counts and ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queryapi.contract.descriptor import Aggregate, Descriptor, Filter, Function, Mode
from recorder.lake.columns import GROUP_FIELDS, GROUPS
from spark_jobs.query_damage import UNREAD, broken
from spark_jobs.query_groups import EVENTS, Partial, key_names, key_of
from spark_jobs.query_held import HeldTables
from spark_jobs.query_plan import Chunk

_MEASURED: Final = ("hub_commit_seq", "hub_commit_time", "event_time")
_LARGE_ROWS: Final = 4_096  # fewer are read before another thread has started
_GROUPING: Final = GROUPS.get_field_index("grouping")
_READ: Final = HeldTables(32 * 1024 * 1024)


def grouping_of(descriptor: Descriptor) -> str | None:
    """The grouping that answers it, `` for none at all; None when only the events can."""
    aggregate, asked = descriptor.aggregate, descriptor.filter
    if aggregate is None or descriptor.evidence.mode is not Mode.NONE or asked.payload:
        return None
    for metric in aggregate.metrics:
        is_end = metric.function in {Function.MIN, Function.MAX}
        is_known = metric.field is not None and metric.field.name in _MEASURED
        if metric.function is not Function.COUNT and not (is_end and is_known):
            return None
    needed = {field.name for field in aggregate.group_by} | set(_filtered(asked))
    if not needed <= {*GROUP_FIELDS, "stream"}:
        return None
    return ",".join(name for name in GROUP_FIELDS if name in needed)


def _filtered(asked: Filter) -> dict[str, tuple[str, ...]]:
    """Fields that must have one of some values."""
    found = {
        "event_type": asked.event_type,
        "origin": None if asked.origin is None else (asked.origin,),
        "principal_id": None if asked.principal_id is None else (asked.principal_id,),
        "subject_id": None if asked.subject_id is None else (asked.subject_id,),
    }
    return {name: values for name, values in found.items() if values is not None}


def answers(chunk: Chunk, grouping: str | None) -> bool:
    """Whether the chunk's summary has what is asked."""
    if grouping is None or not chunk.is_whole:
        return False
    return not grouping or (chunk.groups_file is not None and grouping in chunk.groupings)


def is_told(descriptor: Descriptor, chunks: Sequence[Chunk]) -> bool:
    """Whether summaries are all that a question needs."""
    grouping = grouping_of(descriptor)
    return grouping is not None and all(answers(chunk, grouping) for chunk in chunks)


def summarized(
    descriptor: Descriptor, chunks: Sequence[Chunk], grouping: str, cores: int
) -> Partial:
    """The partial groups of whole segments."""
    aggregate = descriptor.aggregate
    assert aggregate is not None
    wanted = _filtered(descriptor.filter)
    fields = {field.name for field in aggregate.group_by} | set(wanted)
    keys = [name for name in GROUP_FIELDS if name in fields]
    names = (*keys, EVENTS, *_ends(aggregate))
    tables = _tables(chunks, grouping, names, cores) if grouping else [_wholes(chunks, names)]
    found = pa.concat_tables(tables)
    if "stream" in fields:
        counts = [table.num_rows for table in tables] if grouping else [1] * len(chunks)
        found = found.append_column("stream", _streams(chunks, counts))
    for name, values in wanted.items():
        found = found.filter(pc.is_in(found[name], value_set=pa.array(values, pa.string())))
    return Partial(groups=_partial(aggregate, found.combine_chunks()), distinct={})


def _tables(
    chunks: Sequence[Chunk], grouping: str, names: tuple[str, ...], cores: int
) -> list[pa.Table]:
    """One grouping of each segment; large ones by several threads, Arrow needs no lock for them."""
    tables = [_read(chunks[0], grouping, names)]
    if tables[0].num_rows < _LARGE_ROWS:
        return tables + [_read(chunk, grouping, names) for chunk in chunks[1:]]
    with ThreadPoolExecutor(cores) as pool:
        return tables + list(pool.map(partial(_read, grouping=grouping, names=names), chunks[1:]))


def _streams(chunks: Sequence[Chunk], counts: Sequence[int]) -> pa.ChunkedArray:
    """The stream of each row, when each chunk has so many."""
    pairs = zip(chunks, counts, strict=True)
    parts = [pa.repeat(pa.scalar(chunk.stream, pa.string()), count) for chunk, count in pairs]
    return pa.chunked_array(parts, pa.string())


def _ends(aggregate: Aggregate) -> list[str]:
    """The columns that the metrics are taken from."""
    found = {f"{one.function}_{one.field.name}" for one in aggregate.metrics if one.field}
    return sorted(found)


def _read(chunk: Chunk, grouping: str, names: tuple[str, ...]) -> pa.Table:
    """One grouping of a segment, from the file or as it was read before."""
    assert chunk.groups_file is not None
    try:
        found = os.stat(chunk.groups_file)  # noqa: PTH116 - a tenth of what Path.stat costs
        key = (chunk.groups_file, found.st_ino, found.st_mtime_ns, found.st_size, grouping, names)
        table = _READ.get(key)
        if table is None:
            table = _read_file(chunk.groups_file, grouping, names)
            _READ.put(key, table)
    except UNREAD as flaw:
        raise broken(chunk.groups_file, flaw) from flaw
    return table


def _read_file(path: str, grouping: str, names: tuple[str, ...]) -> pa.Table:
    """A row group, or some rows of the only one of an older file."""
    with pa.memory_map(path) as mapped, pq.ParquetFile(mapped) as file:
        for number in range(file.num_row_groups):
            ends = file.metadata.row_group(number).column(_GROUPING).statistics
            if ends is not None and ends.min == ends.max == grouping:
                return file.read_row_group(number, columns=names, use_threads=False)
        whole = file.read(columns=["grouping", *names], use_threads=False)
    return whole.filter(pc.equal(whole["grouping"], pa.scalar(grouping))).select(names)


def _wholes(chunks: Sequence[Chunk], names: tuple[str, ...]) -> pa.Table:
    """A row for each segment, from what the manifest says of it."""
    ends: list[list[tuple[int | None, int | None]]] = [
        [(chunk.first, chunk.last) for chunk in chunks],
        [chunk.commit_times for chunk in chunks],
        [chunk.event_times for chunk in chunks],
    ]
    columns: dict[str, list[int | None]] = {EVENTS: [chunk.rows for chunk in chunks]}
    for name, pairs in zip(_MEASURED, ends, strict=True):
        columns[f"min_{name}"] = [least for least, _ in pairs]
        columns[f"max_{name}"] = [greatest for _, greatest in pairs]
    return pa.table({name: pa.array(columns[name], pa.int64()) for name in names})


def _partial(aggregate: Aggregate, table: pa.Table) -> pa.Table:
    """A row for each row of the summaries; two of one group meet when they are merged."""
    found = {
        name: key_of(field, table[field.name].combine_chunks())
        for name, field in zip(key_names(aggregate), aggregate.group_by, strict=True)
    }
    found[EVENTS] = table[EVENTS]
    for number, metric in enumerate(aggregate.metrics):
        if metric.field is not None:
            found[f"m{number}"] = table[f"{metric.function}_{metric.field.name}"]
    return pa.table(found)


def split(chunks: Sequence[Chunk], grouping: str | None) -> tuple[list[Chunk], list[Chunk]]:
    """Chunks that their summaries answer, and the others."""
    told = [chunk for chunk in chunks if answers(chunk, grouping)]
    return told, [chunk for chunk in chunks if not answers(chunk, grouping)]
