"""Stream secrets as files, wrapped to the recorder admin: they outlive the database [ADR 0014].

One file a key, written before any row speaks of it. A file whose act was rolled back does no harm:
a key counts only where a row or a recorded event names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from hub import keystore
from hub.errors import ErrorCode, VeenError
from hub.label import stream_id
from hub.wire import cbor
from hub.wire.readerkey import ReaderKeyRecord, WrappedReaderSecret

SUFFIX: Final = ".key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptKey:
    """One key of a stream: its public half, and its secret wrapped to the recorder admin."""

    stream: str
    record: ReaderKeyRecord
    wrapped: WrappedReaderSecret

    def encode(self) -> bytes:
        """The bytes of the file."""
        return cbor.encode([self.stream, self.record.encode(), self.wrapped.encode()])

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse what `encode` made, or raise E.FORMAT."""
        reader = cbor.Reader(data)
        reader.array(3)
        stream, record, wrapped = reader.tstr(), reader.bstr(), reader.bstr()
        reader.end()
        return cls(
            stream=stream,
            record=ReaderKeyRecord.decode(record),
            wrapped=WrappedReaderSecret.decode(wrapped),
        )

    @property
    def file_name(self) -> str:
        """Unlike that of any other key, also of one that had its key_id and was rolled back."""
        number = self.record.key_id
        return f"{_prefix(self.stream)}{number}-{self.record.reader_pk.hex()[:16]}{SUFFIX}"


def keep(folder: Path, key: KeptKey) -> None:
    """Have a key on disk; one that is there already stays as it is."""
    path = folder / key.file_name
    if not path.exists():
        keystore.write_private(path, key.encode())


def find(folder: Path, stream: str) -> list[KeptKey]:
    """Every kept key of a stream, newest key_id first."""
    found = [
        KeptKey.decode(keystore.read_private(path))
        for path in sorted(folder.glob(f"{_prefix(stream)}*{SUFFIX}"))
    ]
    return sorted(found, key=lambda key: key.record.key_id, reverse=True)


def find_one(folder: Path, stream: str, key_id: int, reader_pk: str | None) -> KeptKey:
    """The key that a recorded event speaks of, or K.KEYSTORE."""
    named = [
        key
        for key in find(folder, stream)
        if key.record.key_id == key_id and reader_pk in (None, key.record.reader_pk.hex())
    ]
    if not named:
        detail = f"{folder} lacks key {key_id} of {stream}; restore it from a backup"
        raise VeenError(ErrorCode.KEYSTORE, detail)
    return max(named, key=lambda key: key.record.ts)


def _prefix(stream: str) -> str:
    return f"{stream_id(stream).hex()[:32]}-"
