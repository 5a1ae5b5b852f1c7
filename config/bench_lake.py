"""A synthetic lake for benchmarks, written by the lake's own writer [interfaces, Benchmarks].

Every event is a function of its sequence, so a lake of any size is made without a log: segments,
shredded columns, key copies, summaries and manifest are those that ingest writes. Only leaves,
roots and proofs stand for nothing: questions that ask for no evidence never open them.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hub.crypto.hashing import h
from hub.types import HubId, Label, MmrRoot
from queryapi.contract.coverage import Coverage
from recorder.lake import compaction
from recorder.lake.columns import HASH, PROOFS, ROWS
from recorder.lake.folder import LakeFolder
from recorder.lake.manifest import LakeManifest, Segment, SegmentState
from recorder.lake.segments import SEGMENT_EVENTS_MAX, SegmentContent, write_segment

STREAM: Final = "record/app/bench"
LABEL: Final = Label(h(b"bench lake"))
HUB_ID: Final = HubId(h(b"bench hub"))
SUBJECTS: Final = 20_000
ORIGINS: Final = 20
TYPES: Final = 10
PRINCIPALS: Final = 8
START_MS: Final = 1_767_225_600_000  # 2026-01-01
SEGMENT_MS: Final = 6 * 3_600_000  # of commit time in one segment: four make a day
_MIX: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLake:
    """A lake with one stream of sealed segments."""

    root: Path
    events: int
    manifest: LakeManifest

    @property
    def coverage(self) -> Coverage:
        """All of it."""
        assert self.manifest.upto_root is not None
        return Coverage(
            stream=STREAM,
            label=LABEL,
            hub_id=HUB_ID,
            from_seq=1,
            to_seq=self.events,
            mmr_root=MmrRoot(bytes.fromhex(self.manifest.upto_root)),
        )

    @property
    def rows_files(self) -> list[str]:
        """What another engine reads to see the same rows."""
        folder = LakeFolder.of(self.root, LABEL)
        return [str(folder.path(one.rows)) for one in self.manifest.segments]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for one in self.manifest.segments for file in one.files)


def make_lake(root: Path, events: int) -> BenchLake:
    """Segments as large as ingest cuts them, written on all cores."""
    folder = LakeFolder.of(root, LABEL)
    ranges = [
        (str(root), first, min(first + SEGMENT_EVENTS_MAX - 1, events))
        for first in range(1, events + 1, SEGMENT_EVENTS_MAX)
    ]
    context = multiprocessing.get_context("spawn")
    with folder.locked(), context.Pool(os.cpu_count() or 1) as pool:
        segments = pool.map(_write, ranges, chunksize=1)
        empty = LakeManifest(stream=STREAM, label=LABEL.hex(), hub_id=HUB_ID.hex())
        now_ms = START_MS
        manifest = compaction.append(folder, empty, segments, now_ms=now_ms)
        published = folder.publish(None, manifest, now_ms=now_ms)
    return BenchLake(root=root, events=events, manifest=published)


def commit_time(seq: int) -> int:
    """When an event was committed: whole seconds, never going back."""
    number, place = divmod(seq - 1, SEGMENT_EVENTS_MAX)
    inside = place * (SEGMENT_MS // 1000) // SEGMENT_EVENTS_MAX * 1000
    return START_MS + number * SEGMENT_MS + inside


def _write(span: tuple[str, int, int]) -> Segment:
    root, first, last = span
    folder = LakeFolder.of(Path(root), LABEL)
    rows = rows_of(first, last)
    count = last - first + 1
    nothing = pa.repeat(pa.scalar(b"", pa.binary()), count)
    content = SegmentContent(
        rows=rows,
        proofs=pa.Table.from_arrays([rows["hub_commit_seq"], nothing, nothing], schema=PROOFS),
        upto_root=MmrRoot(rows["mmr_root"][-1].as_py()),
        key_ids=(1,),
    )
    return write_segment(folder, content, SegmentState.SEALED)


def rows_of(first: int, last: int) -> pa.Table:
    """The rows of an inclusive range."""
    count = last - first + 1
    rng = random.Random(first)  # noqa: S311 - bytes that stand for hashes
    seqs = pa.array(range(first, last + 1), pa.int64())
    leaves = rng.randbytes(32 * count)
    times = pa.array([commit_time(seq) for seq in range(first, last + 1)], pa.int64())
    lag = _below(_mixed(seqs, 3), 5_000)
    principals = pa.array([h(b"principal %d" % one).hex() for one in range(PRINCIPALS)])
    columns = {
        "stream": pa.repeat(STREAM, count),
        "hub_commit_seq": seqs,
        "hub_commit_time": times,
        "subject_id": _joined("user-", _below(_mixed(seqs, 0), SUBJECTS)),
        "principal_id": principals.take(_below(_mixed(seqs, 2), PRINCIPALS)),
        "event_type": _joined("http.request.", _below(seqs, TYPES)),
        "event_time": pc.subtract(times, lag),
        "origin": _joined("web-", _below(_mixed(seqs, 1), ORIGINS)),
        "payload_text": _payloads(seqs),
        "error": pa.nulls(count, pa.string()),
        "receipt_id": _joined("rcpt-", _texts(leaves.hex(), 64)),
        "leaf_hash": _fixed(leaves),
        "mmr_root": _fixed(rng.randbytes(32 * count)),
        "hub_id": pa.repeat(HUB_ID.hex(), count),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in ROWS]
    return pa.Table.from_arrays(arrays, schema=ROWS)


def _payloads(seqs: pa.Array) -> pa.Array:
    """Canonical JSON: numbers, texts, an object, an array; keys in their order."""
    status = pc.add(pc.multiply(_below(_mixed(seqs, 4), 5), 100), 200)
    return _joined(
        '{"ms":', _below(_mixed(seqs, 5), 977),
        ',"path":"/api/items/', _below(_mixed(seqs, 6), 997),
        '","status":', status,
        ',"tags":["t', _below(_mixed(seqs, 7), 50),
        '","all"],"trace":"', pc.utf8_lpad(_mixed(seqs, 8).cast(pa.string()), 32, "0"),
        '","user":{"id":', _below(_mixed(seqs, 0), SUBJECTS),
        ',"role":"buyer"}}',
    )  # fmt: skip


def _mixed(seqs: pa.Array, salt: int) -> pa.Array:
    """Numbers that look random; arithmetic of 64 bits wraps."""
    value = pc.add(seqs.cast(pa.uint64()), pa.scalar(salt * 1_000_003, pa.uint64()))
    for factor in _MIX:
        value = pc.multiply(value, pa.scalar(factor, pa.uint64()))
        value = pc.bit_wise_xor(value, pc.shift_right(value, pa.scalar(31, pa.uint64())))
    return value


def _below(values: pa.Array, end: int) -> pa.Array:
    """The remainder, as int64."""
    divisor = pa.scalar(end, values.type)
    rest = pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))
    return rest.cast(pa.int64())


def _joined(*parts: str | pa.Array) -> pa.Array:
    texts = [
        part if isinstance(part, str) else part.cast(pa.string())
        for part in parts
    ]  # fmt: skip
    return pc.binary_join_element_wise(*texts, "")


def _texts(data: str, size: int) -> pa.Array:
    """Texts of one size, cut from one."""
    whole = pa.Array.from_buffers(
        pa.binary(size), len(data) // size, [None, pa.py_buffer(data.encode())]
    )
    return whole.cast(pa.binary()).cast(pa.string())


def _fixed(data: bytes) -> pa.Array:
    return pa.Array.from_buffers(HASH, len(data) // 32, [None, pa.py_buffer(data)])
