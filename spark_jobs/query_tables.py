"""Arrow tables that one task leaves for another, or for the driver [spark, How]."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def save(table: pa.Table, path: Path) -> str:
    """Write a table; where it lies."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def load(path: str) -> pa.Table:
    """Read what `save` wrote."""
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()
