"""Where committed entries come from: the hub's files, or its HTTP reads [architecture, The lake].

A source is a value that travels to the tasks; opened, it gives bytes and claims. Nothing it says
is believed: leaves, roots and the signature of the head are checked by who asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from hub.errors import ErrorCode, StoreError, VeenError, WireError
from hub.storage import framedfile, manifests
from hub.storage.reader import LogReader
from hub.types import Label, ManifestId
from hub.wire import cbor
from hub.wire.proof import ConsistencyProof, MmrProof

if TYPE_CHECKING:
    from hub.client.http import HubHttp

BLOCK_ENTRIES: Final = 2_000
ROTATIONS_MAX: Final = 10_000
_FIRST_HELD: Final = re.compile(r"first_held=([0-9]{1,19})")

Entry = tuple[bytes, bytes]  # RECEIPT, MSG


class OpenLog(Protocol):
    """What can be asked of a log."""

    def head(self, label: Label) -> bytes | None:
        """The newest RECEIPT, None for a label without messages."""

    def receipt(self, label: Label, seq: int) -> bytes:
        """The RECEIPT at one place."""

    def first_held(self, label: Label) -> int:
        """The first seq whose payload retention has left."""

    def proof(self, label: Label, seq: int, size: int) -> MmrProof:
        """An inclusion proof, as claimed."""

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        """A consistency proof, as claimed."""

    def blocks(self, label: Label, first: int, last: int) -> Iterator[list[Entry]]:
        """The entries of an inclusive range in order, some at a time."""

    def rotations(self) -> list[bytes]:
        """Rotation and fork records."""

    def manifest(self, manifest_id: ManifestId) -> bytes:
        """A checkpoint manifest by its id."""

    def close(self) -> None:
        """Let go of files and connections."""


class LogSource(Protocol):
    """A log that tasks can open wherever they run."""

    def open(self) -> OpenLog:
        """Open it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFiles:
    """A data directory that this machine can read, whoever owns it."""

    data_dir: Path

    def open(self) -> OpenLog:
        """Open read-only files."""
        return _OpenFiles(self.data_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubReads:
    """The hub's data plane, with a read token."""

    url: str
    token: str | None = field(repr=False)
    timeout_s: float = 60.0

    def open(self) -> OpenLog:
        """Connect."""
        return _OpenReads(self)


class _OpenFiles:
    def __init__(self, data_dir: Path) -> None:
        self._reader = LogReader(data_dir)

    def head(self, label: Label) -> bytes | None:
        size = self._reader.count(label)
        return self._reader.receipt(label, size) if size else None

    def receipt(self, label: Label, seq: int) -> bytes:
        return self._reader.receipt(label, seq)

    def first_held(self, label: Label) -> int:
        return self._reader.first_held(label)

    def proof(self, label: Label, seq: int, size: int) -> MmrProof:
        return self._reader.prove(label, seq, size)

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        return self._reader.prove_consistency(label, from_size, to_size)

    def blocks(self, label: Label, first: int, last: int) -> Iterator[list[Entry]]:
        for start in range(first, last + 1, BLOCK_ENTRIES):
            yield self._reader.block(label, start, min(start + BLOCK_ENTRIES - 1, last))

    def rotations(self) -> list[bytes]:
        return list(framedfile.read_all(self._reader.layout.rotations))

    def manifest(self, manifest_id: ManifestId) -> bytes:
        found = manifests.read(self._reader.layout, manifest_id)
        if found is None:
            detail = f"manifest {manifest_id.hex()} is missing"
            raise StoreError(detail, ErrorCode.DAMAGE)
        return found

    def close(self) -> None:
        self._reader.close()


class _OpenReads:
    def __init__(self, source: HubReads) -> None:
        from hub.client.http import HubHttp  # noqa: PLC0415 - only where it is used

        self._http: HubHttp = HubHttp(source.url, token=source.token, timeout_s=source.timeout_s)

    def _get(self, path: str, **query: str | int) -> bytes:
        from hub.client.http import Call  # noqa: PLC0415

        texts = {name.rstrip("_"): str(value) for name, value in query.items()}
        return self._http.call(Call(method="GET", path=path, query=texts)).body

    def head(self, label: Label) -> bytes | None:
        try:
            return self._get("/head", label=label.hex())
        except VeenError as refusal:
            if refusal.code is ErrorCode.NOTFOUND:
                return None
            raise

    def receipt(self, label: Label, seq: int) -> bytes:
        return self._get("/receipt", label=label.hex(), seq=seq)

    def first_held(self, label: Label) -> int:
        try:
            self._get("/stream", label=label.hex(), from_=1, limit=1)
        except VeenError as refusal:
            found = _FIRST_HELD.search(refusal.detail)
            if refusal.code is ErrorCode.PRUNED and found is not None:
                return int(found[1])
            if refusal.code is not ErrorCode.NOTFOUND:
                raise
        return 1

    def proof(self, label: Label, seq: int, size: int) -> MmrProof:
        return MmrProof.decode(self._get("/proof", label=label.hex(), seq=seq, size=size))

    def consistency(self, label: Label, from_size: int, to_size: int) -> ConsistencyProof:
        body = self._get("/consistency", label=label.hex(), from_size=from_size, to_size=to_size)
        return ConsistencyProof.decode(body)

    def blocks(self, label: Label, first: int, last: int) -> Iterator[list[Entry]]:
        from hub.client.http import Call  # noqa: PLC0415

        for start in range(first, last + 1, BLOCK_ENTRIES):
            stop = min(start + BLOCK_ENTRIES - 1, last)
            query = {"label": label.hex(), "from": str(start), "to": str(stop)}
            query["limit"] = str(BLOCK_ENTRIES)
            _, items = self._http.items(Call(method="GET", path="/stream", query=query))
            block = [_cut(item) for item in items]
            if len(block) != stop - start + 1:
                raise WireError(f"{len(block)} entries where {start} to {stop} were asked for")
            yield block

    def rotations(self) -> list[bytes]:
        return cbor.split_sequence(self._get("/rotations"), items_max=ROTATIONS_MAX)

    def manifest(self, manifest_id: ManifestId) -> bytes:
        return self._get("/manifest", id=manifest_id.hex())

    def close(self) -> None:
        self._http.close()


def _cut(item: bytes) -> Entry:
    """(RECEIPT, MSG) of one item of /stream."""
    cbor.Reader(item).array(2)
    middle = cbor.skip(item, 1)
    if cbor.skip(item, middle) != len(item):
        raise WireError("trailing bytes after a stream item")
    return item[1:middle], item[middle:]
