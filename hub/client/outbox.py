"""The outbox of one signing key: a MSG's bytes are durable before they are first sent [RESYNC0.4].

A SQLite file holds entries, cursors and old leaf hashes, so that each step is one transaction:
either a message is in the outbox with its client_seq taken, or neither happened. The plaintext is
kept until the receipt is held, because a refused message is authored anew; the directory is
private to its owner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hub.authoring import Authored, SealedAttachment
from hub.client.draft import Draft
from hub.client.keyed import KeyedState, KeyNote, KeyTable, Mark
from hub.client.outbox_file import OutboxFile
from hub.errors import StoreError
from hub.types import ClientId, ClientSeq, Hash, Label, LeafHash
from hub.wire.receipt import Receipt


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


_START: Final = Cursor()
# Removing an entry costs as much as storing it; many together, in a step that is made anyway, cost
# next to nothing. What is lost of it by a stop is sent again and found to be there already.
_SETTLE_AT: Final = 256
_ROWS_AT_ONCE: Final = 64  # SQLite takes 999 values in one statement, wherever it was built
_SETTLE_EVERY_S: Final = 0.05
_STEP_BYTES: Final = 1 << 20  # of messages that are removed in one step


class Outbox(OutboxFile):
    """Opened by one process at a time, a second one is refused with S.LOCKED; threads may share it.

    Each method is one short step under a lock; who authors while another thread sends keeps the
    two apart itself (`Producer`).
    """

    def __init__(self, directory: Path | None, client_id: ClientId) -> None:
        self._settled: list[tuple[Entry, Receipt]] = []  # entries that are still to be removed
        self._settled_at = 0.0
        super().__init__(directory, client_id)

    def _opened(self) -> None:
        self._keys = KeyTable(self._db)
        self._cursors = self._load_cursors()
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
        self.first_id = self._next_id = 1 if row is None else int(row[0]) + 1

    def close(self) -> None:
        """Give the key up for another process."""
        try:
            self.write_settled()
        finally:
            super().close()

    def _load_cursors(self) -> dict[Label, Cursor]:
        rows = self._db.execute("SELECT label, next_seq, settled_seq, prev_ack FROM cursor")
        return {
            Label(label): Cursor(next_seq=next_seq, settled_seq=settled_seq, prev_ack=prev_ack)
            for label, next_seq, settled_seq, prev_ack in rows
        }

    def cursor(self, label: Label) -> Cursor:
        """Where the key stands; a new label starts at client_seq 1."""
        return self._cursors.get(label, _START)

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
            cursors = {one.label: one.client_seq + 1 for one in entries}
            with self._transaction(durable=True):
                self._insert(entries, made)
                self._keys.add(notes)
                if mark is not None:
                    self._keys.set_mark(mark)
                removed = self._write_settled()
                for label, next_seq in cursors.items():
                    self._write_cursor(label, replace(self.cursor(label), next_seq=next_seq))
            self._next_id += len(made)
            self._keys.added(notes)
            for label, next_seq in cursors.items():
                self._cursors[label] = replace(self.cursor(label), next_seq=next_seq)
            self._settled_written(removed)
        return entries

    def _insert(self, entries: Sequence[Entry], made: Sequence[tuple[Draft, Authored]]) -> None:
        rows = [
            (one.id, one.label, one.client_seq, draft.encode(), one.msg_bytes, one.leaf_hash)
            for one, (draft, _) in zip(entries, made, strict=True)
        ]
        # Each step gives the GIL away and has to win it back, so many rows go in one.
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            places = ",".join(["(?,?,?,?,?,?)"] * len(part))
            self._db.execute(
                f"INSERT INTO entry (id, label, client_seq, draft, msg, leaf) VALUES {places}",  # noqa: S608 - our own words
                [value for row in part for value in row],
            )
        for one, (_, authored) in zip(entries, made, strict=True):
            if authored.attachments:
                self._store_attachments(one.id, authored.attachments)

    def _store_attachments(self, entry_id: int, sealed: Iterable[SealedAttachment]) -> None:
        self._db.executemany(
            "INSERT INTO attachment (entry_id, position, coid, sealed) VALUES (?,?,?,?)",
            [(entry_id, place, one.coid, one.sealed) for place, one in enumerate(sealed)],
        )

    def _write_cursor(self, label: Label, cursor: Cursor) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO cursor VALUES (?,?,?,?)",
            (label, cursor.next_seq, cursor.settled_seq, cursor.prev_ack),
        )

    # -- keys and marks

    def find_keys(self, keys: Iterable[str]) -> dict[str, KeyedState]:
        """The keys that are known."""
        with self._held():
            if self._settled and any(self._keys.is_pending(one.id) for one, _ in self._settled):
                self.write_settled()
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
        self.write_settled()
        with self._held() as db:
            rows = db.execute(f"SELECT {columns} FROM entry {which}", values).fetchall()  # noqa: S608 - our own words
        return [_entry(row) for row in rows]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._held() as db:
            return db.execute(query, values).fetchall()

    def count(self) -> int:
        """How many messages have no receipt yet."""
        self.write_settled()
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
        with self._guard:
            self._settled += done
            # Of a label the last one reached furthest: entries and receipts are in order.
            for label, last in {entry.label: (entry, receipt) for entry, receipt in done}.items():
                cursor = self.cursor(label)
                self._cursors[label] = replace(
                    cursor,
                    settled_seq=max(cursor.settled_seq, last[0].client_seq),
                    prev_ack=max(cursor.prev_ack, last[1].stream_seq),
                )
            is_old = time.monotonic() - self._settled_at > _SETTLE_EVERY_S
            if len(self._settled) >= _SETTLE_AT or is_old:
                with contextlib.suppress(StoreError):  # A full disk: they go with a later step.
                    self.write_settled()

    def rest(self) -> None:
        """Leave nothing behind that is settled, and no file that is mostly empty."""
        self.write_settled()
        self.shrink()

    def write_settled(self) -> None:
        """Remove what is settled now, rather than with the next entries that are stored."""
        with self._guard:
            while self._settled:
                with self._transaction(durable=False):
                    removed = self._write_settled()
                self._settled_written(removed)

    def _write_settled(self) -> int:
        """Remove the first of what is settled; how many, for `_settled_written`.

        No more than one step should write: a disk that is nearly full takes small steps only.
        """
        count = size = 0
        for entry, _ in self._settled:
            size += len(entry.msg_bytes)
            if count and size > _STEP_BYTES:
                break
            count += 1
        part = self._settled[:count]
        if part:
            self._remove([entry.id for entry, _ in part])
            self._keys.settle((entry.id, receipt) for entry, receipt in part)
            for label in {entry.label for entry, _ in part}:
                self._write_cursor(label, self.cursor(label))
        return count

    def _settled_written(self, count: int) -> None:
        self._keys.settled(entry.id for entry, _ in self._settled[:count])
        del self._settled[:count]
        self._settled_at = time.monotonic()

    def _remove(self, entry_ids: Sequence[int]) -> None:
        rows = [(entry_id,) for entry_id in entry_ids]
        # Entries are settled in their order, so nearly always they stand side by side.
        self._db.executemany("DELETE FROM entry WHERE id BETWEEN ? AND ?", _spans(entry_ids))
        # Both tables are empty nearly always; asking once is cheaper than deleting for each entry.
        for table in ("former_leaf", "attachment"):
            if self._db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]:  # noqa: S608
                self._db.executemany(f"DELETE FROM {table} WHERE entry_id = ?", rows)  # noqa: S608

    def rebuild(self, made: Sequence[tuple[Entry, Authored]], *, next_seq: int) -> None:
        """Replace the bytes of entries by newly authored ones, keeping every former leaf hash."""
        label = made[0][0].label
        with self._renumbering(label, next_seq):
            for entry, authored in made:
                self._replace(entry, authored)

    def withdraw(self, entry: Entry, made: Sequence[tuple[Entry, Authored]]) -> None:
        """Take a refused entry out with its key; those behind it move up by one client_seq."""
        with self._guard:
            with self._renumbering(entry.label, entry.client_seq + len(made)):
                self._remove([entry.id])
                self._keys.withdraw(entry.id)
                for later, authored in made:
                    self._replace(later, authored)
            self._keys.settled([entry.id])

    @contextmanager
    def _renumbering(self, label: Label, next_seq: int) -> Iterator[None]:
        """A step after which the label goes on with another client_seq."""
        with self._guard:
            cursor = replace(self.cursor(label), next_seq=next_seq)
            with self._transaction(durable=True):
                yield
                self._write_cursor(label, cursor)
            self._cursors[label] = cursor

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


def _spans(ids: Sequence[int]) -> list[tuple[int, int]]:
    """The inclusive ranges that hold these ids and no other."""
    spans: list[tuple[int, int]] = []
    for one in sorted(ids):
        if spans and spans[-1][1] == one - 1:
            spans[-1] = spans[-1][0], one
        else:
            spans.append((one, one))
    return spans


def _entry(row: tuple[int, bytes, int, bytes, bytes, int]) -> Entry:
    return Entry(
        id=row[0],
        label=Label(row[1]),
        client_seq=ClientSeq(row[2]),
        msg_bytes=row[3],
        leaf_hash=LeafHash(row[4]),
        rebuilds=row[5],
    )
