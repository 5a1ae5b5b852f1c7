"""Which rows of a batch match, exactly as the contract says [query, Which events match].

Conditions on the same text are asked once for each distinct value, in the contract's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hub.canonical_json import encode_text
from queryapi.contract.descriptor import Filter
from queryapi.contract.predicates import Op, Predicate, is_range
from queryapi.contract.values import sort_key
from spark_jobs.query_batch import Batch, batches
from spark_jobs.query_damage import UNREAD, broken
from spark_jobs.query_dictionary import by_entry, encoded
from spark_jobs.query_plan import Chunk, KeyProbe

_NULL = "null"


def matching(chunk: Chunk, asked: Filter) -> Iterator[Batch]:
    """The batches of a chunk, each narrowed to the rows that match; empty ones are left out."""
    seqs = None if chunk.probe is None else probe_keys(chunk.probe)
    if seqs is not None and not any(chunk.first <= seq <= chunk.last for seq in seqs):
        return
    for batch in batches(chunk):
        if seqs is not None:
            batch.narrow_to(seqs)
        _narrow(batch, asked)
        if batch.rows:
            yield batch


def unreadable(chunk: Chunk, asked: Filter) -> int:
    """How many events of the chunk, inside the window, have an error."""
    count = 0
    for batch in batches(chunk):
        _narrow_window(batch, asked)
        if batch.rows:
            errors = batch.held("error")
            count += len(errors) - errors.null_count
    return count


def probe_keys(probe: KeyProbe) -> list[int]:
    """The sequences at which the segment has the subject."""
    if probe.row_group < 0:
        return []
    try:
        with pq.ParquetFile(probe.file, memory_map=True) as file:
            names = ["subject_id", "hub_commit_seq"]
            table = file.read_row_group(probe.row_group, columns=names, use_threads=False)
    except UNREAD as flaw:
        raise broken(probe.file, flaw) from flaw
    mask = pc.equal(table.column("subject_id"), pa.scalar(probe.subject_id))
    found: list[int] = table.column("hub_commit_seq").filter(mask).to_pylist()
    return found


def _narrow(batch: Batch, asked: Filter) -> None:
    _narrow_window(batch, asked)
    equal = (
        ("subject_id", asked.subject_id),
        ("principal_id", asked.principal_id),
        ("origin", asked.origin),
    )
    for name, wanted in equal:
        if wanted is not None and batch.rows:
            is_equal = partial(pc.equal, pa.scalar(wanted, pa.string()))
            batch.narrow(by_entry(batch.held(name), is_equal))
    if asked.event_type is not None and batch.rows:
        wanted_types = pa.array(asked.event_type, pa.string())
        is_wanted = partial(pc.is_in, value_set=wanted_types)
        batch.narrow(by_entry(batch.held("event_type"), is_wanted))
    if asked.payload and batch.rows and batch.chunk.has_errors:
        batch.narrow(pc.is_null(batch.held("error")))
    for predicate in asked.payload:
        if batch.rows:
            batch.narrow(holds(predicate, batch.sub_text(predicate.field)))


def _narrow_window(batch: Batch, asked: Filter) -> None:
    if not batch.chunk.is_windowed or not batch.rows:
        return
    times = batch.raw("hub_commit_time")
    if asked.time_from is not None:
        batch.narrow(pc.greater_equal(times, pa.scalar(int(asked.time_from), pa.int64())))
    if asked.time_to is not None and batch.rows:
        times = batch.raw("hub_commit_time")
        batch.narrow(pc.less_equal(times, pa.scalar(int(asked.time_to), pa.int64())))


def holds(predicate: Predicate, texts: pa.Array) -> pa.Array:
    """For each sub-text whether the predicate holds; null is a missing path."""
    if predicate.op is Op.EXISTS:
        return pc.is_valid(texts) if predicate.value else pc.is_null(texts)
    if is_range(predicate.op):
        return _in_range(predicate, texts)
    wanted = pa.array(predicate.texts(), pa.string())
    is_equal = by_entry(texts, lambda some: pc.is_in(some, value_set=wanted))
    missing = pa.scalar(_NULL in predicate.texts())
    is_equal = pc.if_else(pc.is_valid(texts), is_equal, missing)
    return pc.invert(is_equal) if predicate.op is Op.NE else is_equal


def _in_range(predicate: Predicate, texts: pa.Array) -> pa.Array:
    operand = sort_key(encode_text(predicate.value))
    found = by_entry(
        encoded(texts),
        lambda some: pa.array(
            [_compares(predicate.op, sort_key(text), operand) for text in some.to_pylist()],
            pa.bool_(),
        ),
    )
    return pc.fill_null(found, False)  # noqa: FBT003 - the value to fill in


def _compares(op: Op, ours: str, theirs: str) -> bool:
    if ours[0] != theirs[0]:
        return False  # Only numbers compare with numbers, and texts with texts.
    if op is Op.LT:
        return ours < theirs
    if op is Op.LE:
        return ours <= theirs
    if op is Op.GT:
        return ours > theirs
    return ours >= theirs
