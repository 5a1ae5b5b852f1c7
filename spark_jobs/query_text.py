"""Columns as canonical JSON text, and rows of them as one piece of bytes [spark, Encoding rows].

Columnar: a guard looks for characters that need an escape, Python spells only the texts that have
one, and joining columns element by element leaves all rows of a batch in one Arrow buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract.fields import Field, Kind
from queryapi.contract.rows import RowShape
from queryapi.contract.values import NULL, TEXT, sort_key
from spark_jobs.query_batch import Batch
from spark_jobs.query_dictionary import by_entry, decoded

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_PLAIN_STRING: Final = r'^"[^\\]*$'
_QUOTE: Final = pa.scalar('"')
_NOTHING: Final = pa.scalar("")
# Joined text of a piece stays far below what 32-bit offsets can address.
_PIECE_BYTES_MAX: Final = 256 * 1024 * 1024


def quote(texts: pa.Array) -> pa.Array:
    """JSON strings of texts; null stays null."""
    quoted = pc.binary_join_element_wise(_QUOTE, texts, _QUOTE, _NOTHING)
    hits = pc.match_substring_regex(texts, _NEEDS_ESCAPE)
    if not pc.any(hits).as_py():
        return quoted
    spelled = [encode_basestring(text) for text in texts.filter(hits).to_pylist()]
    return pc.replace_with_mask(quoted, pc.fill_null(hits, False), pa.array(spelled, pa.string()))  # noqa: FBT003


def timestamps(millis: pa.Array) -> pa.Array:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` without quotes; null stays null."""
    printed = millis.cast(pa.timestamp("ms")).cast(pa.string())
    dated = pc.binary_replace_slice(printed, start=10, stop=11, replacement="T")
    return pc.binary_join_element_wise(dated, pa.scalar("Z"), _NOTHING)


def _quoted_times(millis: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_QUOTE, timestamps(millis), _QUOTE, _NOTHING)


def shown(field: Field, values: pa.Array) -> pa.Array:
    """Canonical text of a field's values as the lake has them; null stands for `null`."""
    if field.kind is Kind.JSON:
        return decoded(values)
    if field.kind is Kind.INTEGER:
        return values.cast(pa.string())
    if field.kind is Kind.TIMESTAMP:
        return by_entry(values, _quoted_times)
    return by_entry(values, quote)


def sort_keys(texts: pa.Array) -> pa.Array:
    """The sort key of each canonical text; Python spells only what is no plain string or null."""
    is_null = pc.equal(texts, pa.scalar("null"))
    is_plain = pc.match_substring_regex(texts, _PLAIN_STRING)
    inside = pc.binary_slice(texts.cast(pa.binary()), 1, -1).cast(pa.string())
    keys = pc.binary_join_element_wise(pa.scalar(str(TEXT)), inside, _NOTHING)
    keys = pc.if_else(is_null, pa.scalar(str(NULL)), keys)
    others = pc.invert(pc.or_(is_null, is_plain))
    if not pc.any(others).as_py():
        return keys
    spelled = [sort_key(text) for text in texts.filter(others).to_pylist()]
    return pc.replace_with_mask(keys, pc.fill_null(others, False), pa.array(spelled, pa.string()))  # noqa: FBT003


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Rows in canonical form, each followed by a comma, and how long each is with it."""

    data: memoryview
    lengths: pa.Array  # int64

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.lengths)


def encode_batch(shape: RowShape, fields: Sequence[Field], batch: Batch) -> list[Encoded]:
    """The rows of a batch, in pieces that memory can hold."""
    return encode_columns(shape, [_column(field, batch) for field in fields])


def _column(field: Field, batch: Batch) -> pa.Array:
    if field.name == "receipt_id":
        # Its hex digits need no guard, and are spelled faster than read.
        return pc.binary_join_element_wise('"rcpt-', _hex(batch.raw("leaf_hash")), '"', _NOTHING)
    values = batch.plain(field)
    if field.name == "hub_commit_time":  # whole seconds, so many events share one
        values = values.dictionary_encode()
    return shown(field, values)


def _hex(hashes: pa.Array) -> pa.Array:
    """Hashes as lower-case hex; a row of the lake has one."""
    size = hashes.type.byte_width
    data = memoryview(hashes.buffers()[1])[hashes.offset * size :][: len(hashes) * size]
    digits = [None, pa.py_buffer(data.hex().encode())]
    return (
        pa.Array.from_buffers(pa.binary(2 * size), len(hashes), digits)
        .cast(pa.binary())
        .cast(pa.string())
    )


def encode_columns(shape: RowShape, columns: Sequence[pa.Array]) -> list[Encoded]:
    """Rows from canonical texts, one column for each name of the shape; null is `null`."""
    rows = len(columns[0])
    size = sum(column.nbytes for column in columns) + rows * sum(
        len(prefix) for prefix, _ in shape.parts()
    )
    pieces = 1 + size // _PIECE_BYTES_MAX
    step = max(1, -(-rows // pieces))
    return [
        _encode(shape, [column.slice(start, step) for column in columns])
        for start in range(0, rows, step)
    ]


def _encode(shape: RowShape, columns: Sequence[pa.Array]) -> Encoded:
    parts: list[pa.Array | pa.Scalar] = []
    for prefix, index in shape.parts():
        parts += [pa.scalar(prefix), columns[index]]
    joined = pc.binary_join_element_wise(
        *parts, pa.scalar("},"), _NOTHING, null_handling="replace", null_replacement="null"
    )
    return encoded(joined)


def encoded(items: pa.Array) -> Encoded:
    """Items that end with their comma, as the bytes that lie in their Arrow buffer."""
    _, offsets, data = items.buffers()
    starts = memoryview(offsets).cast("i")
    first, last = starts[items.offset], starts[items.offset + len(items)]
    return Encoded(
        data=memoryview(data)[first:last],
        lengths=pc.binary_length(items).cast(pa.int64()),
    )
