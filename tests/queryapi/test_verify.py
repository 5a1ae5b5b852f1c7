"""A saved answer, offline: what holds, and what each change of it breaks [assurance C18]."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from config import cli
from hub.types import PublicKey
from hub.verify_report import Report
from queryapi.cli.verify import verify
from queryapi.client import DESCRIPTOR, DIGEST, EVIDENCE, ROWS
from queryapi.contract.digest import ResultDigest
from queryapi.contract.evaluate import evaluate
from queryapi.contract.rows import rows_bytes
from queryapi.verify import verify_saved
from recorder.projection import Row
from tests.support import query_vectors

CASES = {case["name"]: case for case in query_vectors.cases("answers")}
HUB_PK = PublicKey(bytes.fromhex(query_vectors.load("corpus")["hub_pk"]))


def save(folder: Path, name: str, first: int = 1) -> Path:
    descriptor = query_vectors.pinned(CASES[name]["source"])
    assert descriptor.coverage is not None
    descriptor = descriptor.pin([replace(one, from_seq=first) for one in descriptor.coverage])
    answer = evaluate(descriptor, query_vectors.corpus_rows())
    digest = ResultDigest(
        query_id=descriptor.query_id,
        result_id=descriptor.result_id,
        row_count=len(answer.rows),
        evidence_policy=descriptor.evidence,
        rows_hash=answer.rows_hash,
        evidence_hash=answer.evidence_hash,
        executed_at="2026-03-02T12:00:00.000Z",
        hub_id="ab" * 32,
        profile_id="cd" * 32,
        unreadable_count=answer.unreadable_count,
    )
    folder.mkdir(exist_ok=True)
    (folder / DESCRIPTOR).write_bytes(descriptor.canonical())
    (folder / DIGEST).write_bytes(digest.canonical())
    (folder / ROWS).write_bytes(rows_bytes(answer.rows))
    (folder / EVIDENCE).write_bytes(answer.evidence)
    return folder


def events() -> list[tuple[Row, bytes]]:
    receipts = [
        receipt
        for stream in query_vectors.corpus_coverage()
        for _, receipt in query_vectors.corpus_entries(stream)
    ]
    return list(zip(query_vectors.corpus_rows(), receipts, strict=True))


def failed(report: Report) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


@pytest.mark.parametrize("name", CASES)
def test_every_published_answer_verifies_and_is_computed_again(tmp_path: Path, name: str) -> None:
    report = verify_saved(save(tmp_path / "a", name), events=events(), hub_pk=HUB_PK)
    assert report.is_valid(), failed(report)
    assert len(report.checks) == 9


@pytest.mark.parametrize(
    ("file", "old", "new", "broken"),
    [
        (ROWS, '"payload.n":3', '"payload.n":4', "rows_hash covers the rows"),
        (ROWS, "},{", "}, {", "rows_hash covers the rows"),
        (EVIDENCE, '"seq":3', '"seq":4', "evidence_hash covers the evidence"),
        (DIGEST, '"row_count":4', '"row_count":5', "rows_hash covers the rows"),
        (DESCRIPTOR, "login.ok", "login.oj", "the digest is of this descriptor"),
        (DESCRIPTOR, '"to_seq":10', '"to_seq":9', "the digest is of this descriptor"),
        (DIGEST, '"mode":"full"', '"mode":"none"', "the digest is of this descriptor"),
    ],
)
def test_a_changed_file_breaks_the_check_that_covers_it(
    tmp_path: Path, file: str, old: str, new: str, broken: str
) -> None:
    folder = save(tmp_path / "a", "full evidence")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    assert broken in failed(verify_saved(folder, hub_pk=None))


def test_evidence_of_fewer_rows_than_sampled_is_a_downgrade(tmp_path: Path) -> None:
    """The digest can be made to fit, but the sample follows from the descriptor alone."""
    folder = save(tmp_path / "a", "full evidence")
    summary = json.loads((folder / EVIDENCE).read_text())
    del summary["verified"][2]
    text = json.dumps(summary, separators=(",", ":"), sort_keys=True)
    (folder / EVIDENCE).write_text(text)
    assert any(name.startswith("the evidence is") for name in failed(
        verify_saved(folder, hub_pk=None)))  # fmt: skip


def test_other_events_give_another_answer(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", "full evidence")
    fewer = events()[:-1]
    assert failed(verify_saved(folder, events=fewer, hub_pk=HUB_PK)) == [
        "the events fold to the roots of the coverage"
    ]
    stranger = PublicKey(bytes(32))
    assert failed(verify_saved(folder, events=events(), hub_pk=stranger)) == [
        "every event's receipt is signed by the pinned key"
    ]


def test_the_command_lists_every_check_and_its_exit_code_tells(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", "full evidence")
    found = CliRunner().invoke(verify, [str(folder), "--json"], standalone_mode=False)
    assert (found.return_value, json.loads(found.output)["valid"]) == (0, True)
    (folder / ROWS).write_text("[]")
    found = CliRunner().invoke(verify, [str(folder)], standalone_mode=False)
    assert found.return_value == 7
    assert "FAILED" in found.output
    (folder / DIGEST).unlink()
    found = CliRunner().invoke(verify, [str(folder)], standalone_mode=False)
    assert found.return_value == 7
    assert "FAILED" in found.output
    assert "digest.json: No such file" in found.output


@pytest.mark.parametrize("file", [ROWS, EVIDENCE, DESCRIPTOR, DIGEST])
@pytest.mark.parametrize("content", [None, b"", b"{ }", b"\xff"])
def test_a_file_that_is_missing_or_mangled_is_a_check_that_fails(
    tmp_path: Path, file: str, content: bytes | None
) -> None:
    folder = save(tmp_path / "a", "full evidence")
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    events = tmp_path / "events.ndjson"
    events.write_text("")
    options = [str(folder), "--events", str(events), "--json"]
    found = CliRunner().invoke(verify, options, standalone_mode=False)
    assert found.return_value == 7, found.output
    report = json.loads(found.output)
    assert not report["valid"]
    assert any(not one["ok"] for one in report["checks"])


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"stream":1}', '{"a":NaN}', "\x00"])
def test_a_line_that_is_no_event_is_a_check_that_fails(tmp_path: Path, line: str) -> None:
    folder = save(tmp_path / "a", "full evidence")
    path = tmp_path / "events.ndjson"
    path.write_text(line + "\n")
    report = verify_saved(folder, events_file=path, hub_pk=HUB_PK)
    assert failed(report) == ["the events are well-formed"]
    assert "line 1" in report.checks[-1].detail


@pytest.mark.parametrize("hub_pk", [HUB_PK, None], ids=["pinned", "unpinned"])
def test_an_answer_over_a_pruned_stream_is_valid_and_says_what_that_rests_on(
    tmp_path: Path, hub_pk: PublicKey | None
) -> None:
    folder = save(tmp_path / "a", "full evidence", first=3)
    scope = json.loads((folder / DESCRIPTOR).read_text())["scope"]
    kept = [(row, data) for row, data in events()
            if row.hub_commit_seq >= 3 and row.stream in scope]  # fmt: skip
    report = verify_saved(folder, events=kept, hub_pk=hub_pk)
    assert report.is_valid(), failed(report)
    [told] = [one.detail for one in report.checks if one.name.startswith("the events fold")]
    assert "its start was pruned" in told
    assert ("--hub-pk" in told) is (hub_pk is None)
    for gone in (0, len(kept) // 2, len(kept) - 1):
        fewer = kept[:gone] + kept[gone + 1 :]
        assert "the events fold to the roots of the coverage" in failed(
            verify_saved(folder, events=fewer, hub_pk=hub_pk)
        )


def test_verify_at_the_top_takes_an_answer_for_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "a", "full evidence")
    words = ["verify", str(folder), "--hub-pk", HUB_PK.hex(), "--json"]
    assert cli.run(words) == 0
    assert json.loads(capsys.readouterr().out)["subject"] == "query result"
    path = tmp_path / "events.ndjson"
    path.write_text("{}\n")
    assert cli.run([*words, "--events", str(path)]) == 7
    (folder / ROWS).write_text("[]")
    assert cli.run(words) == 7
    capsys.readouterr()
    assert cli.run(["verify", str(path), "--events", str(path)]) == 1
    assert "saved answer" in capsys.readouterr().err


def test_asking_and_verifying_load_no_framework() -> None:
    code = (
        "import sys, queryapi.client, queryapi.verify, queryapi.cli.submit, queryapi.cli.answers;"
        "print([m for m in ('django', 'pyspark', 'celery', 'pyarrow') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"
