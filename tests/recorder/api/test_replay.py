"""Replay by range and window, in order, with receipts and proofs [SDR0 3.2.5]."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from pytest_django import Settings as DjangoSettings

from hub.errors import StoreError
from hub.models import Finding
from hub.wire.manifest import Manifest
from hub.wire.msg import Msg
from hub.wire.proof import MmrProof
from hub.wire.receipt import Receipt
from recorder.event import format_time
from recorder.lake.reader import open_snapshot
from recorder.models import AuthoredEvent
from tests.support.web_bundle import LaunchedIngest, WebBundle, bearer, token

pytestmark = pytest.mark.django_db


def replay(web: Client, text: str, **query: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events and the last line of an answer that must be whole."""
    answer = web.get("/api/record/replay", query, headers=bearer(text))
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "application/x-ndjson"
    body = b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    *events, last = [json.loads(line) for line in body.splitlines()]
    assert list(last) == ["end"]
    assert last["end"]["count"] == len(events)
    return events, last["end"]


def refused(web: Client, text: str, status: int, **query: Any) -> dict[str, Any]:
    answer = web.get("/api/record/replay", query, headers=bearer(text))
    assert answer.status_code == status, answer.getvalue()
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def reader(bundle: WebBundle, name: str) -> str:
    bundle.stream(name, f"{name.rpartition('/')[2]}.done")
    return token("reader", streams=(name,))


def test_a_whole_stream_comes_in_order_with_its_receipts(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 25)
    rows = bundle.log.rows(bundle.streams[name])
    events, end = replay(web, reader, stream=name)
    assert [one["hub_commit_seq"] for one in events] == list(range(1, 26))
    for event, row, (receipt, _) in zip(
        events, rows, bundle.log.entries(bundle.streams[name]), strict=True
    ):
        assert base64.b64decode(event["receipt"]) == receipt
        assert event["receipt_id"] == row.receipt_id
        assert event["payload"] == json.loads(row.payload_text or "")
        assert event["hub_commit_time"] == format_time(row.hub_commit_time)
        assert event["principal_id"] == row.principal_id
        assert (event["error"], event["stream"]) == (None, name)
        assert "proof" not in event
    [covered] = end["coverage"]
    assert covered == {
        "stream": name,
        "label": bundle.streams[name].label.hex(),
        "hub_id": bundle.hub.hub_id.hex(),
        "from_seq": 1,
        "to_seq": 25,
        "mmr_root": rows[-1].mmr_root.hex(),
    }
    assert end["unproven"] is None


@pytest.mark.parametrize(
    ("asked", "expected", "covered"),
    [
        ({"from_seq": 3, "to_seq": 5}, [3, 4, 5], (3, 5)),
        ({"from_seq": 5, "to_seq": 5}, [5], (5, 5)),
        ({"to_seq": 2}, [1, 2], (1, 2)),
        ({"from_seq": 6}, [6, 7], (6, 7)),
        ({"from_seq": 6, "to_seq": 1000}, [6, 7], (6, 7)),
        ({"from_seq": 9}, [], (9, 7)),
    ],
)
def test_a_range_is_inclusive_and_cut_at_the_head(  # noqa: PLR0917
    web: Client, bundle: WebBundle, name: str, reader: str, asked: Any, expected: Any, covered: Any
) -> None:
    bundle.record(name, 7)
    events, end = replay(web, reader, stream=name, **asked)
    assert [one["hub_commit_seq"] for one in events] == expected
    [found] = end["coverage"]
    assert (found["from_seq"], found["to_seq"]) == covered
    root = bundle.log.rows(bundle.streams[name])[covered[1] - 1].mmr_root
    assert found["mmr_root"] == root.hex()


@pytest.mark.parametrize(
    "query",
    [
        {"from_seq": 0},
        {"to_seq": 0},
        {"from_seq": 5, "to_seq": 4},
        {"from_seq": -1},
        {"from_seq": "1e3"},
        {"from_seq": "٣"},
        {"from_seq": 10**30},
        {"from_seq": 1, "start_time": "2026-01-01T00:00:00Z"},
        {"start_time": "2026-01-01T00:00:01Z", "end_time": "2026-01-01T00:00:00Z"},
        {"start_time": "yesterday"},
        {"start_time": "2026-01-01T00:00:60Z"},
        {"with_proofs": "yes"},
        {"manifest": "latest"},
        {"to_sec": 5},
        {"from_seq": [1, 2]},
        {"stream": []},
        {"stream": ["record/app/a", "record/app/b"], "from_seq": 1},
        {"stream": [f"record/app/{number}" for number in range(65)]},
    ],
)
def test_a_senseless_question_is_refused(web: Client, bundle: WebBundle, query: Any) -> None:
    bundle.stream("record/app/a")
    text = token("reader", streams=("record/app/a",))
    found = refused(web, text, 400, **({"stream": "record/app/a"} | query))
    assert found["error_code"] == "invalid_parameter"
    assert found["message"]


def test_several_streams_by_window_come_by_stream_then_sequence(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    other, empty = f"{name}-b", f"{name}-c"
    for one in (other, empty):
        bundle.stream(one)
    bundle.record(name, 3)
    bundle.record(other, 2)
    text = token("reader", "all", all_streams=True)
    first = bundle.log.rows(bundle.streams[name])[0].hub_commit_time
    events, end = replay(web, text, stream=[other, empty, name], start_time=format_time(first))
    assert [(one["stream"], one["hub_commit_seq"]) for one in events] == [
        (name, 1), (name, 2), (name, 3), (other, 1), (other, 2),
    ]  # fmt: skip
    assert [one["stream"] for one in end["coverage"]] == [name, other, empty]
    assert (end["coverage"][2]["to_seq"], end["coverage"][2]["mmr_root"]) == (0, None)


def test_a_window_is_inclusive_at_both_ends(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 4)
    times = [row.hub_commit_time for row in bundle.log.rows(bundle.streams[name])]
    inside = {"start_time": format_time(times[0]), "end_time": format_time(times[-1])}
    assert len(replay(web, reader, stream=name, **inside)[0]) == 4
    after = format_time(times[-1] + 1)
    events, end = replay(web, reader, stream=name, start_time=after)
    assert events == []
    assert end["coverage"][0]["to_seq"] == 4  # the whole log was looked at
    assert replay(web, reader, stream=name, end_time=format_time(times[0] - 1))[0] == []


def test_proofs_hold_against_the_manifest_and_what_is_above_has_none(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 11)
    manifest_id = bundle.log.checkpoint()
    bundle.record(name, 3)
    events, end = replay(web, reader, stream=name, from_seq=4, with_proofs=1)
    assert (end["manifest_id"], end["unproven"]) == (manifest_id, 3)
    answer = web.get("/api/record/manifests/latest", headers=bearer(reader)).json()
    manifest = Manifest.decode(base64.b64decode(answer["manifest"]))
    manifest.verify(bundle.hub_pk)
    checkpoint = manifest.checkpoint(bundle.streams[name].label)
    assert checkpoint is not None
    assert manifest.id.hex() == manifest_id
    for event in events:
        msg = Msg.decode(base64.b64decode(event["msg"]))
        receipt = Receipt.decode(base64.b64decode(event["receipt"]))
        assert msg.leaf_hash() == receipt.leaf_hash
        if event["hub_commit_seq"] > 11:
            assert event["proof"] is None
            continue
        proof = MmrProof.decode(base64.b64decode(event["proof"]))
        assert proof.leaf_hash == receipt.leaf_hash
        proof.verify(
            stream_seq=event["hub_commit_seq"],
            mmr_size=checkpoint.upto_seq,
            root=checkpoint.mmr_root,
        )


def test_an_older_manifest_can_be_chosen_and_an_unknown_one_is_not_found(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 4)
    older = bundle.log.checkpoint()
    bundle.record(name, 4)
    bundle.log.checkpoint()
    _, end = replay(web, reader, stream=name, with_proofs=1, manifest=older)
    assert (end["manifest_id"], end["unproven"]) == (older, 4)
    found = refused(web, reader, 404, stream=name, manifest="ab" * 32)
    assert found["error_code"] == "not_found"


def test_an_unknown_stream_and_a_closed_one_look_the_same(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.stream(f"{name}-closed")
    answers = [
        refused(web, reader, 403, stream=[name, asked])
        for asked in (f"{name}-closed", f"{name}-none", "../etc", "x\0y", "RECORD/app", "é" * 500)
    ]
    assert {one["error_code"] for one in answers} == {"forbidden_stream"}
    assert len({json.dumps({**one, "request_id": ""}) for one in answers}) == 1


def test_the_lake_is_brought_up_and_only_when_it_is_behind(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 6)
    replay(web, reader, stream=name, to_seq=4)
    assert LaunchedIngest.asked == [{name: 4}]
    replay(web, reader, stream=name, to_seq=4)
    assert LaunchedIngest.asked == [{name: 4}]
    assert len(replay(web, reader, stream=name)[0]) == 6
    assert LaunchedIngest.asked == [{name: 4}, {name: 6}]


def test_a_lake_that_stays_behind_is_said_and_not_hidden(
    web: Client, bundle: WebBundle, name: str, reader: str, settings: DjangoSettings
) -> None:
    settings.VEEN_LAKE_LAUNCHER = "recorder.lake_launcher.NoLauncher"
    bundle.record(name, 2)
    answer = web.get("/api/record/replay", {"stream": name}, headers=bearer(reader))
    assert (answer.status_code, answer.json()["error_code"]) == (503, "lake_behind")
    assert int(answer["Retry-After"]) > 0


def test_an_event_nobody_can_open_is_a_line_with_its_error(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    stream = bundle.streams[name]
    bundle.log.commit([stream.event(), stream.message(b"no event"), stream.event()])
    events, _ = replay(web, reader, stream=name)
    assert [one["error"] for one in events] == [None, "undecodable", None]
    odd = events[1]
    assert [odd[key] for key in ("subject_id", "event_type", "event_time", "payload")] == [None] * 4
    assert odd["receipt"]
    assert odd["principal_id"]


def test_a_hub_that_is_down_is_hub_unavailable(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.status(hub_url="http://127.0.0.1:9")
    answer = web.get("/api/record/replay", {"stream": name}, headers=bearer(reader))
    assert (answer.status_code, answer.json()["error_code"]) == (503, "hub_unavailable")
    assert int(answer["Retry-After"]) > 0


def test_an_administrator_who_reads_is_recorded_and_a_reader_is_not(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 2)
    replay(web, reader, stream=name)
    assert not AuthoredEvent.objects.exists()
    replay(web, token("admin", "ops"), stream=name, to_seq=1)
    [row] = AuthoredEvent.objects.all()
    assert (row.stream, row.event_type) == ("record/infrastructure/changes", "stream.replayed")
    assert row.subject_id == "token:ops"
    assert json.loads(row.payload_text)["to_seq"] == 1


def test_a_row_that_is_not_of_its_receipt_cuts_the_answer_and_is_a_finding(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 3)
    replay(web, reader, stream=name)
    path = rows_of(bundle, name)
    table = pq.read_table(path, partitioning=None)
    leaves = pa.array([bytes(32)] * table.num_rows, table.schema.field("leaf_hash").type)
    place = table.schema.get_field_index("leaf_hash")
    pq.write_table(table.set_column(place, table.schema.field(place), leaves), path)
    refused(web, reader, 500, stream=name)
    finding = Finding.objects.get()
    assert (finding.code, finding.severity) == ("S.DAMAGE", "critical")
    assert finding.object == f"replay of {name}"
    assert "not of the receipt" in finding.detail


def test_a_lake_file_that_is_gone_is_a_finding(
    web: Client, bundle: WebBundle, name: str, reader: str
) -> None:
    bundle.record(name, 3)
    replay(web, reader, stream=name)
    rows_of(bundle, name).unlink()
    refused(web, reader, 500, stream=name)
    assert "is missing" in Finding.objects.get().detail


def test_what_fails_behind_the_first_piece_is_a_finding_too(
    web: Client, bundle: WebBundle, name: str
) -> None:
    later = f"{name}-z"
    for one, count in ((name, 300), (later, 3)):
        bundle.stream(one)
        bundle.record(one, count)
    reader = token("reader", streams=(name, later))
    replay(web, reader, stream=[name, later])
    rows_of(bundle, later).unlink()
    answer = web.get("/api/record/replay", {"stream": [name, later]}, headers=bearer(reader))
    assert answer.status_code == 200
    with pytest.raises(StoreError):
        list(answer.streaming_content)  # type: ignore[attr-defined]
    assert Finding.objects.get().object == f"replay of {name}, {later}"


def rows_of(bundle: WebBundle, name: str) -> Path:
    """The one file of rows that a replay reads."""
    snapshot = open_snapshot(bundle.lake, bundle.streams[name].label)
    assert snapshot is not None
    [segment] = snapshot.manifest.segments
    return snapshot.folder.path(segment.rows)
