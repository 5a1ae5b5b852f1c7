"""The columns of a segment's files, and how rows become them [architecture, The lake; spark].

`rows` answers questions, `proofs` holds the bytes for evidence, `keys` is a second copy of the key
columns in buckets by subject_id, `groups` counts a segment by its common group keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import combinations
from operator import attrgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hub.types import HubId
from recorder.lake.manifest import BUCKETS, Summary
from recorder.projection import FIELD_NAMES, Fields, Row

HASH: Final = pa.binary(32)
PATH_PREFIX: Final = "p_"
ROWS: Final = pa.schema([
    ("stream", pa.string()),
    ("hub_commit_seq", pa.int64()),
    ("hub_commit_time", pa.int64()),  # milliseconds, like event_time
    ("subject_id", pa.string()),
    ("principal_id", pa.string()),
    ("event_type", pa.string()),
    ("event_time", pa.int64()),
    ("origin", pa.string()),
    ("payload_text", pa.string()),
    ("error", pa.string()),
    ("receipt_id", pa.string()),
    ("leaf_hash", HASH),
    ("mmr_root", HASH),
    ("hub_id", pa.string()),
    ("origin_stream", pa.string()),
    ("origin_seq", pa.int64()),
    ("origin_commit_time", pa.int64()),
    ("origin_receipt_id", pa.string()),
    ("origin_hub_id", pa.string()),
])  # fmt: skip
PROOFS: Final = pa.schema([
    ("hub_commit_seq", pa.int64()),
    ("msg", pa.binary()),
    ("receipt", pa.binary()),
])  # fmt: skip
_KEY_COLUMNS: Final = (
    "subject_id", "hub_commit_seq", "hub_commit_time", "event_type", "event_time", "origin",
    "principal_id",
)  # fmt: skip
KEYS: Final = pa.schema([("bucket", pa.int32()), *(ROWS.field(name) for name in _KEY_COLUMNS)])
GROUP_FIELDS: Final = ("event_type", "origin", "principal_id", "subject_id")
_MEASURED: Final = ("hub_commit_seq", "hub_commit_time", "event_time")
GROUPS: Final = pa.schema([
    ("grouping", pa.string()),  # which of the fields below are keys, joined by commas
    *(ROWS.field(name) for name in GROUP_FIELDS),
    ("events", pa.int64()),
    *((f"{end}_{name}", pa.int64()) for name in _MEASURED for end in ("min", "max")),
])  # fmt: skip
GROUPINGS: Final = tuple(
    ",".join(fields) for count in (1, 2) for fields in combinations(GROUP_FIELDS, count)
)


def path_column(path: str) -> str:
    """The column of a shredded payload path."""
    return PATH_PREFIX + path


def fields_table(stream: str, hub_id: HubId, rows: Sequence[Fields]) -> pa.Table:
    """The rows of one stream as columns, without payload paths."""
    columns = dict(zip(FIELD_NAMES, zip(*rows, strict=True), strict=True))
    shared = {"stream": stream, "hub_id": hub_id.hex()}
    arrays = []
    for field in ROWS:
        if field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        elif field.name in shared:
            arrays.append(pa.repeat(pa.scalar(shared[field.name], field.type), len(rows)))
        else:
            arrays.append(pa.nulls(len(rows), field.type))
    return pa.Table.from_arrays(arrays, schema=ROWS)


def rows_table(rows: Sequence[Row]) -> pa.Table:
    """The same of whole rows, which must be of one stream."""
    read = attrgetter(*FIELD_NAMES)
    return fields_table(rows[0].stream, rows[0].hub_id, [read(row) for row in rows])


def bucket_of(subject_id: str) -> int:
    """The bucket of the key copy in which a subject's events stand."""
    return sha256(subject_id.encode()).digest()[0] % BUCKETS


def keys_table(rows: pa.Table) -> pa.Table:
    """The key copy by (bucket, subject_id, hub_commit_seq), without events that have no subject."""
    found = rows.select(_KEY_COLUMNS).filter(pc.is_valid(rows["subject_id"])).combine_chunks()
    subjects = found["subject_id"].combine_chunks().dictionary_encode()
    buckets = pa.array([bucket_of(one) for one in subjects.dictionary.to_pylist()], pa.int32())
    found = found.add_column(0, KEYS.field("bucket"), buckets.take(subjects.indices))
    order = [("bucket", "ascending"), ("subject_id", "ascending"), ("hub_commit_seq", "ascending")]
    return found.sort_by(order)


def groups_tables(rows: pa.Table) -> dict[str, pa.Table]:
    """Counts and ends for each common grouping; one that saves nothing is left out."""
    measures = [(name, end) for name in _MEASURED for end in ("min", "max")]
    # Texts become numbers once, so that ten groupings do not each hash them again.
    encoded = {
        name: rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        for name in GROUP_FIELDS
    }
    codes = pa.table({
        **{name: column.indices for name, column in encoded.items()},
        **{name: rows[name] for name in _MEASURED},
    })  # fmt: skip
    parts = {}
    for grouping in GROUPINGS:
        fields = grouping.split(",")
        found = codes.group_by(fields).aggregate([([], "count_all"), *measures])
        if 2 * found.num_rows > rows.num_rows:
            continue
        keys = {name: encoded[name].dictionary.take(found[name]) for name in fields}
        nothing = pa.nulls(found.num_rows, pa.string())
        columns = {
            "grouping": pa.repeat(grouping, found.num_rows),
            **{name: keys.get(name, nothing) for name in GROUP_FIELDS},
            "events": found["count_all"],
            **{f"{end}_{name}": found[f"{name}_{end}"] for name, end in measures},
        }
        part = pa.table(columns).select(GROUPS.names).cast(GROUPS)
        parts[grouping] = part.sort_by([(name, "ascending") for name in fields])
    return parts


def groups_table(rows: pa.Table) -> pa.Table:
    """All of them, one after the other, as the groups file has them."""
    parts = groups_tables(rows)
    return pa.concat_tables(parts.values()) if parts else GROUPS.empty_table()


def summarize(rows: pa.Table, groupings: Sequence[str]) -> Summary:
    """What the manifest says of these rows; `groupings` stand in the groups file, in this order."""
    errors = rows["error"].drop_null().value_counts().to_pylist()
    times = pc.min_max(rows["event_time"]).as_py()
    return Summary(
        events=rows.num_rows,
        errors={str(one["values"]): int(one["counts"]) for one in errors},
        groupings=tuple(groupings),
        min_event_time=times["min"],
        max_event_time=times["max"],
    )
