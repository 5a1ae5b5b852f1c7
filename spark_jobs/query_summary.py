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
from queryapi.contract.fields import Field
from recorder.lake.columns import GROUP_FIELDS
from spark_jobs.query_batch import broken
from spark_jobs.query_groups import EVENTS, Partial, key_names
from spark_jobs.query_plan import Chunk
from spark_jobs.query_text import shown

_MEASURED: Final = ("hub_commit_seq", "hub_commit_time", "event_time")
_NULL: Final = "null"


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


def summarized(descriptor: Descriptor, chunk: Chunk, grouping: str) -> Partial:
    """The partial groups of a whole segment."""
    aggregate = descriptor.aggregate
    assert aggregate is not None
    table = _read(chunk, grouping) if grouping else _whole(chunk)
    for name, values in _filtered(descriptor.filter).items():
        table = table.filter(pc.is_in(table[name], value_set=pa.array(values, pa.string())))
    return Partial(groups=_partial(aggregate, chunk, table.combine_chunks()), distinct={})


def _read(chunk: Chunk, grouping: str) -> pa.Table:
    try:
        table = pq.read_table(
            chunk.groups_file,
            filters=pc.field("grouping") == grouping,
            partitioning=None,
            use_threads=False,
        )
    except (pa.ArrowException, OSError) as flaw:
        raise broken(str(chunk.groups_file), flaw) from flaw
    return table


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


def _partial(aggregate: Aggregate, chunk: Chunk, table: pa.Table) -> pa.Table:
    """A row for each row of the summary; two of one group meet when they are merged."""
    found = {
        name: _key(field, chunk, table)
        for name, field in zip(key_names(aggregate), aggregate.group_by, strict=True)
    }
    found[EVENTS] = table[EVENTS]
    for number, metric in enumerate(aggregate.metrics):
        if metric.field is not None:
            found[f"m{number}"] = table[f"{metric.function}_{metric.field.name}"]
    return pa.table(found)


def _key(field: Field, chunk: Chunk, table: pa.Table) -> pa.Array:
    if field.name == "stream":
        values: pa.Array = pa.repeat(pa.scalar(chunk.stream, pa.string()), table.num_rows)
    else:
        values = table[field.name].combine_chunks()
    return pc.fill_null(shown(field, values), _NULL)


def split(chunks: Sequence[Chunk], grouping: str | None) -> tuple[list[Chunk], list[Chunk]]:
    """Chunks that their summaries answer, and the others."""
    told = [chunk for chunk in chunks if answers(chunk, grouping)]
    return told, [chunk for chunk in chunks if not answers(chunk, grouping)]
