"""What a recorder stands on: its connection file, its key, its spool directory [SDR0 3.2.3].

The connection file is trusted, and nothing else: a newer reader key is taken from anywhere, but
only when the pinned recorder admin signed it and its key_id is higher.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from hub import keystore, label
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError, VeenError
from hub.storage.disk import Disk
from hub.types import DhKey, Label
from hub.wire import readerkey
from hub.wire.captoken import CapToken
from hub.wire.readerkey import ReaderKeyRecord
from recorder import spool_files
from recorder.connection import Connection
from recorder.streams import StreamConfig, StreamMap

_OWNER: Final = "producer.id"
_KEYS: Final = "reader_keys.json"


def read_connection(path: Path) -> Connection:
    """The connection of a producer; the file holds a key, so it must be private."""
    connection = Connection.parse(keystore.read_private(path))
    if connection.producer is None:
        raise VeenError(ErrorCode.CONFIG, f"{path} is a reader's; a producer's is needed")
    return connection


def producer_key(connection: Connection) -> SigningKey:
    """The key of the file, or of the file it names."""
    assert connection.producer is not None
    seed = connection.producer.key
    if seed is None:
        assert connection.producer.key_file is not None
        seed = keystore.read_key_file(Path(connection.producer.key_file))
    key = SigningKey(seed)
    if key.public != connection.principal:
        raise VeenError(ErrorCode.CAP, "the cap_token is of another key than the producer's")
    return key


def default_spool_dir(connection: Connection) -> Path:
    """One directory for each producer key of this user."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "veen" / "spool" / connection.principal.hex()


def claim(folder: Path, connection: Connection) -> None:
    """A spool directory belongs to one producer key; raise where it is another's."""
    disk = Disk()
    spool_files.make_folder(folder, disk)
    path = folder / _OWNER
    owner = path.read_text("ascii", errors="replace").strip() if path.exists() else None
    if owner is None:
        disk.write_atomic(path, connection.principal.hex().encode() + b"\n")
    elif owner != connection.principal.hex():
        detail = f"{folder} is the spool of another producer ({owner[:8]}...)"
        raise VeenError(ErrorCode.CONFIG, detail)


class Standing:
    """The connection as it is now, with the newest reader keys that were accepted."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.connection = connection
        self._path = folder / _KEYS
        self._records = {one.name: one.reader_key for one in connection.streams}
        self.map = _map_of(connection)
        self.allowed = frozenset(self._records)
        self._labels = {one.name: one.label for one in connection.streams}
        for name, record in self._load().items():
            if name in self._records and record.key_id > self._records[name].key_id:
                self._accept(name, record)

    @property
    def token(self) -> CapToken:
        """What the producer is allowed."""
        assert self.connection.cap_token is not None
        return self.connection.cap_token

    def has(self, stream: str) -> bool:
        """Whether events of a stream can be authored."""
        return stream in self._records

    def reader_pk(self, stream: str) -> DhKey:
        """The key that events of a stream are sealed to now."""
        return self._records[stream].reader_pk

    def label(self, stream: str) -> Label:
        """Where events of a stream go."""
        return self._labels[stream]

    def name_of(self, label: Label) -> str | None:
        """The stream of a label, also of one that the connection file has lost since."""
        return next((name for name, one in self._labels.items() if one == label), None)

    def renew(self, connection: Connection) -> None:
        """Go on with a newer connection file of the same producer and hub."""
        held = self.connection
        same = ("principal", "hub_id", "recorder_admin_pk")
        if any(getattr(connection, name) != getattr(held, name) for name in same):
            detail = "the connection file is now another producer's or another hub's"
            raise VeenError(ErrorCode.TRUST, detail)
        for one in connection.streams:
            before = self._records.get(one.name)
            if before is None or one.reader_key.key_id > before.key_id:
                self._records[one.name] = one.reader_key
        self._labels |= {one.name: one.label for one in connection.streams}
        self.connection = connection
        self.map = _map_of(connection)
        self.allowed = frozenset(one.name for one in connection.streams)

    def offer(self, stream: str, record: ReaderKeyRecord) -> bool:
        """Take a reader key from wherever it comes; whether it is a newer one. Raises on a lie."""
        held = self._records.get(stream)
        if held is None or record == held or record.key_id < held.key_id:
            return False
        self._accept(stream, record)
        self._save()
        return True

    def _accept(self, stream: str, record: ReaderKeyRecord) -> None:
        self._records[stream] = readerkey.accept(
            self._records[stream],
            record,
            stream_id=label.stream_id(stream),
            recorder_admin_pk=self.connection.recorder_admin_pk,
        )

    def _load(self) -> dict[str, ReaderKeyRecord]:
        if not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_bytes())
            return {name: ReaderKeyRecord.decode(b64decode(text)) for name, text in found.items()}
        except (ValueError, AttributeError, TypeError, VeenError) as flaw:
            detail = f"{self._path} is damaged ({flaw}); remove it to go on with older reader keys"
            raise StoreError(detail, ErrorCode.DAMAGE) from flaw

    def _save(self) -> None:
        rows = {name: b64encode(one.encode()).decode() for name, one in self._records.items()}
        Disk().write_atomic(self._path, json.dumps(rows, indent=1).encode() + b"\n")


def _map_of(connection: Connection) -> StreamMap:
    return StreamMap.of(
        StreamConfig(
            name=one.name, event_types=one.event_types, event_bytes_max=one.event_bytes_max
        )
        for one in connection.streams
    )
