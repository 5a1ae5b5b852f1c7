"""A hash over all events of each group, in (stream, seq) order, made by tasks [query, Evidence].

Tasks that verify deal the leaves of their events into buckets by group; one task for each bucket
then hashes its groups, taking the runs in order.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from queryapi.contract.descriptor import Aggregate
from spark_jobs.query_batch import Batch
from spark_jobs.query_groups import group_codes
from spark_jobs.query_tables import load, save

GROUP: Final = "group"
LEAF: Final = "leaf_hash"
EVENTS: Final = "events"
HASH: Final = "hash"
_LEAF_BYTES: Final = 32
_NOTHING: Final = pa.scalar("")


def group_names(keys: Sequence[pa.Array], rows: int) -> pa.Array:
    """The values of each group as one canonical text."""
    if not keys:
        return pa.repeat(pa.scalar("[]"), rows)
    parts: list[pa.Array | pa.Scalar] = [pa.scalar("[")]
    for number, key in enumerate(keys):
        parts += [pa.scalar("," if number else ""), key]
    return pc.binary_join_element_wise(*parts, pa.scalar("]"), _NOTHING)


def groups_of(asked: Aggregate, batch: Batch) -> tuple[pa.Array, pa.Array]:
    """A number for the group of each event, and the name that each number stands for."""
    codes, keys = group_codes(asked, batch)
    count = pc.max(codes).as_py() + 1 if len(codes) else 0
    return codes, group_names(keys, max(count, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """Where a run left the leaves of its events: a file for each bucket that got any."""

    files: dict[int, str]


class LeafDealer:
    """Gathers leaves by group and writes them in buckets."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._tables: list[pa.Table] = []

    def add(self, groups: pa.Array, leaves: pa.Array) -> None:
        """Events of a batch: the name of each one's group, and its leaf."""
        self._tables.append(pa.table({GROUP: groups, LEAF: leaves}))

    def finish(self, parts: Path, number: int) -> Dealt:
        """Write one file for each bucket."""
        if not self._tables:
            return Dealt(files={})
        table = pa.concat_tables(self._tables).combine_chunks()
        encoded = table[GROUP].combine_chunks().dictionary_encode()
        places = [
            zlib.crc32(name.encode()) % self._buckets for name in encoded.dictionary.to_pylist()
        ]
        buckets = pa.array(places, pa.int32()).take(encoded.indices)
        files = {}
        for bucket in pc.unique(buckets).to_pylist():
            path = parts / f"{number:06}-{secrets.token_hex(8)}.b{bucket}.arrow"
            own = pc.equal(buckets, pa.scalar(bucket, pa.int32()))
            files[bucket] = save(table.filter(own), path)
        return Dealt(files=files)


def hash_bucket(parts: Path, number: int, files: Sequence[str]) -> str:
    """A task: every group of a bucket with its events counted and hashed, as a table."""
    table = pa.concat_tables([load(path) for path in files]).combine_chunks()
    encoded = table[GROUP].combine_chunks().dictionary_encode()
    order = pc.sort_indices(encoded.indices)  # Stable: events of a group stay in their order.
    leaves = memoryview(_flat(table[LEAF].combine_chunks().take(order)))
    counts = pc.value_counts(encoded.indices)
    by_code = dict(
        zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    )
    events, hashes, at = [], [], 0
    for code in range(len(encoded.dictionary)):
        size = by_code[code] * _LEAF_BYTES
        hashes.append(sha256(leaves[at : at + size]).hexdigest())
        events.append(by_code[code])
        at += size
    found = pa.table({GROUP: encoded.dictionary, EVENTS: events, HASH: hashes})
    path = parts / f"{number:06}-{secrets.token_hex(8)}.groups.arrow"
    return save(found, path)


def _flat(leaves: pa.Array) -> pa.Buffer:
    """The bytes of all leaves, one after the other."""
    data = leaves.buffers()[1]
    start = leaves.offset * _LEAF_BYTES
    return data.slice(start, len(leaves) * _LEAF_BYTES)
