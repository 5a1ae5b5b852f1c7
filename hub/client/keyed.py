"""Keys of an outbox: what was enqueued under a key is enqueued once, for as long as it is kept.

A key is a row beside the entry it names, written and settled in the entry's own transactions, so a
stop at any point leaves both or neither [RESYNC0.4].
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hub.crypto.hashing import h
from hub.errors import ErrorCode, StoreError
from hub.types import Hash
from hub.wire.receipt import Receipt

KEY_CHARACTERS_MAX: Final = 512
SCHEMA: Final = """
CREATE TABLE keyed (
    key TEXT PRIMARY KEY, content BLOB NOT NULL, entry_id INTEGER, receipt BLOB,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX keyed_entry ON keyed (entry_id) WHERE entry_id IS NOT NULL;
CREATE INDEX keyed_age ON keyed (created_at);
CREATE TABLE mark (source TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
"""
_COLUMNS: Final = "key, content, entry_id, receipt, created_at"
_Row = tuple[str, bytes, int | None, bytes | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedState:
    """What has become of a key: pending while `entry_id` is there, settled with its receipt."""

    key: str
    content_hash: Hash
    entry_id: int | None
    receipt: Receipt | None
    created_at: int  # seconds since 1970, by the clock of the enqueuing process
    is_new: bool = False  # this very call enqueued it

    @property
    def is_settled(self) -> bool:
        """Whether the receipt is held."""
        return self.receipt is not None

    def is_about(self, content: bytes) -> bool:
        """Whether the key was first used with this content."""
        return self.content_hash == h(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNote:
    """The key of an entry that is about to be stored."""

    key: str
    content_hash: Hash
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far a source has been taken over into the outbox; moves with what was taken."""

    source: str
    position: int


def check_key(key: str) -> None:
    """Raise E.FORMAT unless the key can be stored and found again."""
    if not 1 <= len(key) <= KEY_CHARACTERS_MAX or "\0" in key:
        detail = f"a key has 1 to {KEY_CHARACTERS_MAX} characters, none of them U+0000"
        raise StoreError(detail, ErrorCode.FORMAT)


class KeyTable:
    """The two tables; every method runs inside the caller's lock and transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        rows = db.execute("SELECT entry_id FROM keyed WHERE entry_id IS NOT NULL")
        self._pending = {row[0] for row in rows}  # so that settling unkeyed entries asks nothing

    def find(self, keys: Iterable[str]) -> dict[str, KeyedState]:
        """The keys that are known."""
        return find_keys(self._db, keys)

    def add(self, notes: Sequence[tuple[int, KeyNote]]) -> None:
        """Keys of new entries."""
        self._db.executemany(
            "INSERT INTO keyed (key, content, entry_id, created_at) VALUES (?,?,?,?)",
            [(note.key, note.content_hash, entry_id, note.created_at) for entry_id, note in notes],
        )

    def added(self, notes: Sequence[tuple[int, KeyNote]]) -> None:
        """The transaction of `add` was committed."""
        self._pending.update(entry_id for entry_id, _ in notes)

    def is_pending(self, entry_id: int) -> bool:
        """Whether an entry without receipt has a key."""
        return entry_id in self._pending

    def of_entry(self, entry_id: int) -> str | None:
        """The key under which an entry was enqueued."""
        if entry_id not in self._pending:
            return None
        row = self._db.execute("SELECT key FROM keyed WHERE entry_id = ?", (entry_id,)).fetchone()
        return None if row is None else str(row[0])

    def settle(self, done: Iterable[tuple[int, Receipt]]) -> None:
        """Entries that got their receipt."""
        rows = [(receipt.encode(), i) for i, receipt in done if i in self._pending]
        if rows:
            self._db.executemany(
                "UPDATE keyed SET receipt = ?, entry_id = NULL WHERE entry_id = ?", rows
            )

    def settled(self, entry_ids: Iterable[int]) -> None:
        """The transaction of `settle` or `withdraw` was committed."""
        self._pending.difference_update(entry_ids)

    def withdraw(self, entry_id: int) -> None:
        """An entry that was refused leaves no key."""
        self._db.execute("DELETE FROM keyed WHERE entry_id = ?", (entry_id,))

    def forget(self, before: int, prefix: str) -> int:
        """Drop settled keys made before a time; pending ones stay, however old."""
        return self._db.execute(
            "DELETE FROM keyed WHERE created_at < ? AND receipt IS NOT NULL "
            "AND substr(key, 1, ?) = ?",
            (before, len(prefix), prefix),
        ).rowcount

    def marks(self) -> dict[str, int]:
        """How far each source has been taken over."""
        return dict(self._db.execute("SELECT source, position FROM mark"))

    def set_mark(self, mark: Mark) -> None:
        """Move a mark; it never goes back."""
        self._db.execute(
            "INSERT INTO mark VALUES (?,?) ON CONFLICT (source) DO "
            "UPDATE SET position = max(position, excluded.position)",
            (mark.source, mark.position),
        )

    def drop_mark(self, source: str) -> None:
        """The source is gone for good."""
        self._db.execute("DELETE FROM mark WHERE source = ?", (source,))


def find_keys(db: sqlite3.Connection, keys: Iterable[str]) -> dict[str, KeyedState]:
    """The keys that are known."""
    found = {}
    for key in keys:
        row = db.execute(f"SELECT {_COLUMNS} FROM keyed WHERE key = ?", (key,)).fetchone()  # noqa: S608 - our own columns
        if row is not None:
            found[key] = _state(row)
    return found


def _state(row: _Row) -> KeyedState:
    key, content, entry_id, receipt, created_at = row
    return KeyedState(
        key=key,
        content_hash=Hash(content),
        entry_id=entry_id,
        receipt=None if receipt is None else Receipt.decode(receipt),
        created_at=created_at,
    )
