"""leaf_hash to position, however long ago: a B-tree in SQLite, derived from the log [SSOT 3.4.1].

Only the writer asks it (for E.DUP and for a receipt by leaf_hash). New leaves wait in memory and
are flushed in bulk, by a thread beside the commit path; what a flush had not reached is replayed
from the log at the next start.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hub.errors import ErrorCode, StoreError
from hub.types import Label

# Hashes scatter over the B-tree: a flush writes nearly a page for each leaf while it is small, and
# a quarter of that with so many. What a kill leaves unflushed is read again in a second.
FLUSH_AT: Final = 8192
WAIT_AT: Final = 4 * FLUSH_AT  # so far the log may run ahead of a slow disk
_ROWS: Final = 1024  # in one statement, which SQLite runs without the interpreter's lock
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS labels (no INTEGER PRIMARY KEY, label BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS leaves (
    prefix INTEGER NOT NULL, label_no INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (prefix, label_no, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER);
"""
# A damaged name in the schema makes even the message of the error undecodable.
REFUSALS: Final = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def prefix_of(leaf: bytes) -> int:
    """The part of a leaf_hash that the index keeps; SQLite integers are signed."""
    return int.from_bytes(leaf[:8], "big", signed=True)


def remove(path: Path) -> None:
    """Take the database away, with the files that SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class LeafIndex:
    """Candidates for a leaf_hash; the caller compares the whole leaf with the stored entry."""

    __slots__ = (
        "_db", "_flusher", "_flushing", "_label_nos", "_lookup", "_recent", "entries",
    )  # fmt: skip

    def __init__(self, path: Path) -> None:
        try:
            self._open(path)
        except REFUSALS as flaw:
            if isinstance(flaw, sqlite3.Error) and flaw.sqlite_errorcode & 0xFF not in _DAMAGED:
                raise StoreError(f"{path}: {flaw}") from flaw
            remove(path)  # the log has it all
            self._open(path)
        self._recent: dict[bytes, tuple[Label, int]] = {}
        self._flushing: dict[bytes, tuple[Label, int]] = {}  # what the thread is writing
        self._flusher: threading.Thread | None = None

    def _open(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # WAL with NORMAL stays whole over a power cut; it may lose the newest rows, which the
        # log replays. FULL would add an fsync to the commit path for nothing.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA cache_size=-16384")
        self._db.executescript(_SCHEMA)
        self._label_nos: dict[Label, int] = {
            Label(label): no for no, label in self._db.execute("SELECT no, label FROM labels")
        }
        row = self._db.execute("SELECT entries FROM progress").fetchone()
        # Entries of the log that are flushed.
        self.entries: int = row[0] if row and isinstance(row[0], int) else 0
        # Questions do not wait for a flush: a reader of its own sees the last whole one.
        self._lookup = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._lookup.execute("PRAGMA query_only=ON")

    def add(self, leaf: bytes, label: Label, seq: int) -> None:
        """Remember one committed leaf."""
        self._recent[leaf] = (label, seq)

    def pending(self) -> int:
        """Leaves that wait for a flush."""
        return len(self._recent)

    def begin_flush(self, entries: int) -> None:
        """Have a thread move what is in memory to disk; `entries` is how much that covers.

        What it was refused waits, and the next call tries again in the caller's time.
        """
        is_late = self.pending() >= WAIT_AT
        if self._flusher is not None and self._flusher.is_alive() and not is_late:
            return
        self._wait()
        if self._flushing or is_late:
            self.flush(entries)
            return
        self._flushing, self._recent = self._recent, {}
        self._flusher = threading.Thread(target=self._write_beside, args=(entries,))
        self._flusher.start()

    def flush(self, entries: int) -> None:
        """Move what is in memory to disk, and wait for it."""
        self._wait()
        self._flushing, self._recent = {**self._flushing, **self._recent}, {}
        self._write(entries)

    def _wait(self) -> None:
        if self._flusher is not None:
            self._flusher.join()
            self._flusher = None

    def _write_beside(self, entries: int) -> None:
        with contextlib.suppress(StoreError):  # what was not flushed says so to the next call
            self._write(entries)

    def _write(self, entries: int) -> None:
        try:
            rows = sorted(
                (prefix_of(leaf), self._label_no(label), seq)
                for leaf, (label, seq) in self._flushing.items()
            )
            self._db.execute("BEGIN")
            for start in range(0, len(rows), _ROWS):
                self._insert(rows[start : start + _ROWS])
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (entries,))
            self._db.execute("COMMIT")
        except REFUSALS as failure:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"leaf index refuses: {failure}") from failure
        self.entries = entries
        self._flushing = {}

    def _insert(self, rows: list[tuple[int, int, int]]) -> None:
        marks = ",".join(["(?, ?, ?)"] * len(rows))
        values = [field for row in rows for field in row]
        self._db.execute(f"INSERT OR IGNORE INTO leaves VALUES {marks}", values)  # noqa: S608

    def _label_no(self, label: Label) -> int:
        number = self._label_nos.get(label)
        if number is None:
            number = len(self._label_nos) + 1
            self._db.execute("INSERT INTO labels VALUES (?, ?)", (number, label))
            self._label_nos[label] = number
        return number

    def find_recent(self, leaf: bytes) -> tuple[Label, int] | None:
        """Where a leaf of the newest entries stands; exact."""
        flushing = self._flushing  # first: the thread lets go of it when the rows can be found
        return self._recent.get(leaf) or flushing.get(leaf)

    def find(self, leaf: bytes) -> list[tuple[Label, int]]:
        """Every (label, seq) whose leaf may be this one."""
        recent = self.find_recent(leaf)
        if recent is not None:
            return [recent]
        try:
            rows = self._lookup.execute(
                "SELECT label, seq FROM leaves JOIN labels ON labels.no = label_no"
                " WHERE prefix = ?",
                (prefix_of(leaf),),
            ).fetchall()
        except REFUSALS as flaw:
            detail = f"leaf index does not answer: {flaw}; run hub rebuild"
            raise StoreError(detail, ErrorCode.DAMAGE) from flaw
        return [(Label(label), seq) for label, seq in rows]

    def sync(self) -> None:
        """Make what is flushed durable, before a snapshot counts on it."""
        self._wait()
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except REFUSALS as failure:
            raise StoreError(f"leaf index refuses: {failure}") from failure

    def cut(self, sizes: Mapping[Label, int]) -> None:
        """Forget leaves behind the end of the log, when the log was cut back."""
        self._wait()
        for label, number in self._label_nos.items():
            self._db.execute(
                "DELETE FROM leaves WHERE label_no = ? AND seq > ?", (number, sizes.get(label, 0))
            )

    def reset(self) -> None:
        """Forget everything, for a rebuild."""
        self._wait()
        self._recent.clear()
        self._flushing.clear()
        self._db.executescript("DELETE FROM leaves; DELETE FROM progress;")
        self.entries = 0

    def close(self) -> None:
        """Close the database."""
        self._wait()
        self._lookup.close()
        self._db.close()
