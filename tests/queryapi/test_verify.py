"""A saved answer, offline: what holds, and what each change of it breaks [assurance C18]."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

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


def save(folder: Path, name: str) -> Path:
    descriptor = query_vectors.pinned(CASES[name]["source"])
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
    assert len(report.checks) == 8


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
    assert found.return_value == 1


def test_asking_and_verifying_load_no_framework() -> None:
    code = (
        "import sys, queryapi.client, queryapi.verify, queryapi.cli.submit, queryapi.cli.answers;"
        "print([m for m in ('django', 'pyspark', 'celery', 'pyarrow') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"
