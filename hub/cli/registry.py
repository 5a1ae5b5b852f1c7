"""The local list of streams: name, label, class and signed reader key records [wire, Labels]."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hub.errors import ErrorCode, StoreError, VeenError
from hub.wire.readerkey import ReaderKeyRecord, accept, newest_first

if TYPE_CHECKING:
    from hub.types import PublicKey

_VERSION: Final = 1


@dataclass(slots=True, kw_only=True)
class StreamEntry:
    """One stream; records are those of one pinned recorder admin, with rising key_id."""

    name: str
    stream_id: bytes
    label: bytes
    klass: str
    admin_pk: PublicKey
    records: list[ReaderKeyRecord] = field(default_factory=list)

    def newest(self) -> ReaderKeyRecord:
        """The reader key that producers seal to."""
        return newest_first(self.records)[0]

    def add(self, record: ReaderKeyRecord) -> None:
        """Take a newer record of the same admin."""
        from hub.types import StreamId  # noqa: PLC0415

        held = self.newest() if self.records else None
        accept(
            held,
            record,
            stream_id=StreamId(self.stream_id),
            recorder_admin_pk=self.admin_pk,
        )
        if record != held:
            self.records.append(record)

    def to_json(self) -> dict[str, Any]:
        """The entry as the file holds it and as `stream list` shows it."""
        return {
            "name": self.name,
            "stream_id": self.stream_id.hex(),
            "label": self.label.hex(),
            "class": self.klass,
            "admin_pk": self.admin_pk.hex(),
            "reader_keys": [record.encode().hex() for record in self.records],
        }


class Registry:
    """`client/streams.json` of a state directory, replaced whole."""

    def __init__(self, client_dir: Path) -> None:
        self._path = client_dir / "streams.json"
        self._readers = client_dir / "readers"
        self.streams: dict[str, StreamEntry] = {}
        if self._path.exists():
            try:
                found = json.loads(self._path.read_bytes())
                self.streams = {one["name"]: _entry(one) for one in found["streams"]}
            except (ValueError, KeyError, TypeError, VeenError) as flaw:
                detail = f"{self._path} is damaged: {flaw}"
                raise StoreError(detail, ErrorCode.DAMAGE) from flaw

    def get(self, name: str) -> StreamEntry:
        """A stream by name."""
        if name not in self.streams:
            detail = f"no stream {name!r} in {self._path}; `veen stream create` makes one"
            raise click.UsageError(detail)
        return self.streams[name]

    def by_label(self, label: bytes) -> StreamEntry | None:
        """A stream by label."""
        return next((one for one in self.streams.values() if one.label == label), None)

    def find(self, label: bytes, name: str | None) -> StreamEntry | None:
        """A stream by label, or by name where its label changes with the epoch."""
        return self.by_label(label) or self.streams.get(name or "")

    def save(self) -> None:
        """Make the list durable."""
        from hub.storage.disk import Disk  # noqa: PLC0415

        rows = [self.streams[name].to_json() for name in sorted(self.streams)]
        text = json.dumps({"ver": _VERSION, "streams": rows}, indent=1)
        disk = Disk()
        disk.mkdir(self._path.parent)
        disk.write_atomic(self._path, text.encode() + b"\n")

    def secret_path(self, entry: StreamEntry, key_id: int) -> Path:
        """Where the secret half of a reader key is kept, when it is kept here."""
        return self._readers / f"{entry.stream_id.hex()[:32]}-{key_id}.key"

    def secrets(self, entry: StreamEntry) -> list[bytes]:
        """The secret halves that are held here, newest first."""
        from hub import keystore  # noqa: PLC0415

        paths = [self.secret_path(entry, one.key_id) for one in newest_first(entry.records)]
        return [keystore.read_key_file(path) for path in paths if path.exists()]


def _entry(found: dict[str, Any]) -> StreamEntry:
    from hub.types import PublicKey  # noqa: PLC0415

    entry = StreamEntry(
        name=str(found["name"]),
        stream_id=bytes.fromhex(found["stream_id"]),
        label=bytes.fromhex(found["label"]),
        klass=str(found["class"]),
        admin_pk=PublicKey(bytes.fromhex(found["admin_pk"])),
    )
    for text in found["reader_keys"]:
        # Checked again at every start: the file may have been edited since it was written.
        entry.add(ReaderKeyRecord.decode(bytes.fromhex(text)))
    return entry
