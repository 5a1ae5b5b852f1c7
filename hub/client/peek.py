"""A look into an outbox that another process holds; it changes nothing [RESYNC0.4]."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hub.client.outbox import outbox_path
from hub.errors import StoreError
from hub.types import ClientId


def pending_count(state_dir: Path, client_id: ClientId) -> int:
    """How many messages of a key have no receipt yet; none where it never authored."""
    path = outbox_path(state_dir / "outbox", client_id)
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM entry").fetchone()
    except sqlite3.Error as flaw:
        raise StoreError(f"{path}: {flaw}") from flaw
    return int(count)
