"""Merged groups as rows in their order [query, Rows]."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract.descriptor import Aggregate, Function, Metric
from queryapi.contract.fields import Kind
from queryapi.contract.values import text_of
from spark_jobs.query_groups import EVENTS, Partial, distinct_counts, key_names
from spark_jobs.query_text import shown, sort_keys

_BASE: Final = 10**9
_SAFE: Final = 9 * 10**9  # a quotient up to this, times 10^9, plus remainders, is an int64
_NULL: Final = "null"


def in_order(aggregate: Aggregate, merged: Partial) -> pa.Table:
    """The groups by their values, first entry first."""
    names = key_names(aggregate)
    if not names:
        return merged.groups
    ranks = {name: _ranks(merged.groups[name].combine_chunks()) for name in names}
    order = pc.sort_indices(pa.table(ranks), [(name, "ascending") for name in names])
    return merged.groups.take(order).combine_chunks()


def _ranks(texts: pa.Array) -> pa.Array:
    """The place of each text in the order of values."""
    encoded = texts.dictionary_encode()
    ordered = pc.sort_indices(sort_keys(encoded.dictionary).cast(pa.binary()))
    return pc.inverse_permutation(ordered.cast(pa.int64())).take(encoded.indices)


def row_columns(
    aggregate: Aggregate, groups: pa.Table, distinct: dict[int, pa.Table]
) -> list[pa.Array]:
    """Canonical texts of every group's values and metrics."""
    columns = [groups[name].combine_chunks() for name in key_names(aggregate)]
    for number, metric in enumerate(aggregate.metrics):
        if metric.function is Function.COUNT:
            columns.append(groups[EVENTS].combine_chunks().cast(pa.string()))
        elif metric.function is Function.SUM:
            columns.append(_sum(groups, number))
        elif metric.function is Function.COUNT_DISTINCT:
            counts = distinct_counts(aggregate, groups, distinct[number])
            columns.append(counts.cast(pa.string()))
        else:
            columns.append(_end(metric, groups[f"m{number}"].combine_chunks()))
    return columns


def nothing(aggregate: Aggregate) -> list[pa.Array]:
    """The one row of an aggregate without groups over no events."""
    counts = {Function.COUNT, Function.COUNT_DISTINCT}
    return [
        pa.array(["0" if metric.function in counts else None], pa.string())
        for metric in aggregate.metrics
    ]


def _end(metric: Metric, values: pa.Array) -> pa.Array:
    assert metric.field is not None
    if metric.field.kind is not Kind.JSON:
        return shown(metric.field, values)
    encoded = values.dictionary_encode()
    texts = [text_of(key) for key in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _sum(groups: pa.Table, number: int) -> pa.Array:
    high, low, count, long = (groups[f"{part}{number}"].combine_chunks() for part in "hlnx")
    empty = pc.equal(count, pa.scalar(0, pa.int64()))
    bounds = pc.min_max(high).as_py()
    is_safe = (bounds["min"] or 0) > -_SAFE and (bounds["max"] or 0) < _SAFE
    if long.null_count == len(long) and is_safe and len(high):
        base = pa.scalar(_BASE, pa.int64())
        texts = pc.add(pc.multiply(high, base), low).cast(pa.string())
    else:
        parts = zip(high.to_pylist(), low.to_pylist(), long.to_pylist(), strict=True)
        texts = pa.array([str(h * _BASE + r + int(x or 0)) for h, r, x in parts], pa.string())
    return pc.if_else(empty, pa.scalar(None, pa.string()), texts)
