"""Merged groups as rows in their order [query, Rows]."""

from __future__ import annotations

from math import prod
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract.descriptor import Aggregate, Function, Metric
from queryapi.contract.fields import Kind
from queryapi.contract.values import text_of
from spark_jobs.query_dictionary import decoded, distinct
from spark_jobs.query_groups import EVENTS, Partial, distinct_counts, key_names
from spark_jobs.query_text import shown, sort_keys

_BASE: Final = 10**9
_SAFE: Final = 9 * 10**9  # a quotient up to this, times 10^9, plus remainders, is an int64
_CODE_END: Final = 2**62


def in_order(aggregate: Aggregate, merged: Partial) -> pa.Table:
    """The groups by their values, first entry first."""
    names = key_names(aggregate)
    if not names:
        return merged.groups
    ranks, widths = [], []
    for name in names:
        values = distinct(merged.groups[name].combine_chunks())
        ranks.append(_ranks(values))
        widths.append(max(1, len(values.dictionary)))
    if prod(widths) < _CODE_END:
        order = pc.sort_indices(_one_number(ranks, widths))
    else:
        table = pa.table(dict(zip(names, ranks, strict=True)))
        order = pc.sort_indices(table, [(name, "ascending") for name in names])
    return merged.groups.take(order).combine_chunks()


def _ranks(values: pa.DictionaryArray) -> pa.Array:
    """The place of each text in the order of values."""
    ordered = pc.sort_indices(sort_keys(values.dictionary).cast(pa.binary()))
    return pc.inverse_permutation(ordered.cast(pa.int64())).take(values.indices)


def _one_number(ranks: list[pa.Array], widths: list[int]) -> pa.Array:
    """Several ranks as one, the first counting most: one column is sorted faster than two."""
    found = ranks[0]
    for rank, width in zip(ranks[1:], widths[1:], strict=True):
        found = pc.add(pc.multiply(found, pa.scalar(width, pa.int64())), rank)
    return found


def with_distinct(aggregate: Aggregate, groups: pa.Table, pairs: dict[int, pa.Table]) -> pa.Table:
    """The groups with a column `d<i>` for each metric of distinct values."""
    for number, found in pairs.items():
        counts = distinct_counts(aggregate, groups, found)
        groups = groups.append_column(f"d{number}", counts)
    return groups


def row_columns(aggregate: Aggregate, groups: pa.Table) -> list[pa.Array]:
    """Canonical texts of every group's values and metrics."""
    columns = [decoded(groups[name].combine_chunks()) for name in key_names(aggregate)]
    for number, metric in enumerate(aggregate.metrics):
        if metric.function is Function.COUNT:
            columns.append(groups[EVENTS].combine_chunks().cast(pa.string()))
        elif metric.function is Function.SUM:
            columns.append(_sum(groups, number))
        elif metric.function is Function.COUNT_DISTINCT:
            columns.append(groups[f"d{number}"].combine_chunks().cast(pa.string()))
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
