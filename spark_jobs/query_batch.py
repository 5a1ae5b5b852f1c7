"""Rows of one row group as Arrow columns, read when asked for, cut as they are filtered [spark].

In canonical text the sub-text of a path is the value: a shredded column has it already, every other
path is cut out of `payload_text` without decoding anything beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from queryapi.contract.fields import Field, Kind
from recorder.lake.columns import path_column
from recorder.lake.shred import shred
from spark_jobs.query_damage import UNREAD, broken
from spark_jobs.query_dictionary import by_entry, decoded, encoded
from spark_jobs.query_plan import Chunk

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})", re.ASCII)
# What the fast cutter takes: a name that is no number and needs no escape.
_PLAIN_KEY: Final = re.compile(r'(?![0-9]+$)[^."\\\x00-\x1f]{1,64}')
# Texts of which many rows have the same one; payload paths are such columns too.
_ENCODED: Final = ("subject_id", "principal_id", "event_type", "origin", "error")


class Batch:
    """Some rows of a chunk, by rising sequence; narrowing is for good."""

    def __init__(self, file: pq.ParquetFile, chunk: Chunk, number: int, start: int) -> None:
        self._file = file
        self._number = number
        self._columns: dict[str, pa.Array] = {}
        rows = file.metadata.row_group(number).num_rows
        self.chunk = chunk
        self._start = start  # sequence of the row group's first row
        self._begin = max(chunk.first - start, 0)
        self._end = min(chunk.last - start + 1, rows)
        self._kept: pa.Array | None = None  # positions in the row group; None for begin..end
        self.rows = max(0, self._end - self._begin)

    def raw(self, name: str) -> pa.Array:
        """A column of the file, for the rows that are left."""
        return decoded(self.held(name))

    def held(self, name: str) -> pa.Array:
        """The same as the file has it: texts that come often as a dictionary."""
        found = self._columns.get(name)
        if found is None:
            whole = self._read(name)
            if self._kept is not None:
                found = whole.take(self._kept)
            else:
                found = whole.slice(self._begin, self._end - self._begin)
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            self._columns[name] = found
        return found

    def _read(self, name: str) -> pa.ChunkedArray:
        try:
            table = self._file.read_row_group(self._number, columns=[name], use_threads=False)
            column = table.column(name)
        except UNREAD as flaw:
            raise broken(self.chunk.rows_file, flaw) from flaw
        rows = self._file.metadata.row_group(self._number).num_rows
        if len(column) != rows:
            raise broken(self.chunk.rows_file, f"{name} has {len(column)} of {rows} rows")
        return column

    def narrow(self, mask: pa.Array) -> None:
        """Keep the rows where the mask is true."""
        self._keep(pc.indices_nonzero(mask).cast(pa.int64()))

    def keep(self, positions: Sequence[int]) -> None:
        """Keep the rows at these places among those that are left; they rise."""
        self._keep(pa.array(positions, pa.int64()))

    def narrow_to(self, seqs: Sequence[int]) -> None:
        """Keep these sequences, which rise."""
        found = [
            seq - self._start - self._begin
            for seq in seqs
            if self._begin <= seq - self._start < self._end
        ]
        self._keep(pa.array(found, pa.int64()))

    def _keep(self, positions: pa.Array) -> None:
        if len(positions) == self.rows:
            return
        self._columns = {name: one.take(positions) for name, one in self._columns.items()}
        if self._kept is None:
            self._kept = pc.add(positions, pa.scalar(self._begin, pa.int64()))
        else:
            self._kept = self._kept.take(positions)
        self.rows = len(positions)

    def seqs(self) -> list[int]:
        """The sequences of the rows that are left, from where they stand in the file."""
        found: list[int] = self.positions().to_pylist()
        return found

    def positions(self) -> pa.Array:
        """The same as a column: a row's place is its sequence, whatever the file says of it."""
        if self._kept is not None:
            return pc.add(self._kept, pa.scalar(self._start, pa.int64()))
        ones = pa.repeat(pa.scalar(1, pa.int64()), self.rows)
        return pc.cumulative_sum(ones, start=self._start + self._begin - 1)

    def sub_text(self, field: Field) -> pa.Array:
        """Canonical text of a payload field, perhaps as a dictionary; null where it is missing."""
        assert field.is_payload
        if not field.path:
            return self.held("payload_text")
        name = path_column(".".join(field.path))
        if ".".join(field.path) in self.chunk.paths:
            return self.held(name)
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._cut(field.path)
        return found

    def _cut(self, path: tuple[str, ...]) -> pa.Array:
        """A path without a column, from the longest start of it that has one."""
        for length in range(len(path) - 1, 0, -1):
            name = ".".join(path[:length])
            if name in self.chunk.paths:
                held = encoded(self.held(path_column(name)))
                return by_entry(held, partial(cut_path, path=path[length:]))
        return cut_path(self.raw("payload_text"), path)

    def plain(self, field: Field) -> pa.Array:
        """The values of a field as the lake has them; payload fields as sub-text."""
        if field.is_payload:
            return self.sub_text(field)
        if field.name == "stream":
            whole = pa.repeat(pa.scalar(0, pa.int32()), self.rows)
            return pa.DictionaryArray.from_arrays(whole, pa.array([self.chunk.stream]))
        if field.name == "hub_commit_seq":
            return self.positions()
        return self.held(field.name)


def batches(chunk: Chunk) -> Iterator[Batch]:
    """A batch for each row group that holds rows of the chunk; S.DAMAGE for a broken file."""
    texts = [*_ENCODED, *map(path_column, chunk.paths)]
    try:
        file = pq.ParquetFile(chunk.rows_file, memory_map=True, read_dictionary=texts)
        counts = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    except UNREAD as flaw:
        raise broken(chunk.rows_file, flaw) from flaw
    with file:
        start = chunk.segment_first
        for number, rows in enumerate(counts):
            if start <= chunk.last and chunk.first < start + rows:
                yield Batch(file, chunk, number, start)
            start += rows
    if start != chunk.segment_last + 1:
        detail = f"it has not the rows {chunk.segment_first} to {chunk.segment_last}"
        raise broken(chunk.rows_file, detail)


def cut_path(texts: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """The sub-text at a path of every text, null where it is missing."""
    plain = len(list(takewhile(_PLAIN_KEY.fullmatch, path)))
    if plain:
        name = ".".join(path[:plain])
        texts = shred(texts.to_pylist(), [name])[name]
    if plain == len(path):
        return texts
    return by_entry(texts.dictionary_encode(), lambda some: _walked(some, path[plain:]))


def _walked(texts: pa.Array, path: tuple[str, ...]) -> pa.Array:
    found = [None if text is None else _walk(text, path) for text in texts.to_pylist()]
    return pa.array(found, pa.binary()).cast(pa.string())


def _walk(text: str, path: tuple[str, ...]) -> bytes | None:
    """Level by level; every level is read as pieces of text, none of them decoded."""
    found: Any = text.encode()
    for segment in path:
        opening = bytes(found[:1]) if isinstance(found, bytes) else bytes(found)[:1]
        if opening == b"{":
            found = _OBJECT.decode(found).get(segment)
        elif opening == b"[" and _INDEX.fullmatch(segment):
            items = _ARRAY.decode(found)
            found = items[int(segment)] if int(segment) < len(items) else None
        else:
            return None
        if found is None:
            return None
    return bytes(found)


def is_timestamp(field: Field) -> bool:
    """Whether its values are milliseconds."""
    return field.kind is Kind.TIMESTAMP
