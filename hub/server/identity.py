"""Who this hub is: its keys, its hub_id, and every key it ever signed with [KEX0.1].

A key changes in three durable steps: the next key is written beside the present one, the record
that names it is appended to rotations.log, the file is renamed. The record is the moment of truth:
a stop before it drops the next key, a stop after it finishes the rename.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, StoreError
from hub.keystore import read_key_file, write_key_file
from hub.storage.disk import Disk
from hub.storage.framedfile import FramedFile
from hub.storage.history import format_bytes, read_format
from hub.storage.layout import Layout
from hub.types import HubId, PublicKey
from hub.wire.rotation import ForkRecord, RotationRecord, decode_record, hub_id_of

HUB_KEY: Final = "hub.key"
NEXT_KEY: Final = "hub.key.next"
SERVICE_KEY: Final = "service.key"
READER_KEY: Final = "reader.key"


@dataclass(slots=True)
class Identity:
    """The secrets of one hub, held only by its writer."""

    layout: Layout
    disk: Disk
    first_pk: PublicKey
    key: SigningKey
    service: SigningKey
    reader: DhSecret
    records: FramedFile

    @property
    def hub_id(self) -> HubId:
        """Of the first key of this log; a fork begins a log of its own."""
        for record in reversed(self.records.records):
            fork = decode_record(record)
            if isinstance(fork, ForkRecord):
                return fork.hub_id
        return hub_id_of(self.first_pk)

    def known_keys(self) -> list[PublicKey]:
        """Every key that may have signed a part of this log, newest first."""
        keys = [self.first_pk]
        keys.extend(decode_record(record).new_pk for record in self.records.records)
        return keys[::-1]

    def signers(self) -> list[tuple[HubId, PublicKey]]:
        """Every key with the log it signed for: a fork's keys sign for another log."""
        found = [(hub_id_of(self.first_pk), self.first_pk)]
        for data in self.records.records:
            record = decode_record(data)
            found.append((record.hub_id, record.new_pk))
        return found

    def stage_next_key(self) -> SigningKey:
        """Write the next key beside the present one."""
        fresh = SigningKey.generate()
        write_key_file(self.layout.keys / NEXT_KEY, fresh.seed, self.disk)
        return fresh

    def adopt(self, record: RotationRecord | ForkRecord, fresh: SigningKey) -> None:
        """Append the record, then let the next key take the place of the present one."""
        self.records.append(record.encode())
        self._rename_next()
        self.key = fresh

    def _rename_next(self) -> None:
        keys = self.layout.keys
        self.disk.rename(keys / NEXT_KEY, keys / HUB_KEY)
        self.disk.sync_dir(keys)


def load_identity(layout: Layout, disk: Disk) -> Identity:
    """The identity of a directory; created on first use, finished after a stop."""
    disk.mkdir(layout.keys)
    fresh = not layout.format.exists()
    key = SigningKey(_secret(layout.keys / HUB_KEY, disk, create=fresh))
    if fresh:
        disk.write_atomic(layout.format, format_bytes(key.public))
    identity = Identity(
        layout=layout,
        disk=disk,
        first_pk=read_format(layout),
        key=key,
        service=SigningKey(_secret(layout.keys / SERVICE_KEY, disk, create=True)),
        reader=DhSecret(_secret(layout.keys / READER_KEY, disk, create=True)),
        records=FramedFile(layout.rotations, disk),
    )
    _finish_change(identity)
    return identity


def _secret(path: Path, disk: Disk, *, create: bool) -> bytes:
    if create and not path.exists():
        write_key_file(path, SigningKey.generate().seed, disk)
    return read_key_file(path)


def _finish_change(identity: Identity) -> None:
    next_path = identity.layout.keys / NEXT_KEY
    expected = identity.known_keys()[0]
    if next_path.exists():
        fresh = SigningKey(read_key_file(next_path))
        if fresh.public == expected:
            identity._rename_next()  # noqa: SLF001 - the second half of adopt
            identity.key = fresh
        else:
            identity.disk.unlink(next_path)
    if identity.key.public != expected:
        raise StoreError(
            f"{identity.layout.keys / HUB_KEY} is not the key that the log's records name",
            ErrorCode.DAMAGE,
        )
