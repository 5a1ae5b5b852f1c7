"""The outbox of one signing key: a MSG's bytes are durable before they are first sent [RESYNC0.4].

A SQLite file holds entries, cursors and old leaf hashes, so that each step is one transaction:
either a message is in the outbox with its client_seq taken, or neither happened. The plaintext is
kept until the receipt is held, because a refused message is authored anew; the directory is
private to its owner.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hub.authoring import Authored, SealedAttachment
from hub.client import keyed
from hub.client.draft import Draft
from hub.client.keyed import KeyedState, KeyNote, KeyTable, Mark
from hub.errors import ErrorCode, StoreError
from hub.storage.disk import DirectoryLock, Disk
from hub.types import ClientId, ClientSeq, Hash, Label, LeafHash
from hub.wire.receipt import Receipt

_FILE: Final = "outbox.sqlite"
_VERSION: Final = 2  # 1 had no keys and no marks
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message that has no receipt yet."""

    id: int
    label: Label
    client_seq: ClientSeq
    msg_bytes: bytes
    leaf_hash: LeafHash
    rebuilds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where this key stands in one label."""

    next_seq: int = 1
    settled_seq: int = 0  # the highest client_seq with a verified receipt
    prev_ack: int = 0  # stream_seq of the last verified receipt


def outbox_path(directory: Path, client_id: ClientId) -> Path:
    """The file of one key's outbox, for a `KeyReader`."""
    return directory / client_id.hex() / _FILE


class Outbox:
    """Opened by one process at a time, a second one is refused with S.LOCKED; threads may share it.

    Each method is one short step under a lock; who authors while another thread sends keeps the
    two apart itself (`Producer`).
    """

    def __init__(self, directory: Path | None, client_id: ClientId) -> None:
        self._lock: DirectoryLock | None = None
        self._guard = threading.RLock()
        target = ":memory:"
        if directory is not None:
            folder = directory / client_id.hex()
            disk = Disk()
            disk.mkdir(folder)
            self._lock = DirectoryLock(folder / "lock")
            target = str(outbox_path(directory, client_id))
        try:
            self._db = sqlite3.connect(target, isolation_level=None, check_same_thread=False)
            self._open_schema()
            self._keys = KeyTable(self._db)
            self.first_id = self._next_id = self._first_free_id()
        except sqlite3.DatabaseError as flaw:
            self._release()
            raise StoreError(f"{target}: {flaw}", ErrorCode.DAMAGE) from flaw

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

    def _first_free_id(self) -> int:
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
        return 1 if row is None else int(row[0]) + 1

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
                raise

    def cursor(self, label: Label) -> Cursor:
        """Where the key stands; a new label starts at client_seq 1."""
        with self._held() as db:
            row = db.execute(
                "SELECT next_seq, settled_seq, prev_ack FROM cursor WHERE label = ?", (label,)
            ).fetchone()
        return (
            Cursor()
            if row is None
            else Cursor(next_seq=row[0], settled_seq=row[1], prev_ack=row[2])
        )

    def store(
        self,
        made: Sequence[tuple[Draft, Authored]],
        *,
        keys: Sequence[KeyNote | None] = (),
        mark: Mark | None = None,
    ) -> list[Entry]:
        """Make authored messages durable and take their client_seqs, all or none.

        `keys` has one place for each message; `mark` moves together with them.
        """
        with self._guard:
            entries = [
                Entry(
                    id=self._next_id + place,
                    label=authored.msg.label,
                    client_seq=authored.msg.client_seq,
                    msg_bytes=authored.msg_bytes,
                    leaf_hash=authored.leaf_hash,
                    rebuilds=0,
                )
                for place, (_, authored) in enumerate(made)
            ]
            notes = [
                (entry.id, note)
                for entry, note in zip(entries, keys, strict=False)
                if note is not None
            ]
            with self._transaction(durable=True):
                self._insert(entries, made)
                self._keys.add(notes)
                if mark is not None:
                    self._keys.set_mark(mark)
            self._next_id += len(made)
            self._keys.added(notes)
        return entries

    def _insert(self, entries: Sequence[Entry], made: Sequence[tuple[Draft, Authored]]) -> None:
        self._db.executemany(
            "INSERT INTO entry (id, label, client_seq, draft, msg, leaf) VALUES (?,?,?,?,?,?)",
            [
                (one.id, one.label, one.client_seq, draft.encode(), one.msg_bytes, one.leaf_hash)
                for one, (draft, _) in zip(entries, made, strict=True)
            ],
        )
        for one, (_, authored) in zip(entries, made, strict=True):
            if authored.attachments:
                self._store_attachments(one.id, authored.attachments)
        for label, next_seq in {one.label: one.client_seq + 1 for one in entries}.items():
            self._set_cursor(label, next_seq=next_seq)

    def _store_attachments(self, entry_id: int, sealed: Iterable[SealedAttachment]) -> None:
        self._db.executemany(
            "INSERT INTO attachment (entry_id, position, coid, sealed) VALUES (?,?,?,?)",
            [(entry_id, place, one.coid, one.sealed) for place, one in enumerate(sealed)],
        )

    def _set_cursor(
        self, label: Label, *, next_seq: int, settled_seq: int = 0, prev_ack: int = 0
    ) -> None:
        self._db.execute(
            "INSERT INTO cursor VALUES (:label, :next, :settled, :ack) ON CONFLICT (label) DO "
            "UPDATE SET next_seq = :next, settled_seq = max(settled_seq, :settled), "
            "prev_ack = max(prev_ack, :ack)",
            {"label": label, "next": next_seq, "settled": settled_seq, "ack": prev_ack},
        )

    # -- keys and marks

    def find_keys(self, keys: Iterable[str]) -> dict[str, KeyedState]:
        """The keys that are known."""
        with self._held():
            return self._keys.find(keys)

    def key_of(self, entry: Entry) -> str | None:
        """The key under which an entry was enqueued."""
        with self._held():
            return self._keys.of_entry(entry.id)

    def forget_keys(self, before: int, prefix: str = "") -> int:
        """Drop settled keys of this beginning made before a time; returns how many."""
        with self._transaction(durable=False):
            return self._keys.forget(before, prefix)

    def marks(self) -> dict[str, int]:
        """How far each source has been taken over."""
        with self._held():
            return self._keys.marks()

    def drop_mark(self, source: str) -> None:
        """The source is gone for good, and durably so."""
        with self._transaction(durable=False):
            self._keys.drop_mark(source)

    # -- entries without receipt

    def pending(self, *, items_max: int, bytes_max: int) -> list[Entry]:
        """The oldest entries without receipt, as many as one request may carry."""
        entries: list[Entry] = []
        total = 0
        for entry in self._entries("ORDER BY id LIMIT ?", items_max):
            total += len(entry.msg_bytes)
            if entries and total > bytes_max:
                break
            entries.append(entry)
        return entries

    def behind(self, entry: Entry) -> list[Entry]:
        """This entry and all later ones of its label, in order."""
        return self._entries("WHERE label = ? AND id >= ? ORDER BY id", entry.label, entry.id)

    def _entries(self, which: str, *values: object) -> list[Entry]:
        columns = "id, label, client_seq, msg, leaf, rebuilds"
        with self._held() as db:
            rows = db.execute(f"SELECT {columns} FROM entry {which}", values).fetchall()  # noqa: S608 - our own words
        return [_entry(row) for row in rows]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._held() as db:
            return db.execute(query, values).fetchall()

    def count(self) -> int:
        """How many messages have no receipt yet."""
        return int(self._rows("SELECT count(*) FROM entry")[0][0])

    def draft(self, entry: Entry) -> Draft:
        """What the entry was authored from."""
        return Draft.decode(self._rows("SELECT draft FROM entry WHERE id = ?", entry.id)[0][0])

    def versions(self, entry: Entry) -> list[tuple[LeafHash, bytes]]:
        """Every leaf and MSG under which this entry was ever authored, newest first."""
        rows = self._rows(
            "SELECT leaf, msg FROM former_leaf WHERE entry_id = ? ORDER BY rowid DESC", entry.id
        )
        former = [(LeafHash(leaf), msg) for leaf, msg in rows]
        return [(entry.leaf_hash, entry.msg_bytes), *former]

    def unstored_attachments(self, entry: Entry) -> list[SealedAttachment]:
        """Sealed attachments that the hub has not confirmed."""
        rows = self._rows(
            "SELECT coid, sealed FROM attachment WHERE entry_id = ? AND stored = 0 "
            "ORDER BY position",
            entry.id,
        )
        return [SealedAttachment(coid=Hash(coid), sealed=sealed) for coid, sealed in rows]

    def mark_attachment(self, entry: Entry, coid: Hash) -> None:
        """The hub holds this attachment."""
        with self._transaction(durable=False) as db:
            db.execute(
                "UPDATE attachment SET stored = 1 WHERE entry_id = ? AND coid = ?",
                (entry.id, coid),
            )

    def settle(self, done: Sequence[tuple[Entry, Receipt]]) -> None:
        """Receipts are held: the entries go, the cursors move on, the keys keep the receipt."""
        ids = [entry.id for entry, _ in done]
        with self._guard:
            with self._transaction(durable=False):
                self._remove(ids)
                self._keys.settle((entry.id, receipt) for entry, receipt in done)
                for label, last in {
                    entry.label: (entry, receipt) for entry, receipt in done
                }.items():
                    self._set_cursor(
                        label,
                        next_seq=self.cursor(label).next_seq,
                        settled_seq=last[0].client_seq,
                        prev_ack=last[1].stream_seq,
                    )
            self._keys.settled(ids)

    def _remove(self, entry_ids: Sequence[int]) -> None:
        rows = [(entry_id,) for entry_id in entry_ids]
        self._db.executemany("DELETE FROM entry WHERE id = ?", rows)
        # Both tables are empty nearly always; asking once is cheaper than deleting for each entry.
        for table in ("former_leaf", "attachment"):
            if self._db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]:  # noqa: S608
                self._db.executemany(f"DELETE FROM {table} WHERE entry_id = ?", rows)  # noqa: S608

    def rebuild(self, made: Sequence[tuple[Entry, Authored]], *, next_seq: int) -> None:
        """Replace the bytes of entries by newly authored ones, keeping every former leaf hash."""
        with self._transaction(durable=True):
            for entry, authored in made:
                self._replace(entry, authored)
            self._set_cursor(made[0][0].label, next_seq=next_seq)

    def withdraw(self, entry: Entry, made: Sequence[tuple[Entry, Authored]]) -> None:
        """Take a refused entry out with its key; those behind it move up by one client_seq."""
        with self._guard:
            with self._transaction(durable=True):
                self._remove([entry.id])
                self._keys.withdraw(entry.id)
                for later, authored in made:
                    self._replace(later, authored)
                self._set_cursor(entry.label, next_seq=entry.client_seq + len(made))
            self._keys.settled([entry.id])

    def _replace(self, entry: Entry, authored: Authored) -> None:
        self._db.execute(
            "INSERT INTO former_leaf VALUES (?,?,?)", (entry.id, entry.leaf_hash, entry.msg_bytes)
        )
        self._db.execute(
            "UPDATE entry SET client_seq = ?, msg = ?, leaf = ?, rebuilds = rebuilds + 1 "
            "WHERE id = ?",
            (authored.msg.client_seq, authored.msg_bytes, authored.leaf_hash, entry.id),
        )
        self._db.execute("DELETE FROM attachment WHERE entry_id = ?", (entry.id,))
        self._store_attachments(entry.id, authored.attachments)


def _entry(row: tuple[int, bytes, int, bytes, bytes, int]) -> Entry:
    return Entry(
        id=row[0],
        label=Label(row[1]),
        client_seq=ClientSeq(row[2]),
        msg_bytes=row[3],
        leaf_hash=LeafHash(row[4]),
        rebuilds=row[5],
    )
