"""Groups and metrics as Arrow tables that merge in any order to the same end [query, Rows; spark].

A partial table has one row for each group met:

    k0, k1, ...   the group's values as dictionaries of canonical text
    events        how many events it has
    m<i>          of min and max: integers, texts, or sort keys of payload values
    h<i> l<i>     of sum: values of up to 18 digits as quotients and remainders of 10^9, so that
    n<i> x<i>     nothing overflows; how many were added; what the longer ones came to, as text

A metric of distinct values has a table of its own, with the values in a column `v`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract.codes import QueryCode, failed_at
from queryapi.contract.descriptor import Aggregate, Function
from queryapi.contract.fields import Field, Kind
from spark_jobs.query_batch import Batch
from spark_jobs.query_dictionary import by_entry, compact, concat, decoded, distinct, encoded
from spark_jobs.query_text import shown, sort_keys

EVENTS: Final = "events"
VALUE: Final = "v"
_CODE: Final = "code"
_SEQ: Final = ""  # a name that no field has
_BASE: Final = 10**9
_SHORT_END: Final = 10**18
_CODE_END: Final = 2**62
_NULL: Final = "null"
_INTEGER: Final = re.compile(r"-?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """Groups of some of the events; distinct values by the number of their metric."""

    groups: pa.Table
    distinct: dict[int, pa.Table]


def key_names(aggregate: Aggregate) -> list[str]:
    """The columns of the group's values."""
    return [f"k{number}" for number in range(len(aggregate.group_by))]


def _columns(aggregate: Aggregate) -> list[tuple[str, str]]:
    """Every column of a partial table but the keys, and how it is merged."""
    found = [(EVENTS, "sum")]
    for number, metric in enumerate(aggregate.metrics):
        if metric.function in {Function.MIN, Function.MAX}:
            found.append((f"m{number}", metric.function.value))
        elif metric.function is Function.SUM:
            found += [(f"{part}{number}", "sum") for part in "hln"]
    return found


def _sums(aggregate: Aggregate) -> list[tuple[int, Field]]:
    return [
        (number, metric.field)
        for number, metric in enumerate(aggregate.metrics)
        if metric.function is Function.SUM and metric.field is not None
    ]


# --- from events -----------------------------------------------------------------------------


class Gathered:
    """The fields an aggregate needs, of many batches of one stream, so that groups fold at once."""

    def __init__(self, aggregate: Aggregate, stream: str) -> None:
        fields = [*aggregate.group_by, *[one.field for one in aggregate.metrics if one.field]]
        self._fields = {field.name: field for field in fields}
        self._needs_seqs = bool(_sums(aggregate))
        self._columns: dict[str, list[pa.Array]] = {name: [] for name in (*self._fields, _SEQ)}
        self._joined: set[str] = set()
        self.stream = stream
        self.rows = 0
        self.bytes = 0

    def add(self, batch: Batch) -> None:
        """Take the rows that are left of a batch."""
        for name, field in self._fields.items():
            values = batch.plain(field)
            self.bytes += values.nbytes
            self._columns[name].append(values)
        if self._needs_seqs:
            self._columns[_SEQ].append(batch.positions())
        self.rows += batch.rows

    def plain(self, field: Field) -> pa.Array:
        """All values of a field."""
        return self._whole(field.name)

    def seq(self, position: int) -> int:
        """The sequence of a row."""
        found: int = self._whole(_SEQ)[position].as_py()
        return found

    def _whole(self, name: str) -> pa.Array:
        columns = self._columns[name]
        if name not in self._joined:
            whole = concat(columns)
            # What a filter left out must not be judged: a sum refuses texts.
            is_encoded = isinstance(whole, pa.DictionaryArray)
            self._columns[name] = columns = [compact(whole) if is_encoded else whole]
            self._joined.add(name)
        return columns[0]


def partial_of(aggregate: Aggregate, batch: Gathered) -> Partial:
    """The groups of some events; execution_failed at the first that a sum cannot take."""
    codes = Codes([_key(field, batch) for field in aggregate.group_by], batch.rows)
    values: dict[str, pa.Array] = {
        _CODE: codes.values,
        EVENTS: pa.repeat(pa.scalar(1, pa.int64()), batch.rows),
    }
    for number, metric in enumerate(aggregate.metrics):
        if metric.function in {Function.MIN, Function.MAX}:
            assert metric.field is not None
            values[f"m{number}"] = _ordered(metric.field, batch)
    long: dict[int, dict[int, int]] = {}
    _check_sums(aggregate, batch)
    for number, field in _sums(aggregate):
        high, low, count, long[number] = _summands(field, batch, codes.values)
        values |= {f"h{number}": high, f"l{number}": low, f"n{number}": count}
    groups = _fold(aggregate, pa.table(values), codes, long)
    distinct_pairs = {
        number: _pairs(aggregate, codes, _distinct_values(metric.field, batch))
        for number, metric in enumerate(aggregate.metrics)
        if metric.function is Function.COUNT_DISTINCT and metric.field is not None
    }
    return Partial(groups=groups, distinct=distinct_pairs)


def group_codes(aggregate: Aggregate, batch: Batch) -> tuple[pa.Array, list[pa.Array]]:
    """A number for each event's group, and for each number the group's values."""
    codes = Codes([_key(field, batch) for field in aggregate.group_by], batch.rows)
    dense = codes.values.dictionary_encode()
    return dense.indices, [decoded(key) for key in codes.keys(dense.dictionary)]


def _key(field: Field, batch: Gathered | Batch) -> pa.DictionaryArray:
    return key_of(field, batch.plain(field))


def key_of(field: Field, plain: pa.Array) -> pa.DictionaryArray:
    """Group values as a dictionary of canonical texts; a text may stand in it twice."""
    values = encoded(plain)
    texts = pc.fill_null(shown(field, values.dictionary), _NULL)
    indices = values.indices
    if indices.null_count:
        indices = pc.fill_null(indices, pa.scalar(len(texts), indices.type))
        texts = pa.concat_arrays([texts, pa.array([_NULL])])
    return pa.DictionaryArray.from_arrays(indices, texts, safe=False)


def _ordered(field: Field, batch: Gathered) -> pa.Array:
    """Values whose order Arrow knows; null is skipped by min and max."""
    values = batch.plain(field)
    if field.kind is not Kind.JSON:
        return decoded(values)
    return by_entry(encoded(values), _present_keys)


def _present_keys(texts: pa.Array) -> pa.Array:
    is_null = pc.equal(texts, pa.scalar(_NULL))
    return pc.if_else(is_null, pa.scalar(None, pa.string()), sort_keys(texts))


def _distinct_values(field: Field, batch: Gathered) -> pa.DictionaryArray:
    values = encoded(batch.plain(field))
    texts = values.dictionary.cast(pa.string())
    if field.kind is Kind.JSON:
        is_null = pc.equal(texts, pa.scalar(_NULL))
        texts = pc.if_else(is_null, pa.scalar(None, pa.string()), texts)
    return pa.DictionaryArray.from_arrays(values.indices, texts)


def _check_sums(aggregate: Aggregate, batch: Gathered) -> None:
    """Raise for the first event, by sequence, with a value that is no integer."""
    offenders = []
    for order, (_, field) in enumerate(_sums(aggregate)):
        wrong = _not_integers(field, batch)
        if wrong is not None:
            offenders.append((wrong, order, field.name))
    if offenders:
        position, _, name = min(offenders)
        reason = f"sum({name}) takes integers only"
        raise failed_at(QueryCode.EXECUTION_FAILED, batch.stream, batch.seq(position), reason)


def _not_integers(field: Field, batch: Gathered) -> int | None:
    """The position of the first value that is neither null nor an integer."""
    if field.kind is Kind.INTEGER:
        return None
    values = batch.plain(field)
    if field.kind is not Kind.JSON:
        position = pc.index(pc.is_valid(values), pa.scalar(True)).as_py()  # noqa: FBT003
        return None if position < 0 else int(position)
    texts = encoded(values)
    bad = [text != _NULL and not _INTEGER.fullmatch(text) for text in texts.dictionary.to_pylist()]
    if not any(bad):
        return None
    wrong = pc.fill_null(pa.array(bad).take(texts.indices), False)  # noqa: FBT003
    return int(pc.index(wrong, pa.scalar(True)).as_py())  # noqa: FBT003


def _summands(
    field: Field, batch: Gathered, codes: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array, dict[int, int]]:
    """High and low parts and counts for each event, and for each code what is too long for them."""
    values = encoded(batch.plain(field))
    numbers = [
        None if text is None or text == _NULL else int(text)
        for text in values.dictionary.to_pylist()
    ]
    is_short = [number is not None and abs(number) < _SHORT_END for number in numbers]
    parts = [
        divmod(number, _BASE) if short and number is not None else (0, 0)
        for number, short in zip(numbers, is_short, strict=True)
    ]
    high = pa.array([part[0] for part in parts], pa.int64()).take(values.indices)
    low = pa.array([part[1] for part in parts], pa.int64()).take(values.indices)
    count = pa.array([int(number is not None) for number in numbers], pa.int64())
    long: dict[int, int] = {}
    if not all(short or number is None for number, short in zip(numbers, is_short, strict=True)):
        pairs = zip(codes.to_pylist(), values.indices.to_pylist(), strict=True)
        for code, index in pairs:
            number = None if index is None else numbers[index]
            if number is not None and not is_short[index]:
                long[code] = long.get(code, 0) + number
    zero = pa.scalar(0, pa.int64())
    counted = pc.fill_null(count.take(values.indices), zero)
    return pc.fill_null(high, zero), pc.fill_null(low, zero), counted, long


# --- codes and folding -----------------------------------------------------------------------


class Codes:
    """A number for each row's group, from the numbers of its values; equal numbers, equal group."""

    def __init__(self, keys: Sequence[pa.DictionaryArray], rows: int) -> None:
        self._digits: list[list[pa.Array]] = []  # texts of values that share one digit
        self._widths: list[int] = []
        self.values = pa.repeat(pa.scalar(0, pa.int64()), rows)
        for key in keys:
            self._add(key)

    def _add(self, key: pa.DictionaryArray) -> None:
        width = max(1, len(key.dictionary))
        own = key.indices.cast(pa.int64())
        if not self._digits:
            self.values = own
        else:
            if prod(self._widths) * width > _CODE_END:
                self._collapse()
            self.values = pc.add(pc.multiply(self.values, pa.scalar(width, pa.int64())), own)
        self._digits.append([key.dictionary])
        self._widths.append(width)

    def _collapse(self) -> None:
        """Number only the combinations that occur, so that a further digit fits."""
        dense = self.values.dictionary_encode()
        self._digits = [[decoded(key) for key in self.keys(dense.dictionary)]]
        self._widths = [max(1, len(dense.dictionary))]
        self.values = dense.indices.cast(pa.int64())

    def keys(self, codes: pa.Array) -> list[pa.DictionaryArray]:
        """The group's values for each of these numbers."""
        found: list[pa.DictionaryArray] = []
        for texts, width in zip(reversed(self._digits), reversed(self._widths), strict=True):
            before = pc.divide(codes, pa.scalar(width, pa.int64()))
            own = pc.subtract(codes, pc.multiply(before, pa.scalar(width, pa.int64())))
            places = own.cast(pa.int32())
            found = [*(_dictionary(places, one) for one in texts), *found]
            codes = before
        return found


def _dictionary(places: pa.Array, texts: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(places, texts, safe=False)


def _fold(
    aggregate: Aggregate, values: pa.Table, groups: Codes, long: dict[int, dict[int, int]]
) -> pa.Table:
    """One row for each code."""
    columns = _columns(aggregate)
    folded = values.group_by(_CODE, use_threads=False).aggregate(columns)
    codes = folded[_CODE].combine_chunks()
    found = dict(zip(key_names(aggregate), groups.keys(codes), strict=True))
    found |= {name: folded[f"{name}_{how}"].combine_chunks() for name, how in columns}
    listed = codes.to_pylist() if any(long.values()) else []
    for number, sums in long.items():
        texts = [str(sums[code]) if code in sums else None for code in listed] if sums else None
        found[f"x{number}"] = (
            pa.nulls(len(codes), pa.string()) if texts is None else pa.array(texts, pa.string())
        )
    return pa.table(found)


def _pairs(aggregate: Aggregate, groups: Codes, values: pa.DictionaryArray) -> pa.Table:
    """Every group with every value it has, once."""
    dense = groups.values.dictionary_encode()
    width = pa.scalar(max(1, len(values.dictionary)), pa.int64())
    present = pc.is_valid(values)  # A dictionary may have an entry for null.
    first = pc.multiply(dense.indices.cast(pa.int64()), width)
    both = pc.unique(pc.add(first, values.indices.cast(pa.int64())).filter(present))
    code = pc.divide(both, width)
    index = pc.subtract(both, pc.multiply(code, width))
    keys = groups.keys(dense.dictionary.take(code))
    found = dict(zip(key_names(aggregate), keys, strict=True))
    return pa.table({**found, VALUE: values.dictionary.take(index)}).filter(
        pc.field(VALUE).is_valid()
    )


# --- merging ---------------------------------------------------------------------------------


def merge(aggregate: Aggregate, partials: Sequence[Partial]) -> Partial | None:
    """The groups of all events that the partials saw; None where there were none.

    A single one is folded too: within it a group may stand twice, as null and as missing.
    """
    if not partials:
        return None
    table = pa.concat_tables([one.groups for one in partials])
    codes = _table_codes(table, key_names(aggregate))
    long = {
        number: _long_sums(codes.values, table[f"x{number}"].combine_chunks())
        for number, _ in _sums(aggregate)
    }
    values = {name: table[name] for name, _ in _columns(aggregate)}
    groups = _fold(aggregate, pa.table({_CODE: codes.values, **values}), codes, long)
    distinct_pairs = {}
    for number in partials[0].distinct:
        pairs = pa.concat_tables([one.distinct[number] for one in partials])
        pair_codes = _table_codes(pairs, key_names(aggregate))
        values_of = encoded(pairs[VALUE].combine_chunks())
        distinct_pairs[number] = _pairs(aggregate, pair_codes, values_of)
    return Partial(groups=groups, distinct=distinct_pairs)


def _table_codes(table: pa.Table, names: Sequence[str]) -> Codes:
    return Codes([distinct(table[name].combine_chunks()) for name in names], table.num_rows)


def _long_sums(codes: pa.Array, texts: pa.Array) -> dict[int, int]:
    sums: dict[int, int] = {}
    if texts.null_count == len(texts):
        return sums
    for code, text in zip(codes.to_pylist(), texts.to_pylist(), strict=True):
        if text is not None:
            sums[code] = sums.get(code, 0) + int(text)
    return sums


def distinct_counts(aggregate: Aggregate, groups: pa.Table, pairs: pa.Table) -> pa.Array:
    """How many distinct values each group has, in the order of the groups."""
    names = key_names(aggregate)
    both = pa.concat_tables([groups.select(names), pairs.select(names)]) if names else None
    if both is None:
        return pa.array([pairs.num_rows] * groups.num_rows, pa.int64())
    codes = _table_codes(both, names).values
    own, theirs = codes.slice(0, groups.num_rows), codes.slice(groups.num_rows)
    counted = pc.value_counts(theirs)
    found = pc.index_in(own, value_set=counted.field("values"))
    return pc.fill_null(counted.field("counts").take(found), pa.scalar(0, pa.int64()))
