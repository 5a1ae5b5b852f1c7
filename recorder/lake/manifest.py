"""The manifest of one stream's lake: which immutable files a snapshot is [architecture, The lake].

    lake/<label>/manifest.json    replaced atomically; `snapshot` rises with each replacement
    lake/<label>/<date>/<first>-<last>.<hash>.<kind>.parquet

Whatever the manifest does not name does not exist: a writer that was killed leaves files behind
that nobody reads, and the next writer removes them. Events that a change of segments owes to the
log stand in the same file, so that no segment is sealed, replaced or pruned without its event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, Self

import msgspec

from hub.canonical_json import Value
from hub.errors import ErrorCode, StoreError
from hub.types import Label

VERSION: Final = 1
BUCKETS: Final = 16  # of the key copy, by subject_id
_PATH: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]+-[0-9]+\.[0-9a-f]{32}\.[a-z]+\.parquet"
)
_HEX32: Final = re.compile(r"[0-9a-f]{64}")


class SegmentState(StrEnum):
    """Live segments are still merged into larger ones; a sealed one is recorded in the log."""

    LIVE = "live"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFile:
    """One immutable file, by its path below the label's folder; the name holds its hash."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile(LakeFile):
    """The key copy: one row group for each bucket that has rows; `buckets` counts them."""

    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is known of a segment without opening it; times are of events that have one."""

    events: int
    errors: Mapping[str, int]  # by error, only those that occur
    groupings: tuple[str, ...] = ()  # in the groups file: fields joined by commas
    min_event_time: int | None
    max_event_time: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of entries of one commit date, in order, as files with the same rows."""

    name: str
    from_seq: int
    to_seq: int
    date: str
    state: SegmentState
    rows: LakeFile
    proofs: LakeFile
    keys: KeyFile | None = None
    groups: LakeFile | None = None
    upto_root: str
    min_hub_commit_time: int
    max_hub_commit_time: int
    summary: Summary
    paths: tuple[str, ...]  # payload paths with a column p_<path> in rows
    key_ids: tuple[int, ...]  # reader keys that were tried on its messages

    @property
    def files(self) -> tuple[LakeFile, ...]:
        """Every file of it."""
        found = (self.rows, self.proofs, self.keys, self.groups)
        return tuple([one for one in found if one is not None])

    def hashes(self) -> dict[str, Value]:
        """What a record in the log says of its files."""
        kinds = ("rows", "proofs", "keys", "groups")
        found = zip(kinds, (self.rows, self.proofs, self.keys, self.groups), strict=True)
        return {kind: one.sha256 for kind, one in found if one is not None}

    def is_within(self, first: int, last: int) -> bool:
        """Whether any of its entries lies in the range."""
        return self.from_seq <= last and first <= self.to_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """An event on `record/infrastructure/lake` that is not recorded yet; the key makes it once."""

    key: str
    event_type: str
    payload: str  # canonical JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """A file that no segment names any more; readers of older snapshots may still have it open."""

    file: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeManifest:
    """One snapshot of one stream's lake."""

    ver: Literal[1] = VERSION
    stream: str
    label: str
    hub_id: str
    snapshot: int = 0
    first_seq: int = 1  # of the first entry that is held; retention takes what is before it
    upto_seq: int = 0
    upto_root: str | None = None
    segments: tuple[Segment, ...] = ()
    owed: tuple[Owed, ...] = ()
    retired: tuple[Retired, ...] = field(default=())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a manifest, or raise S.DAMAGE."""
        try:
            found = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as flaw:
            raise StoreError(f"not a lake manifest: {flaw}", ErrorCode.DAMAGE) from flaw
        found.check()
        return found

    def encode(self) -> bytes:
        """The bytes of the file; the same manifest gives the same bytes."""
        self.check()
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    def check(self) -> None:
        """Raise S.DAMAGE unless segments follow each other from first_seq to upto_seq."""
        if not (_HEX32.fullmatch(self.label) and _HEX32.fullmatch(self.hub_id)):
            raise _damage("label or hub_id is not 64 hex digits")
        following, root = self.first_seq, self.upto_root
        if not self.segments and self.upto_seq != self.first_seq - 1:
            raise _damage("no segments, but upto_seq names entries")
        for segment in self.segments:
            if segment.from_seq != following or segment.to_seq < segment.from_seq:
                raise _damage(f"segment {segment.name} does not start at {following}")
            if segment.summary.events != segment.to_seq - segment.from_seq + 1:
                raise _damage(f"segment {segment.name} counts other events than it spans")
            for one in segment.files:
                # A path from a file is never trusted to stay where it should.
                if not (_PATH.fullmatch(one.file) and _HEX32.fullmatch(one.sha256)):
                    raise _damage(f"segment {segment.name} names an unsafe file")
            following, root = segment.to_seq + 1, segment.upto_root
        if following != self.upto_seq + 1 or root != self.upto_root:
            raise _damage("the segments do not end at upto_seq and upto_root")
        if not all(_PATH.fullmatch(one.file) for one in self.retired):
            raise _damage("an unsafe file is retired")

    @property
    def label_bytes(self) -> Label:
        """The label as the hub knows it."""
        return Label(bytes.fromhex(self.label))

    def find(self, first: int, last: int) -> tuple[Segment, ...]:
        """The segments that hold entries of an inclusive range."""
        return tuple([one for one in self.segments if one.is_within(first, last)])

    def find_window(self, start_ms: int | None, end_ms: int | None) -> tuple[Segment, ...]:
        """The segments that may hold entries committed in an inclusive window."""
        return tuple([
            one
            for one in self.segments
            if (end_ms is None or one.min_hub_commit_time <= end_ms)
            and (start_ms is None or start_ms <= one.max_hub_commit_time)
        ])  # fmt: skip

    def live(self) -> tuple[Segment, ...]:
        """The live segments, which stand behind all sealed ones."""
        return tuple([one for one in self.segments if one.state is SegmentState.LIVE])

    def files(self) -> Iterator[str]:
        """Every file that belongs here: of segments, and of snapshots that are still read."""
        for segment in self.segments:
            for one in segment.files:
                yield one.file
        for gone in self.retired:
            yield gone.file


def _damage(reason: str) -> StoreError:
    return StoreError(f"lake manifest: {reason}", ErrorCode.DAMAGE)
