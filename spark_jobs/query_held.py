"""Summaries that a warm driver has read before, held within a bound [spark, Session].

A file of the lake is never changed and its name has its hash. Who asks gives the inode, time and
size of the file as it lies there now, so one that was damaged or replaced is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow as pa


class HeldTables:
    """Tables by key, up to a number of bytes; those not asked for longest go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._tables: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._lock = threading.Lock()  # queries run at once, and each reads with several threads

    def get(self, key: Hashable) -> pa.Table | None:
        """The table, None if it is not held."""
        with self._lock:
            found = self._tables.get(key)
            if found is not None:
                self._tables.move_to_end(key)
            return found

    def put(self, key: Hashable, table: pa.Table) -> None:
        """Hold a table; one that alone would fill most of the room is not worth the others."""
        if table.nbytes > self._bytes_max // 4:
            return
        with self._lock:
            if key in self._tables:
                return
            self._tables[key] = table
            self._bytes += table.nbytes
            while self._bytes > self._bytes_max:
                _, gone = self._tables.popitem(last=False)
                self._bytes -= gone.nbytes

    @property
    def bytes(self) -> int:
        """What is held."""
        return self._bytes
