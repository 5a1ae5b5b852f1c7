"""The outbox of one signing key: a MSG's bytes are durable before they are first sent [RESYNC0.4].

A SQLite file holds entries, cursors and old leaf hashes, so that each step is one transaction:
either a message is in the outbox with its client_seq taken, or neither happened. The plaintext is
kept until the receipt is held, because a refused message is authored anew; the directory is
private to its owner.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from hub.authoring import Authored, SealedAttachment
from hub.errors import ErrorCode, StoreError
from hub.storage.disk import DirectoryLock, Disk
from hub.types import ClientId, ClientSeq, DhKey, Hash, Label, LeafHash
from hub.wire import cbor
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT, Profile
from hub.wire.receipt import Receipt

_VERSION: Final = 1
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
CREATE INDEX entry_label ON entry (label, client_seq);
CREATE INDEX former_entry ON former_leaf (entry_id);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One event as its author means it, before client_seq, keys and signature."""

    label: Label
    reader_pk: DhKey
    header: PayloadHeader
    body: bytes
    attachments: tuple[bytes, ...] = ()
    profile: Profile = PRODUCT

    def encode(self) -> bytes:
        """The bytes kept in the outbox."""
        return cbor.encode(
            [
                self.label,
                self.reader_pk,
                self.header.encode(),
                self.body,
                list(self.attachments),
                self.profile.encode(),
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> Draft:
        """Parse what `encode` made."""
        reader = cbor.Reader(data).array(6)
        label = Label(reader.bstr(32))
        reader_pk = DhKey(reader.bstr(32))
        header = PayloadHeader.decode(reader.bstr())
        body = reader.bstr()
        count = reader.array_length(maximum=1 << 16)
        attachments = tuple(reader.bstr() for _ in range(count))
        profile = Profile.decode(reader.bstr())
        reader.end()
        return cls(
            label=label,
            reader_pk=reader_pk,
            header=header,
            body=body,
            attachments=attachments,
            profile=profile,
        )


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


class Outbox:
    """Opened by one process at a time; a second one is refused with S.LOCKED."""

    def __init__(self, directory: Path | None, client_id: ClientId) -> None:
        self._lock: DirectoryLock | None = None
        target = ":memory:"
        if directory is not None:
            folder = directory / client_id.hex()
            disk = Disk()
            disk.mkdir(folder)
            self._lock = DirectoryLock(folder / "lock")
            target = str(folder / "outbox.sqlite")
        try:
            self._db = sqlite3.connect(target, isolation_level=None)
            self._open_schema()
        except sqlite3.DatabaseError as flaw:
            self._release()
            raise StoreError(f"{target}: {flaw}", ErrorCode.DAMAGE) from flaw

    def _open_schema(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._db.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={_VERSION}; COMMIT;"
            )
        elif version != _VERSION:
            raise StoreError(f"outbox of version {version}, expected {_VERSION}")

    def close(self) -> None:
        """Give the key up for another process."""
        self._db.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        # Only storing must outlive a power failure at once. A receipt that is forgotten is fetched
        # again, and the next durable transaction carries it along.
        self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def cursor(self, label: Label) -> Cursor:
        """Where the key stands; a new label starts at client_seq 1."""
        row = self._db.execute(
            "SELECT next_seq, settled_seq, prev_ack FROM cursor WHERE label = ?", (label,)
        ).fetchone()
        return (
            Cursor()
            if row is None
            else Cursor(next_seq=row[0], settled_seq=row[1], prev_ack=row[2])
        )

    def store(self, made: Sequence[tuple[Draft, Authored]]) -> list[int]:
        """Make authored messages durable and take their client_seqs, all or none."""
        ids = []
        with self._transaction(durable=True) as db:
            for draft, authored in made:
                msg = authored.msg
                added = db.execute(
                    "INSERT INTO entry (label, client_seq, draft, msg, leaf) VALUES (?,?,?,?,?)",
                    (
                        msg.label,
                        msg.client_seq,
                        draft.encode(),
                        authored.msg_bytes,
                        authored.leaf_hash,
                    ),
                )
                assert added.lastrowid is not None
                ids.append(added.lastrowid)
                self._store_attachments(added.lastrowid, authored.attachments)
                self._set_cursor(msg.label, next_seq=msg.client_seq + 1)
        return ids

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

    def pending(self, *, items_max: int, bytes_max: int) -> list[Entry]:
        """The oldest entries without receipt, as many as one request may carry."""
        rows = self._db.execute(
            "SELECT id, label, client_seq, msg, leaf, rebuilds FROM entry ORDER BY id LIMIT ?",
            (items_max,),
        )
        entries: list[Entry] = []
        total = 0
        for row in rows:
            entry = _entry(row)
            total += len(entry.msg_bytes)
            if entries and total > bytes_max:
                break
            entries.append(entry)
        return entries

    def behind(self, entry: Entry) -> list[Entry]:
        """This entry and all later ones of its label, in order."""
        rows = self._db.execute(
            "SELECT id, label, client_seq, msg, leaf, rebuilds FROM entry "
            "WHERE label = ? AND id >= ? ORDER BY id",
            (entry.label, entry.id),
        )
        return [_entry(row) for row in rows]

    def count(self) -> int:
        """How many messages have no receipt yet."""
        return cast("int", self._db.execute("SELECT count(*) FROM entry").fetchone()[0])

    def draft(self, entry: Entry) -> Draft:
        """What the entry was authored from."""
        row = self._db.execute("SELECT draft FROM entry WHERE id = ?", (entry.id,)).fetchone()
        return Draft.decode(row[0])

    def versions(self, entry: Entry) -> list[tuple[LeafHash, bytes]]:
        """Every leaf and MSG under which this entry was ever authored, newest first."""
        rows = self._db.execute(
            "SELECT leaf, msg FROM former_leaf WHERE entry_id = ? ORDER BY rowid DESC", (entry.id,)
        )
        former = [(LeafHash(leaf), msg) for leaf, msg in rows]
        return [(entry.leaf_hash, entry.msg_bytes), *former]

    def unstored_attachments(self, entry: Entry) -> list[SealedAttachment]:
        """Sealed attachments that the hub has not confirmed."""
        rows = self._db.execute(
            "SELECT coid, sealed FROM attachment WHERE entry_id = ? AND stored = 0 "
            "ORDER BY position",
            (entry.id,),
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
        """Receipts are held: the entries go, the cursors move on."""
        with self._transaction(durable=False):
            for entry, receipt in done:
                self._remove(entry.id)
                self._set_cursor(
                    entry.label,
                    next_seq=self.cursor(entry.label).next_seq,
                    settled_seq=entry.client_seq,
                    prev_ack=receipt.stream_seq,
                )

    def _remove(self, entry_id: int) -> None:
        self._db.execute("DELETE FROM entry WHERE id = ?", (entry_id,))
        self._db.execute("DELETE FROM former_leaf WHERE entry_id = ?", (entry_id,))
        self._db.execute("DELETE FROM attachment WHERE entry_id = ?", (entry_id,))

    def rebuild(self, made: Sequence[tuple[Entry, Authored]], *, next_seq: int) -> None:
        """Replace the bytes of entries by newly authored ones, keeping every former leaf hash."""
        with self._transaction(durable=True):
            for entry, authored in made:
                self._replace(entry, authored)
            self._set_cursor(made[0][0].label, next_seq=next_seq)

    def withdraw(self, entry: Entry, made: Sequence[tuple[Entry, Authored]]) -> None:
        """Take a refused entry out; those behind it move up by one client_seq."""
        with self._transaction(durable=True):
            self._remove(entry.id)
            for later, authored in made:
                self._replace(later, authored)
            self._set_cursor(entry.label, next_seq=entry.client_seq + len(made))

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
