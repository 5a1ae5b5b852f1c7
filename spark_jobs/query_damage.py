"""What a damaged lake is to a query: evidence that failed, or a failure with a file [query].

Readers of lake files raise S.DAMAGE through `broken`. Bytes that decode to nonsense spoil whoever
computes with them in ways nobody can list; so a fault of no known kind is the lake's if one of its
files has not the hash that its manifest names, and otherwise ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from hub.errors import ErrorCode, StoreError, VeenError
from hub.types import Label
from queryapi.contract.codes import QueryCode, QueryError, failed_at
from queryapi.contract.coverage import Coverage
from queryapi.contract.descriptor import Mode
from recorder.lake.folder import MANIFEST
from recorder.lake.reader import LakeSnapshot, open_snapshot

if TYPE_CHECKING:
    from spark_jobs.query_plan import Chunk

# What pyarrow raises for bytes it cannot read.
UNREAD: Final = (pa.ArrowException, OSError, LookupError, UnicodeDecodeError)
# What else checks stumble over when a file holds other values than were written.
_MISREAD: Final = (pa.ArrowException, LookupError, ValueError, msgspec.MsgspecError)


def broken(path: str | Path, flaw: object) -> StoreError:
    """S.DAMAGE, in words that a stranger may read: the file's name, not where it lies."""
    if isinstance(flaw, FileNotFoundError):
        flaw = "it is missing"
    told = str(flaw).replace(str(path), "it")
    return StoreError(f"{Path(path).name}: {told}", ErrorCode.DAMAGE)


def opened(lake: Path, label: Label) -> LakeSnapshot | None:
    """The newest snapshot of a stream's lake, or S.DAMAGE."""
    try:
        return open_snapshot(lake, label)
    except OSError as flaw:
        raise broken(MANIFEST, flaw.strerror) from flaw


def code_of(mode: Mode) -> QueryCode:
    """Where something was to be proved, damage is evidence that failed."""
    return QueryCode.EXECUTION_FAILED if mode is Mode.NONE else QueryCode.EVIDENCE_FAILED


def damaged(mode: Mode, damage: StoreError, stream: str, seq: int) -> QueryError:
    """A file that cannot be read, named at the first row that was wanted."""
    return failed_at(code_of(mode), stream, seq, f"the lake is damaged: {damage.detail}")


@contextmanager
def reading(chunk: Chunk, mode: Mode) -> Iterator[None]:
    """Damage met while a chunk's rows are read ends the query with its code."""
    try:
        yield
    except StoreError as damage:
        raise damaged(mode, damage, chunk.stream, chunk.first) from damage


@contextmanager
def checking(chunk: Chunk) -> Iterator[None]:
    """The same while its events are verified: what cannot be checked does not hold."""
    try:
        with reading(chunk, Mode.FULL):
            yield
    except VeenError:
        raise
    except _MISREAD as flaw:
        damage = broken(chunk.rows_file, flaw)
        raise damaged(Mode.FULL, damage, chunk.stream, chunk.first) from flaw


def find_damage(lake: Path, coverage: Sequence[Coverage], mode: Mode) -> QueryError | None:
    """The first file of a coverage that is not what was written; None when all are."""
    for part in coverage:
        if part.to_seq == 0:
            continue
        try:
            snapshot = opened(lake, part.label)
        except StoreError as damage:
            return damaged(mode, damage, part.stream, part.from_seq)
        if snapshot is None:
            continue
        for segment in snapshot.manifest.find(part.from_seq, part.to_seq):
            for one in segment.files:
                path = snapshot.folder.path(one)
                try:
                    snapshot.folder.check(one)
                except (StoreError, OSError) as flaw:
                    told = broken(path, flaw.detail if isinstance(flaw, StoreError) else flaw)
                    return damaged(mode, told, part.stream, max(part.from_seq, segment.from_seq))
    return None
