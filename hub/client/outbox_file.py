"""The file of an outbox: SQLite in WAL mode, one process, steps that hold or did not happen.

Only storing must outlive a power failure at once; the rest is found out again [RESYNC0.4].
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hub.client import keyed
from hub.errors import ErrorCode, StoreError
from hub.storage.disk import DirectoryLock, Disk
from hub.types import ClientId

_FILE: Final = "outbox.sqlite"
_VERSION: Final = 2  # 1 had no keys and no marks
_SHRINK_BYTES: Final = 4 << 20  # an empty part that is worth giving back
_LOW_BYTES: Final = 64 << 20  # of the disk: from here on the write-ahead file stays empty
_SCHEMA: Final = """
CREATE TABLE cursor (
    label BLOB PRIMARY KEY, next_seq INTEGER NOT NULL, settled_seq INTEGER NOT NULL,
    prev_ack INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT, label BLOB NOT NULL, client_seq INTEGER NOT NULL,
    draft BLOB NOT NULL, msg BLOB NOT NULL, leaf BLOB NOT NULL, rebuilds INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE former_leaf (entry_id INTEGER NOT NULL, leaf BLOB NOT NULL, msg BLOB NOT NULL);
CREATE TABLE attachment (
    entry_id INTEGER NOT NULL, position INTEGER NOT NULL, coid BLOB NOT NULL,
    sealed BLOB NOT NULL, stored INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (entry_id, position)
);
CREATE INDEX former_entry ON former_leaf (entry_id);
"""


def outbox_path(directory: Path, client_id: ClientId) -> Path:
    """The file of one key's outbox, for an `OutboxReader`."""
    return directory / client_id.hex() / _FILE


class OutboxFile:
    """Opened by one process at a time, a second one is refused with S.LOCKED."""

    def __init__(self, directory: Path | None, client_id: ClientId) -> None:
        self._lock: DirectoryLock | None = None
        self._guard = threading.RLock()
        self._directory = directory
        target = ":memory:"
        if directory is not None:
            folder = directory / client_id.hex()
            Disk().mkdir(folder)
            self._lock = DirectoryLock(folder / "lock")
            target = str(outbox_path(directory, client_id))
        try:
            self._db = sqlite3.connect(target, isolation_level=None, check_same_thread=False)
            self._open_schema()
            self._opened()
        except sqlite3.DatabaseError as flaw:
            self._release()
            # A disk that is full or refuses is no damage: it may be well again tomorrow.
            is_refused = isinstance(flaw, sqlite3.OperationalError)
            code = ErrorCode.STORE if is_refused else ErrorCode.DAMAGE
            raise StoreError(f"{target}: {flaw}", code) from flaw
        except StoreError:
            self._release()
            raise

    def _opened(self) -> None:
        """The tables are there; whoever builds on them reads what it needs."""

    def _open_schema(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        steps = {0: _SCHEMA + keyed.SCHEMA, 1: "DROP INDEX entry_label;" + keyed.SCHEMA}
        if version in steps:
            self._db.executescript(
                f"BEGIN IMMEDIATE; {steps[version]} PRAGMA user_version={_VERSION}; COMMIT;"
            )
        elif version != _VERSION:
            raise StoreError(f"outbox of version {version}, expected {_VERSION}")

    def shrink(self) -> None:
        """Give the empty part of the file back to the disk, where it is large and most of it.

        After an outage it would keep the disk full of nothing, and the spool from taking events.
        """
        with self._held() as db:
            free, pages, page_bytes = (
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("freelist_count", "page_count", "page_size")
            )
            if free * page_bytes >= _SHRINK_BYTES and 2 * free >= pages:
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Give the key up for another process."""
        with self._guard:
            self._db.close()
            self._release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's lock without touching its database."""
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        """One step of one thread; a disk that refuses is E.STORE."""
        with self._guard:
            try:
                yield self._db
            except sqlite3.Error as flaw:
                raise StoreError(f"the outbox refuses: {flaw}") from flaw

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        # Only storing must outlive a power failure at once. A receipt that is forgotten is fetched
        # again, and the next durable transaction carries it along.
        with self._held() as db:
            db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # A full disk may have ended it already.
                    db.execute("ROLLBACK")
                self._empty_ahead(db)
                raise
            self._empty_ahead(db)

    def _empty_ahead(self, db: sqlite3.Connection) -> None:
        """On a disk that is nearly full, give the room of the write-ahead file back at once.

        A step that failed has left it as long as the disk was free, and what is in it needs as
        much again in the file itself: together they would keep all that is stored from being sent.
        """
        if self._directory is None:
            return
        found = os.statvfs(self._directory)
        if found.f_bavail * found.f_frsize < _LOW_BYTES:
            with contextlib.suppress(sqlite3.Error):  # the next step tries again
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
