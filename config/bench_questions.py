"""The questions of `veen bench query`, each as a descriptor and as SQL [interfaces, Benchmarks].

SQL gives the same rows in the same order; texts of a path come from DuckDB's own JSON functions on
`payload_text`, because shredded columns are this lake's own invention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from config.bench_lake import STREAM, BenchLake, commit_time, rows_of
from hub import canonical_json
from hub.canonical_json import Value
from queryapi.contract.descriptor import Descriptor
from queryapi.contract.descriptor_reader import read_submitted
from recorder.event import UnixMillis, format_time

PRINCIPAL: Final = "ab" * 32
ALL_COLUMNS: Final = (
    "stream, hub_commit_seq, hub_commit_time, subject_id, principal_id, event_type, event_time, "
    "origin, payload_text, receipt_id"
)
ORDERED_MAX: Final = 1_000_000

Against = Literal["fetch", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One class of questions; `sql` has `lake` for the rows, and `order` makes them an answer."""

    name: str
    what: str
    source: dict[str, Value]
    sql: str
    order: str = ""
    against: Against  # what the ratio stands beside: rows as they come, or the whole answer
    target: str = ""

    def descriptor(self, lake: BenchLake) -> Descriptor:
        """The question pinned to all of a lake."""
        source = {"scope": [STREAM], "evidence": {"mode": "none"}, **self.source}
        asked = read_submitted(canonical_json.encode(source), query_id=f"bench-{self.name}")
        return asked.asked_by(PRINCIPAL, UnixMillis(0)).pin([lake.coverage])


def questions(events: int) -> list[Question]:
    """All classes over a lake of so many events."""
    return [_lookup(events), *_selections(), *_groups(), *_counts(), ordered("f", events)]


def _lookup(events: int) -> Question:
    # Four hundredths of the time, and whoever is in the middle: some rows in a lake of any size.
    first, last = commit_time(events * 48 // 100 + 1), commit_time(events * 52 // 100)
    subject: str = rows_of(events // 2, events // 2)["subject_id"][0].as_py()
    return Question(
        name="a",
        what="lookup by subject and window",
        source={
            "projection": ["*"],
            "filter": {
                "subject_id": subject,
                "time": {"from": format_time(first), "to": format_time(last)},
            },
        },
        sql=f"SELECT {ALL_COLUMNS} FROM lake WHERE subject_id = '{subject}' "  # noqa: S608
        f"AND hub_commit_time BETWEEN {first} AND {last}",
        order="ORDER BY hub_commit_seq",
        against="fetch",
        target="p50_ms <= 120",
    )


def _selections() -> list[Question]:
    source: dict[str, Value] = {
        "filter": {"event_type": ["http.request.3"]},
        "projection": [
            "hub_commit_seq", "subject_id", "event_time", "payload.status", "payload.user.id",
        ],
    }  # fmt: skip
    sql = (
        "SELECT hub_commit_seq, subject_id, event_time, payload_text->'$.status' AS status, "
        "payload_text->'$.user.id' AS id FROM lake WHERE event_type = 'http.request.3'"
    )
    order = "ORDER BY hub_commit_seq"
    return [
        Question(name="b", what="one event in ten, two payload paths, beside rows only",
                 source=source, sql=sql, order=order, against="fetch"),
        Question(name="b2", what="the same beside canonical rows and their hash",
                 source=source, sql=sql, order=order, against="answer", target="<= 1.1"),
    ]  # fmt: skip


def _groups() -> list[Question]:
    ends = "count(*), min(event_time), max(event_time)"
    metrics: list[Value] = ["count", "min(event_time)", "max(event_time)"]
    common = (("subject_id",), ("event_type", "origin"), ("origin",))
    found = [
        _group("c", ("subject_id", "origin"), metrics, ends, "<= 5"),
        *[_group(f"c_{'_'.join(keys)}", keys, metrics, ends, "<= 1.0") for keys in common],
    ]
    status = "payload_text->'$.status'"
    found.append(
        Question(
            name="c_payload",
            what="count by payload.status",
            source={"aggregate": {"group_by": ["payload.status"], "metrics": ["count"]}},
            sql=f"SELECT {status} AS status, count(*) FROM lake GROUP BY 1",  # noqa: S608
            order="ORDER BY 1",
            against="fetch",
            target="<= 1.0, <= 0.5 at 10^7",
        )
    )
    return found


def _group(
    name: str, keys: tuple[str, ...], metrics: list[Value], ends: str, target: str
) -> Question:
    listed = ", ".join(keys)
    return Question(
        name=name,
        what=f"count, min and max by {listed}",
        source={"aggregate": {"group_by": list(keys), "metrics": metrics}},
        sql=f"SELECT {listed}, {ends} FROM lake GROUP BY {listed}",  # noqa: S608
        order=f"ORDER BY {listed}",
        against="fetch",
        target=target,
    )


def _counts() -> list[Question]:
    count: dict[str, Value] = {"aggregate": {"metrics": ["count"]}}
    status: Value = {"payload": [{"path": "payload.status", "op": "ge", "value": 400}]}
    tag: Value = {"payload": [{"path": "payload.tags.0", "op": "eq", "value": "t7"}]}
    return [
        Question(name="d", what="count of everything", source=count, against="fetch",
                 sql="SELECT count(*) FROM lake", target="<= 1.0"),
        Question(name="d_type", what="count of one event_type",
                 source={**count, "filter": {"event_type": ["http.request.3"]}}, against="fetch",
                 sql="SELECT count(*) FROM lake WHERE event_type = 'http.request.3'",
                 target="<= 1.0"),
        Question(name="d_payload", what="count where payload.status >= 400",
                 source={**count, "filter": status}, against="fetch",
                 sql="SELECT count(*) FROM lake WHERE "
                 "CAST(payload_text->'$.status' AS BIGINT) >= 400",
                 target="<= 1.0, <= 0.5 at 10^7"),
        Question(name="d_path", what="count where payload.tags.0, which has no column, is t7",
                 source={**count, "filter": tag}, against="fetch",
                 sql="SELECT count(*) FROM lake WHERE payload_text->>'$.tags[0]' = 't7'"),
    ]  # fmt: skip


def ordered(name: str, events: int) -> Question:
    """All fields of up to 10^6 rows in order."""
    wanted = min(events, ORDERED_MAX)
    last = commit_time(wanted)
    return Question(
        name=name,
        what=f"rows_hash of the first {wanted} rows, all fields",
        source={"projection": ["*"], "filter": {"time": {"to": format_time(last)}}},
        sql=f"SELECT {ALL_COLUMNS} FROM lake WHERE hub_commit_time <= {last}",  # noqa: S608
        order="ORDER BY hub_commit_seq",
        against="answer",
        target="<= 1.0",
    )
