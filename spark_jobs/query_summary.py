"""Groups answered from what ingest wrote about whole segments, without scanning [spark].

A groups file counts a segment by one or two common fields, with the ends of its times. It answers
when a question filters and groups by those fields alone and asks for nothing but counts and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queryapi.contract.descriptor import Aggregate, Descriptor, Filter, Function, Mode
from recorder.lake.columns import GROUP_FIELDS, GROUPS
from spark_jobs.query_batch import broken
from spark_jobs.query_groups import EVENTS, Partial, key_names, key_of
from spark_jobs.query_plan import Chunk

_MEASURED: Final = ("hub_commit_seq", "hub_commit_time", "event_time")
_GROUPING: Final = GROUPS.get_field_index("grouping")


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


def summarized(descriptor: Descriptor, chunks: Sequence[Chunk], grouping: str) -> Partial:
    """The partial groups of whole segments."""
    aggregate = descriptor.aggregate
    assert aggregate is not None
    wanted = _filtered(descriptor.filter)
    fields = {field.name for field in aggregate.group_by} | set(wanted)
    names = [name for name in (*GROUP_FIELDS, EVENTS, *_ends(aggregate)) if name in fields
             or name not in GROUP_FIELDS]  # fmt: skip
    tables = []
    for chunk in chunks:
        table = _read(chunk, grouping, names) if grouping else _whole(chunk).select(names)
        if "stream" in fields:
            stream = pa.repeat(pa.scalar(chunk.stream, pa.string()), table.num_rows)
            table = table.append_column("stream", stream)
        tables.append(table)
    found = pa.concat_tables(tables)
    for name, values in wanted.items():
        found = found.filter(pc.is_in(found[name], value_set=pa.array(values, pa.string())))
    return Partial(groups=_partial(aggregate, found.combine_chunks()), distinct={})


def _ends(aggregate: Aggregate) -> list[str]:
    """The columns that the metrics are taken from."""
    found = {f"{one.function}_{one.field.name}" for one in aggregate.metrics if one.field}
    return sorted(found)


def _read(chunk: Chunk, grouping: str, names: list[str]) -> pa.Table:
    """One grouping of a segment: a row group, or some rows of the only one of an older file."""
    assert chunk.groups_file is not None
    try:
        with pq.ParquetFile(chunk.groups_file, memory_map=True) as file:
            for number in range(file.num_row_groups):
                ends = file.metadata.row_group(number).column(_GROUPING).statistics
                if ends is not None and ends.min == ends.max == grouping:
                    return file.read_row_group(number, columns=names, use_threads=False)
            whole = file.read(columns=["grouping", *names], use_threads=False)
    except (pa.ArrowException, OSError) as flaw:
        raise broken(chunk.groups_file, flaw) from flaw
    return whole.filter(pc.equal(whole["grouping"], pa.scalar(grouping))).select(names)


def _whole(chunk: Chunk) -> pa.Table:
    ends: list[tuple[int | None, int | None]] = [
        (chunk.first, chunk.last), chunk.commit_times, chunk.event_times,
    ]  # fmt: skip
    measured = {
        f"{end}_{name}": pa.array([value], pa.int64())
        for name, pair in zip(_MEASURED, ends, strict=True)
        for end, value in zip(("min", "max"), pair, strict=True)
    }
    return pa.table({EVENTS: pa.array([chunk.rows], pa.int64()), **measured})


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
