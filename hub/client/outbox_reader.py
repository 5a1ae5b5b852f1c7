"""Looking into an outbox that another process holds; nothing is changed [RESYNC0.4]."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from hub.client import keyed
from hub.client.keyed import KeyedState
from hub.errors import StoreError


class OutboxReader:
    """Each question is answered from what was committed when it was asked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        """Whether the key has ever been used here; a file that is being made does not count yet."""
        if not self._path.exists():
            return False
        with self._open() as db:
            return bool(db.execute("PRAGMA user_version").fetchone()[0])

    def find(self, keys: Sequence[str]) -> dict[str, KeyedState]:
        """The keys that are known; none where there is no outbox yet."""
        if not keys or not self.exists():
            return {}
        with self._open() as db:
            return keyed.find_keys(db, keys)

    def marks(self) -> dict[str, int]:
        """How far each source was taken over."""
        with self._open() as db:
            return dict(db.execute("SELECT source, position FROM mark"))

    def pending_ids(self) -> tuple[int, int] | None:
        """The first and the last entry without receipt."""
        with self._open() as db:
            first, last = db.execute("SELECT min(id), max(id) FROM entry").fetchone()
        return None if first is None else (first, last)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True)) as db:
                yield db
        except sqlite3.Error as flaw:
            raise StoreError(f"{self._path}: {flaw}") from flaw
