"""Read tokens: names, hashes and the labels they open; the secret is shown once [interfaces]."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hub.errors import ErrorCode, StoreError, VeenError
from hub.label import derive, epoch_of, stream_id
from hub.storage.disk import Disk
from hub.storage.reader import LogReader
from hub.types import Label, StreamId

NAME_MAX = 128
_LABEL = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadToken:
    """What one bearer may read; `labels` None means everything."""

    name: str
    labels: frozenset[Label] | None
    streams: frozenset[StreamId] = frozenset()
    scope: EpochScope | None = None  # where labels change with the epoch

    def check(self, label: Label) -> None:
        """Raise E.CAP for a label outside the token."""
        if not self.covers(label):
            raise VeenError(ErrorCode.CAP, "the token does not cover this label")

    def covers(self, label: Label) -> bool:
        """Whether the token opens a label, also one that its streams got in a later epoch."""
        if self.labels is None or label in self.labels:
            return True
        return self.scope is not None and self.scope.covers(self.streams, label)

    def labels_of(self, reader: LogReader) -> list[Label]:
        """The labels it opens, sorted."""
        if self.labels is not None and self.scope is None:
            return sorted(self.labels)
        return [label for label in reader.labels() if self.covers(label)]

    def check_all(self) -> None:
        """Raise E.CAP unless the token covers everything."""
        if self.labels is not None:
            raise VeenError(ErrorCode.CAP, "this needs a token for all streams")


class EpochScope:
    """Tells whose label one is by deriving it again, from the epoch of its first entry."""

    __slots__ = ("_epoch_secs", "_reader", "_routing_key", "_skew")

    def __init__(
        self, reader: LogReader, routing_key: bytes, epoch_secs: frozenset[int], skew: int
    ) -> None:
        self._reader = reader
        self._routing_key = routing_key
        self._epoch_secs = epoch_secs
        self._skew = skew

    def covers(self, streams: frozenset[StreamId], label: Label) -> bool:
        """Whether the label belongs to one of the streams."""
        if not streams or self._reader.count(label) == 0:
            return False
        first_ts = self._reader.hub_ts(label, 1)
        for epoch_sec in self._epoch_secs:
            now = epoch_of(first_ts, epoch_sec)
            for epoch in range(max(0, now - self._skew), now + self._skew + 1):
                if any(derive(self._routing_key, stream, epoch) == label for stream in streams):
                    return True
        return False


class TokenFile:
    """The list on disk, re-read whenever it changes."""

    __slots__ = ("_by_hash", "_path", "_scope", "_seen")

    def __init__(self, path: Path, scope: EpochScope | None = None) -> None:
        self._path = path
        self._scope = scope
        self._seen: tuple[int, int, int] | None = None
        self._by_hash: dict[str, ReadToken] = {}

    def find(self, bearer: str) -> ReadToken:
        """The token behind a bearer secret; E.AUTH (401) for one that is not known."""
        self._reload()
        digest = _digest(bearer)
        found = self._by_hash.get(digest)
        if found is None or not hmac.compare_digest(digest, _digest(bearer)):
            raise VeenError(ErrorCode.AUTH, "bearer token is not known")
        return found

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._by_hash, self._seen = {}, None
            return
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._by_hash = {
                row["sha256"]: ReadToken(
                    name=name, labels=_labels(row), streams=_streams(row), scope=self._scope
                )
                for name, row in _read(self._path).items()
            }
            self._seen = seen


def _labels(row: dict[str, Any]) -> frozenset[Label] | None:
    if row.get("all"):
        return None
    return frozenset(Label(bytes.fromhex(text)) for text in row["labels"])


def _streams(row: dict[str, Any]) -> frozenset[StreamId]:
    return frozenset(stream_id(name) for name in row.get("streams", []))


def _digest(bearer: str) -> str:
    return hashlib.sha256(bearer.encode()).hexdigest()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        rows = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as flaw:
        raise StoreError(f"{path} is not readable", ErrorCode.DAMAGE) from flaw
    if not isinstance(rows, dict) or not all(_is_row(row) for row in rows.values()):
        raise StoreError(f"{path} is not a list of tokens", ErrorCode.DAMAGE)
    return rows


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("sha256"), str):
        return False
    labels = row.get("labels")
    return row.get("all") is True or (
        isinstance(labels, list) and all(isinstance(x, str) and _LABEL.fullmatch(x) for x in labels)
    )


def check_free(path: Path, name: str) -> None:
    """Raise E.FORMAT for a name that is taken or cannot be shown."""
    if not name.isprintable() or not 0 < len(name) <= NAME_MAX or name in _read(path):
        raise VeenError(ErrorCode.FORMAT, f"token name {name[:NAME_MAX]!r} is unfit or taken")


def add(path: Path, disk: Disk, name: str, labels: list[Label] | None, streams: list[str]) -> str:
    """Make a token; the answer is the only copy of its secret."""
    check_free(path, name)
    rows = _read(path)
    bearer = "vrt_" + secrets.token_urlsafe(32)
    row: dict[str, Any] = {"sha256": _digest(bearer), "streams": streams}
    if labels is None:
        row["all"] = True
    else:
        row["labels"] = [label.hex() for label in labels]
    rows[name] = row
    disk.write_atomic(path, json.dumps(rows, indent=1, sort_keys=True).encode())
    return bearer


def listing(path: Path) -> list[dict[str, Any]]:
    """Names and reach of all tokens, without hashes."""
    return [
        {
            "name": name,
            "all": bool(row.get("all")),
            "streams": row.get("streams", []),
            "labels": row.get("labels", []),
        }
        for name, row in sorted(_read(path).items())
    ]


def check_known(path: Path, name: str) -> None:
    """Raise E.NOTFOUND when there is no token of this name."""
    if name not in _read(path):
        raise VeenError(ErrorCode.NOTFOUND, f"no token named {name!r}")


def revoke(path: Path, disk: Disk, name: str) -> None:
    """Remove a token; E.NOTFOUND when there is none."""
    check_known(path, name)
    rows = _read(path)
    del rows[name]
    disk.write_atomic(path, json.dumps(rows, indent=1, sort_keys=True).encode())
