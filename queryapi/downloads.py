"""Rows as NDJSON, CSV and Parquet, made from the rows file alone [interfaces].

CSV is read by spreadsheets, which execute what looks like a formula: a text that starts like one
gets an apostrophe in front. Numbers stay as they are; what is no scalar is its canonical JSON.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.descriptor import Descriptor, Function
from queryapi.contract.digest import ResultDigest
from queryapi.contract.fields import Kind
from queryapi.contract.rows import RowShape
from queryapi.result_files import ResultFolder

PARQUET: Final = "rows.parquet"
DIGEST_KEY: Final = b"veen.result_digest"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
_PIECE_ROWS: Final = 2_000


def ndjson(folder: ResultFolder) -> Iterator[bytes]:
    """One canonical row in each line."""
    piece: list[bytes] = []
    for row in folder.each_row():
        piece += [row, b"\n"]
        if len(piece) >= 2 * _PIECE_ROWS:
            yield b"".join(piece)
            piece.clear()
    yield b"".join(piece)


def csv_text(folder: ResultFolder, names: Sequence[str]) -> Iterator[bytes]:
    """A header of the row's keys, then one line for each row."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([_guarded(name) for name in names])
    for number, row in enumerate(folder.each_row(), 1):
        value = _read(row)
        assert isinstance(value, dict)
        writer.writerow([_cell(value[name]) for name in names])
        if number % _PIECE_ROWS == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _read(row: bytes) -> Value:
    return canonical_json.parse(row, depth_max=canonical_json.DEPTH_MAX + 1, is_bounded=False)


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _guarded(value)
    if isinstance(value, bool | int | Decimal):
        return canonical_json.encode_text(value, is_bounded=False)
    return _guarded(canonical_json.encode_text(value))


def _guarded(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def parquet(folder: ResultFolder, descriptor: Descriptor, digest: ResultDigest) -> Path:
    """The rows as a Parquet file with the digest in its metadata; made once and kept.

    Texts and times are strings, sequences and counts are integers, everything else is JSON text.
    """
    path = folder.root / PARQUET
    if path.exists():
        return path
    schema = pa.schema(
        [pa.field(name, kind) for name, kind in _columns(descriptor)],
        metadata={DIGEST_KEY: digest.canonical()},
    )
    scratch = path.with_name(f".{PARQUET}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with pq.ParquetWriter(scratch, schema, compression="zstd") as writer:
            for rows in _pieces(folder):
                writer.write_table(_table(schema, rows))
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    return path


def _columns(descriptor: Descriptor) -> list[tuple[str, pa.DataType]]:
    fields = {field.name: field for field in descriptor.projection}
    counts: set[str] = set()
    if descriptor.aggregate is not None:
        fields = {field.name: field for field in descriptor.aggregate.group_by}
        counted = {Function.COUNT, Function.COUNT_DISTINCT}
        counts = {one.name for one in descriptor.aggregate.metrics if one.function in counted}
    return [
        (
            name,
            pa.int64()
            if name in counts or (name in fields and fields[name].kind is Kind.INTEGER)
            else pa.string(),
        )
        for name in RowShape.of(descriptor).names
    ]


def _pieces(folder: ResultFolder) -> Iterator[list[dict[str, Value]]]:
    piece: list[dict[str, Value]] = []
    for row in folder.each_row():
        value = _read(row)
        assert isinstance(value, dict)
        piece.append(value)
        if len(piece) == _PIECE_ROWS:
            yield piece
            piece = []
    if piece:
        yield piece


def _table(schema: pa.Schema, rows: Sequence[dict[str, Value]]) -> pa.Table:
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.type == pa.string():
            texts = [
                one
                if one is None or isinstance(one, str)
                else canonical_json.encode_text(one, is_bounded=False)
                for one in values
            ]
            columns.append(pa.array(texts, pa.string()))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)
