"""`veen query` against a running web process: every command, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings as DjangoSettings
from pytest_django.live_server_helper import LiveServer

from config import cli
from hub.errors import VeenError
from queryapi.cli.desk import _sentence
from queryapi.client import Client
from queryapi.contract.descriptor import Mode
from queryapi.contract.evidence import NOTES
from queryapi.models import Execution, Replay, State
from tests.queryapi.api.conftest import (
    Callers,
    asked,
    bundle,
    callers,
    name,
    read_token,
    shared_hub,
)
from tests.support import query_desk
from tests.support.web_bundle import WebBundle

__all__ = ["asked", "bundle", "callers", "name", "read_token", "shared_hub"]
pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Shell:
    """Types commands as alice."""

    url: str
    token_file: Path
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        where = ("--web-url", self.url, "--token-file", str(self.token_file), "--timeout", "20")
        found = cli.run(["query", words[0], *where, *words[1:]])
        self.out, self.err = self.capsys.readouterr()
        assert found == code, (words, self.out, self.err)
        return self.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def veen(
    live_server: LiveServer,
    callers: Callers,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    settings: DjangoSettings,
) -> Shell:
    path = tmp_path / "alice.token"
    path.touch(mode=0o600)
    path.write_text(callers.alice)
    return Shell(url=live_server.url, token_file=path, capsys=capsys)


@pytest.fixture
def done(veen: Shell, asked: WebBundle, name: str) -> Execution:
    """An answer with full evidence."""
    fields = ("--field", "hub_commit_seq", "--field", "payload.n")
    taken = veen.json("submit", "--scope", name, *fields, "--evidence", "full", "--no-wait")
    return query_desk.complete(asked, taken["result_id"])


def test_flags_file_and_stdin_ask_the_same_question(
    veen: Shell, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = (
        "submit", "--no-wait", "--scope", name, "--event-type", "type.1", "--subject", "subject-1",
        "--from", "2026-01-01T00:00:00Z", "--where", "payload.n", "ge", "3", "--group-by", "origin",
        "--metric", "count", "--metric", "max(payload.n)", "--evidence", "spot",
        "--sample-rate", "0.5", "--reason", "why not",
    )  # fmt: skip
    source = {
        "scope": [name],
        "filter": {
            "event_type": ["type.1"], "subject_id": "subject-1",
            "time": {"from": "2026-01-01T00:00:00Z", "to": None},
            "payload": [{"path": "payload.n", "op": "ge", "value": 3}],
        },
        "aggregate": {"group_by": ["origin"], "metrics": ["count", "max(payload.n)"]},
        "evidence": {"mode": "spot", "sample_rate": 0.5},
        "meta": {"reason": "why not"},
    }  # fmt: skip
    file = tmp_path / "question.json"
    file.write_text(json.dumps(source))
    with file.open("rb") as stdin:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stdin}))
        ids = [
            veen.json(*words)["result_id"]
            for words in (flags, ("submit", str(file), "--no-wait"), ("submit", "-", "--no-wait"))
        ]
    asked = [json.loads(Execution.objects.get(pk=one).descriptor) for one in ids]
    for one in asked:
        del one["query_id"], one["meta"]["requested_at"]
    assert asked[0] == asked[1] == asked[2]


def test_status_list_and_cancel(veen: Shell, name: str) -> None:
    taken = veen.json("submit", "--scope", name, "--no-wait")
    assert veen.json("status", taken["result_id"])["status"] == "pending"
    found = veen.json("list")
    [listed] = found["queries"]
    assert found["next"] is None
    assert listed["query_id"] == taken["query_id"]
    assert veen.json("cancel", taken["result_id"])["error_code"] == "cancelled"
    assert "cancelled" in veen("list")
    veen("result", taken["result_id"], code=4)
    assert "cancelled" in veen.err


def test_a_list_is_one_document_that_says_where_to_go_on(veen: Shell, name: str) -> None:
    assert veen.json("list") == {"queries": [], "next": None}
    ids = [veen.json("submit", "--scope", name, "--no-wait")["result_id"] for _ in range(3)]
    found = veen.json("list", "--limit", "2")
    assert [one["result_id"] for one in found["queries"]] == [ids[2], ids[1]]
    rest = veen.json("list", "--limit", "2", "--after", found["next"])
    assert [one["result_id"] for one in rest["queries"]] == ids[:1]
    assert rest["next"] is None


def test_waiting_too_long_is_a_timeout_and_the_query_goes_on(
    veen: Shell, name: str, done: Execution, tmp_path: Path
) -> None:
    taken = veen.json("submit", "--scope", name, "--no-wait")["result_id"]
    veen("status", taken, "--watch", "--timeout", "0.1", code=9)
    assert "timeout" in veen.err
    folder = tmp_path / "answer"
    veen("result", done.pk, "--save", str(folder))
    veen("replay", str(folder), "--timeout", "0.1", code=9)
    assert veen.json("status", taken)["status"] == "pending"
    client = Client(veen.url, veen.token_file.read_text())
    with pytest.raises(TimeoutError):
        client.result(taken).wait(0.1)
    with pytest.raises(VeenError, match="is not finished"):
        client.result(taken).wait(0.1)


def test_progress_is_a_bar_of_spark_s_own_tasks() -> None:
    status = {"status": "running", "progress": {"step": "rows", "done": 3, "total": 12}}
    assert _sentence(status) == "running  rows  [######..................] 3/12"
    waiting = {"status": "pending", "progress": {"step": None, "done": 0, "total": 0}}
    assert _sentence(waiting) == "pending  "


def test_an_answer_is_shown_with_what_its_evidence_rests_on(veen: Shell, done: Execution) -> None:
    rows = [json.loads(line) for line in veen("result", done.pk).splitlines()]
    assert [row["payload.n"] for row in rows] == list(range(12))
    whole = veen.json("result", done.pk)
    assert whole == {"result_digest": json.loads(done.digest), "rows": rows}
    page = veen.json("result", done.pk, "--offset", "10", "--limit", "5")
    assert len(page["rows"]) == 2
    assert page["evidence_note"] == NOTES[Mode.FULL]


@pytest.mark.parametrize("kind", ["json", "ndjson", "csv", "parquet"])
def test_a_file_has_its_digest_beside_it(
    veen: Shell, done: Execution, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / f"rows.{kind}"
    veen("result", done.pk, "--format", kind, "--json", code=1)
    assert veen.json("result", done.pk, "--format", kind, "--out", str(file)) == {
        "file": str(file), "bytes": file.stat().st_size, "result_digest": json.loads(done.digest),
    }  # fmt: skip
    digest = json.loads((tmp_path / f"rows.{kind}.digest.json").read_text())
    assert digest == json.loads(done.digest)
    if kind == "json":
        assert sha256(file.read_bytes()).hexdigest() == digest["rows_hash"]
    assert file.stat().st_size > 0
    assert NOTES[Mode.FULL] in veen.err.replace("\n", " ")


def test_a_saved_answer_verifies_and_is_replayed(
    veen: Shell,
    done: Execution,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "answer"
    veen("result", done.pk, "--save", str(folder))
    assert cli.run(["query", "verify", str(folder)]) == 0
    capsys.readouterr()
    store: Callable[..., None] = Replay.save

    def ended(self: Replay, *args: Any, **kwargs: Any) -> None:
        """In the worker's place: a replay is over when it is looked at."""
        self.state, self.local_digest = State.COMPLETED, done.digest
        store(self, *args, **kwargs)

    monkeypatch.setattr(Replay, "save", ended)
    assert veen("replay", str(folder)).endswith("\nequal\n")
    claimed = done.digest.replace('"row_count":12', '"row_count":13')
    (folder / "digest.json").write_text(claimed)
    told = veen("replay", str(folder), code=7)
    assert "DIFFERENT  row_count         13 there, 12 here" in told
    assert told.endswith("\nNOT EQUAL\n")
