"""leaf_hash to position, however long ago: a B-tree in SQLite, derived from the log [SSOT 3.4.1].

Only the writer asks it (for E.DUP and for a receipt by leaf_hash). New leaves wait in memory and
are flushed in bulk; what a flush had not reached is replayed from the log at the next start.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hub.errors import ErrorCode, StoreError
from hub.types import Label

FLUSH_AT: Final = 1024  # small enough that a flush is no pause: two or three milliseconds
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

    __slots__ = ("_db", "_label_nos", "_recent", "entries")

    def __init__(self, path: Path) -> None:
        try:
            self._open(path)
        except REFUSALS as flaw:
            if isinstance(flaw, sqlite3.Error) and flaw.sqlite_errorcode & 0xFF not in _DAMAGED:
                raise StoreError(f"{path}: {flaw}") from flaw
            remove(path)  # the log has it all
            self._open(path)
        self._recent: dict[bytes, tuple[Label, int]] = {}

    def _open(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # WAL with NORMAL stays whole over a power cut; it may lose the newest rows, which the
        # log replays. FULL would add an fsync to the commit path for nothing.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA cache_size=-65536")
        self._db.executescript(_SCHEMA)
        self._label_nos: dict[Label, int] = {
            Label(label): no for no, label in self._db.execute("SELECT no, label FROM labels")
        }
        row = self._db.execute("SELECT entries FROM progress").fetchone()
        # Entries of the log that are flushed.
        self.entries: int = row[0] if row and isinstance(row[0], int) else 0

    def add(self, leaf: bytes, label: Label, seq: int) -> None:
        """Remember one committed leaf."""
        self._recent[leaf] = (label, seq)

    def pending(self) -> int:
        """Leaves not yet flushed."""
        return len(self._recent)

    def flush(self, entries: int) -> None:
        """Move what is in memory to disk; `entries` is how much of the log that covers."""
        try:
            rows = sorted(
                (prefix_of(leaf), self._label_no(label), seq)
                for leaf, (label, seq) in self._recent.items()
            )
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR IGNORE INTO leaves VALUES (?, ?, ?)", rows)
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (entries,))
            self._db.execute("COMMIT")
        except REFUSALS as failure:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"leaf index refuses: {failure}") from failure
        self._recent.clear()
        self.entries = entries

    def _label_no(self, label: Label) -> int:
        number = self._label_nos.get(label)
        if number is None:
            number = len(self._label_nos) + 1
            self._db.execute("INSERT INTO labels VALUES (?, ?)", (number, label))
            self._label_nos[label] = number
        return number

    def find_recent(self, leaf: bytes) -> tuple[Label, int] | None:
        """Where a leaf of the newest entries stands; exact."""
        return self._recent.get(leaf)

    def find(self, leaf: bytes) -> list[tuple[Label, int]]:
        """Every (label, seq) whose leaf may be this one."""
        recent = self._recent.get(leaf)
        if recent is not None:
            return [recent]
        try:
            rows = self._db.execute(
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
        try:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except REFUSALS as failure:
            raise StoreError(f"leaf index refuses: {failure}") from failure

    def cut(self, sizes: Mapping[Label, int]) -> None:
        """Forget leaves behind the end of the log, when the log was cut back."""
        for label, number in self._label_nos.items():
            self._db.execute(
                "DELETE FROM leaves WHERE label_no = ? AND seq > ?", (number, sizes.get(label, 0))
            )

    def reset(self) -> None:
        """Forget everything, for a rebuild."""
        self._recent.clear()
        self._db.executescript("DELETE FROM leaves; DELETE FROM progress;")
        self.entries = 0

    def close(self) -> None:
        """Close the database."""
        self._db.close()
