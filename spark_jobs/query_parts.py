"""Parts of a result, written by tasks and joined by the driver in constant memory [spark, How]."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.result_files import JoinedFile
from spark_jobs.query_text import Encoded

_INDEX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Where a task left its rows; paths are None when it had none."""

    number: int
    rows: int
    bytes: int
    data: str | None
    index: str | None


class PartWriter:
    """Writes one part under names of its own, so that a task that is run twice spoils nothing."""

    def __init__(self, folder: Path, number: int) -> None:
        stem = folder / f"{number:06}-{secrets.token_hex(8)}"
        self._number = number
        self._data_path = stem.with_suffix(".part")
        self._index_path = stem.with_suffix(".index")
        self._data: BinaryIO | None = None
        self._index: BinaryIO | None = None
        self.rows = 0
        self.bytes = 0

    def add(self, encoded: Encoded) -> None:
        """Append rows."""
        if self._data is None or self._index is None:
            self._data = self._data_path.open("xb", buffering=0)
            self._index = self._index_path.open("xb", buffering=0)
        _write_all(self._data, encoded.data)
        # The values of a slice need not start where its buffer does.
        whole = pa.concat_arrays([encoded.lengths])
        start = whole.offset * 8
        _write_all(self._index, memoryview(whole.buffers()[1])[start : start + len(whole) * 8])
        self.rows += encoded.rows
        self.bytes += len(encoded.data)

    def finish(self) -> Part:
        """What the driver needs to know."""
        if self._data is None or self._index is None:
            return Part(number=self._number, rows=0, bytes=0, data=None, index=None)
        self._data.close()
        self._index.close()
        return Part(
            number=self._number,
            rows=self.rows,
            bytes=self.bytes,
            data=str(self._data_path),
            index=str(self._index_path),
        )


def _write_all(file: BinaryIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


class IndexFile:
    """The start of every row, from the lengths that parts hold."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        self._next = 1  # behind the opening bracket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, lengths: pa.Array) -> None:
        """Lengths of rows, each with its comma."""
        if not len(lengths):
            return
        ends = pc.add(pc.cumulative_sum(lengths), pa.scalar(self._next, pa.int64()))
        starts = pc.subtract(ends, lengths)
        _write_all(self._file, memoryview(starts.buffers()[1])[: len(starts) * 8])
        self._next = ends[-1].as_py()

    def add_part(self, path: Path) -> None:
        """The lengths of a part."""
        for lengths in _lengths(path):
            self.add(lengths)

    def finish(self) -> None:
        """The end of the last row with its bracket, which is the size of the rows file."""
        self._file.write(self._next.to_bytes(8, "little"))
        os.fdatasync(self._file.fileno())


def _lengths(path: Path) -> Iterator[pa.Array]:
    with path.open("rb") as file:
        while data := file.read(8 * _INDEX_ROWS):
            yield pa.Array.from_buffers(pa.int64(), len(data) // 8, [None, pa.py_buffer(data)])


def join_part(part: Part, rows: JoinedFile, index: IndexFile | None) -> None:
    """Append a part and remove it."""
    if part.data is None or part.index is None:
        return
    data, lengths = Path(part.data), Path(part.index)
    rows.add_part(data, part.rows)
    if index is not None:
        index.add_part(lengths)
    data.unlink()
    lengths.unlink()
