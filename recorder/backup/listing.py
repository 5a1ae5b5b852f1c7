"""BACKUP.json: what a backup holds, signed by the realm's trust key and written last [wire, Trust].

Canonical JSON: {created_at, database, entries, files: [{bytes, path, sha256}], has_secrets, heads:
[[label, seq, root]], hub_id, hub_pk, manifest_id, ver}; hashes in lower-case hex, files sorted by
path, heads by label. The 64 bytes of signature over Ht("veen/backup", bytes) stand beside it as
BACKUP.json.sig. A directory without both is what a stopped `create` left, and is no backup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from hub import canonical_json
from hub.canonical_json import Value
from hub.crypto import hashing, signing
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, WireError
from hub.types import (
    HubId,
    Label,
    ManifestId,
    MmrRoot,
    PublicKey,
    Signature,
    StreamSeq,
    UnixSeconds,
)

NAME: Final = "BACKUP.json"
SIGNATURE: Final = "BACKUP.json.sig"
VER: Final = 1
LISTING_BYTES_MAX: Final = 256 * 1024 * 1024
_PATH: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_HEX64: Final = re.compile("[0-9a-f]{64}")
DATABASES: Final = frozenset({"none", "sqlite", "postgresql"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file; its path is relative and climbs nowhere."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path) or self.bytes < 0 or not _HEX64.fullmatch(self.sha256):
            raise WireError(f"{self.path!r} is no file of a backup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a label stood when the backup was made."""

    label: Label
    seq: StreamSeq
    root: MmrRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The whole backup in one signed statement."""

    created_at: UnixSeconds
    hub_id: HubId
    hub_pk: PublicKey
    manifest_id: ManifestId | None
    entries: int
    heads: tuple[Head, ...]
    database: str
    has_secrets: bool
    files: tuple[FileEntry, ...]

    def __post_init__(self) -> None:
        if any(one.path >= two.path for one, two in pairwise(self.files)):
            raise WireError("files are not sorted by path, each once")
        if any(one.label >= two.label for one, two in pairwise(self.heads)):
            raise WireError("heads are not sorted by label, each once")
        if self.database not in DATABASES:
            raise WireError("an unknown kind of database")

    def encode(self) -> bytes:
        """Canonical bytes."""
        found: Value = {
            "ver": VER,
            "created_at": self.created_at,
            "hub_id": self.hub_id.hex(),
            "hub_pk": self.hub_pk.hex(),
            "manifest_id": None if self.manifest_id is None else self.manifest_id.hex(),
            "entries": self.entries,
            "heads": [[one.label.hex(), one.seq, one.root.hex()] for one in self.heads],
            "database": self.database,
            "has_secrets": self.has_secrets,
            "files": [
                {"path": one.path, "bytes": one.bytes, "sha256": one.sha256} for one in self.files
            ],
        }
        return canonical_json.encode(found)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a listing or raise E.FORMAT; any other spelling of it is refused."""
        if len(data) > LISTING_BYTES_MAX:
            raise WireError(f"a listing of {len(data)} bytes", ErrorCode.SIZE)
        found = canonical_json.parse(data)
        try:
            listing = cls._read(found)
        except (KeyError, TypeError, ValueError) as flaw:
            raise WireError("not the listing of a backup") from flaw
        if listing.encode() != data:
            raise WireError("the listing is not canonical JSON")
        return listing

    @classmethod
    def _read(cls, found: Value) -> Self:
        assert_kind(found, dict)
        assert isinstance(found, Mapping)
        manifest_id = found["manifest_id"]
        if found["ver"] != VER:
            raise WireError("unknown version of a backup")
        return cls(
            created_at=UnixSeconds(_integer(found["created_at"])),
            hub_id=HubId(_hex32(found["hub_id"])),
            hub_pk=PublicKey(_hex32(found["hub_pk"])),
            manifest_id=None if manifest_id is None else ManifestId(_hex32(manifest_id)),
            entries=_integer(found["entries"]),
            heads=tuple([_head(one) for one in _list(found["heads"])]),
            database=_text(found["database"]),
            has_secrets=_flag(found["has_secrets"]),
            files=tuple([_file(one) for one in _list(found["files"])]),
        )

    def sign(self, key: SigningKey) -> Signature:
        """The 64 bytes to stand beside it."""
        return key.sign(hashing.BACKUP(self.encode()))

    def verify(self, signature: bytes, trust_pk: PublicKey) -> None:
        """Raise E.SIG unless the realm's trust key signed exactly this listing."""
        signing.verify(trust_pk, signature, hashing.BACKUP(self.encode()))

    def of(self, folder: str) -> list[FileEntry]:
        """The files below one folder."""
        return [one for one in self.files if one.path.startswith(f"{folder}/")]


def assert_kind(found: object, kind: type) -> None:
    """Raise E.FORMAT for a JSON value of another kind."""
    if not isinstance(found, kind):
        raise WireError(f"expected a {kind.__name__}")


def _head(found: Value) -> Head:
    label, seq, root = _list(found)
    return Head(
        label=Label(_hex32(label)), seq=StreamSeq(_integer(seq)), root=MmrRoot(_hex32(root))
    )


def _file(found: Value) -> FileEntry:
    assert_kind(found, dict)
    assert isinstance(found, Mapping)
    return FileEntry(
        path=_text(found["path"]), bytes=_integer(found["bytes"]), sha256=_text(found["sha256"])
    )


def _list(found: Value) -> list[Value]:
    assert_kind(found, list)
    assert isinstance(found, list)
    return found


def _text(found: Value) -> str:
    assert_kind(found, str)
    return str(found)


def _flag(found: Value) -> bool:
    assert_kind(found, bool)
    return bool(found)


def _integer(found: Value) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise WireError("expected a whole number")
    return found


def _hex32(found: Value) -> bytes:
    text = _text(found)
    if not _HEX64.fullmatch(text):
        raise WireError("expected 64 lower-case hex digits")
    return bytes.fromhex(text)
