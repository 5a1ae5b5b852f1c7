"""DuckDB beside our engine: the same Parquet files, the same answer [interfaces, Benchmarks].

It reads, filters, groups and orders; what an answer needs beyond that, canonical rows and their
hash, is added by our own columnar encoder in this process. It writes no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from config.bench_questions import Question
from hub import canonical_json
from hub.canonical_json import Value
from hub.errors import ErrorCode, VeenError
from queryapi.contract.descriptor import Descriptor, Function
from queryapi.contract.fields import Field, Kind
from queryapi.contract.rows import CLOSE, OPEN, SEPARATOR, RowShape, rows_hash
from recorder.event import format_time
from spark_jobs.query_text import encode_columns, shown

if TYPE_CHECKING:
    import duckdb

_COUNT: Final = Field(name="count", kind=Kind.INTEGER)
_BATCH_ROWS: Final = 100_000


class Rival:
    """One DuckDB connection over the rows files of a lake, with as many threads as cores."""

    def __init__(self, files: Sequence[str], threads: int) -> None:
        self._connection = connect()
        self._connection.execute(f"SET threads = {threads}")
        self._connection.execute("SET TimeZone = 'UTC'")
        names = ", ".join(f"'{name}'" for name in files)
        self._connection.execute(
            f"CREATE VIEW lake AS SELECT * FROM read_parquet([{names}])"  # noqa: S608 - our names
        )

    def close(self) -> None:
        """Let go of the files."""
        self._connection.close()

    def fetch(self, question: Question) -> pa.Table:
        """The rows in whatever order they come."""
        return self._connection.sql(question.sql).to_arrow_table()

    def answer(self, question: Question, descriptor: Descriptor) -> str:
        """The rows in their order, canonical and hashed."""
        shape, fields = RowShape.of(descriptor), fields_of(descriptor)
        context, owed = sha256(OPEN), b""
        for batch in self._ordered(question):
            columns = [
                shown(field, _plain(batch.column(index))) for index, field in enumerate(fields)
            ]
            for encoded in encode_columns(shape, columns) if batch.num_rows else ():
                context.update(owed)
                context.update(encoded.data[:-1])
                owed = SEPARATOR
        context.update(CLOSE)
        return context.hexdigest()

    def reference(self, question: Question, descriptor: Descriptor) -> str:
        """The same by the contract's encoder: each value parsed and spelled by itself."""
        return rows_hash(self._reference_rows(question, descriptor))

    def _reference_rows(self, question: Question, descriptor: Descriptor) -> Iterator[bytes]:
        shape, fields = RowShape.of(descriptor), fields_of(descriptor)
        for batch in self._ordered(question):
            columns = [batch.column(index).to_pylist() for index in range(len(fields))]
            for row in zip(*columns, strict=True):
                values = map(_value, fields, row)
                yield shape.encode([canonical_json.encode_text(value) for value in values])

    def _ordered(self, question: Question) -> pa.RecordBatchReader:
        found = self._connection.sql(f"{question.sql} {question.order}")
        return found.to_arrow_reader(_BATCH_ROWS)


def fields_of(descriptor: Descriptor) -> list[Field]:
    """How each column of an answer is typed."""
    asked = descriptor.aggregate
    if asked is None:
        return list(descriptor.projection)
    metrics = [
        _COUNT if one.function is Function.COUNT or one.field is None else one.field
        for one in asked.metrics
    ]
    return [*asked.group_by, *metrics]


def _plain(column: pa.Array) -> pa.Array:
    """DuckDB's own types of JSON and text are plain strings to us."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    return storage if pa.types.is_integer(storage.type) else storage.cast(pa.string())


def _value(field: Field, found: str | int | None) -> Value:
    if found is None:
        return None
    if field.kind is Kind.TIMESTAMP:
        return format_time(int(found))
    return canonical_json.parse(str(found)) if field.kind is Kind.JSON else found


def connect() -> duckdb.DuckDBPyConnection:
    """A connection, or C.CONFIG where DuckDB is not installed."""
    try:
        import duckdb  # noqa: PLC0415 - a tool of developers, not of the product
    except ImportError:
        reason = "this benchmark compares with DuckDB, which is not installed here; "
        raise VeenError(
            ErrorCode.CONFIG,
            reason + "it is one of the developers' packages, requirements/dev.lock",
        ) from None
    return duckdb.connect()
