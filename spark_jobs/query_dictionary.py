"""Texts as dictionaries: each distinct one is looked at once, rows are small numbers [spark].

A segment's file has most of its text columns in this form already. Read as they are, a condition is
asked of the dictionary, a group is a number, and a text is spelled once for all rows that have it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc


def decoded(values: pa.Array) -> pa.Array:
    """The same values, each by itself."""
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def encoded(values: pa.Array) -> pa.DictionaryArray:
    """The same values as a dictionary; null stays null. Some entries may have no row."""
    return values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()


def compact(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same without entries that no row has."""
    used = pc.unique(values.indices).drop_null()
    if len(used) == len(values.dictionary):
        return values
    places = pc.index_in(values.indices, value_set=used)
    return pa.DictionaryArray.from_arrays(places, values.dictionary.take(used))


def distinct(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same with no entry twice."""
    entries = values.dictionary.dictionary_encode()
    if len(entries.dictionary) == len(values.dictionary):
        return values
    return pa.DictionaryArray.from_arrays(entries.indices.take(values.indices), entries.dictionary)


def by_entry(values: pa.Array, compute: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What `compute` gives for each value, asked once for each entry; null gives null."""
    if not isinstance(values, pa.DictionaryArray):
        return compute(values)
    if len(values.dictionary) > len(values):  # most entries have no row left
        values = compact(values)
    return compute(values.dictionary).take(values.indices)


def concat(parts: list[pa.Array]) -> pa.Array:
    """Parts one after the other, as a dictionary if all of them are."""
    if len(parts) == 1:
        return parts[0]
    if not all(isinstance(part, pa.DictionaryArray) for part in parts):
        parts = [decoded(part) for part in parts]
    return pa.concat_arrays(parts)
