"""`veen selftest query` holds here, and it notices an engine that answers otherwise."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from config import cli
from config.selftest import query as selftest
from config.selftest.bundle import TemporaryBundle
from config.selftest.engines import EnginePlan
from config.selftest.query_ground import STREAMS, Ground
from hub.errors import ErrorCode, VeenError
from hub.selftest.checks import Check, Checks
from tests.support.query_rows import coverage_of, random_rows

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {"bundle", "modes", "paging", "cancel", "tamper", "restart", "engines"}


def silent(_: str) -> None:
    """Show no progress."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(580)
def test_a_bundle_answers_alike_however_it_is_asked_killed_or_forged() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "config.cli", "selftest", "query", "--quick", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert [one for one in found["checks"] if not one["ok"]] == []
    assert done.returncode == 0, done.stderr
    assert {one["group"] for one in found["checks"]} == GROUPS
    assert found["answered"] > found["failing_alike"]


@pytest.fixture
def ground(rng: random.Random, tmp_path: Path) -> Ground:
    """Events without a bundle: enough to ask about."""
    made = Ground(bundle=TemporaryBundle(tmp_path), folder=tmp_path, rng=rng)
    rows = [row for name in STREAMS[:2] for row in random_rows(rng, name, 30)]
    made.events = [(row, b"") for row in rows]
    made.coverage = {name: coverage_of(rows, name) for name in STREAMS}
    return made


@pytest.mark.parametrize("field", ["rows_hash", "evidence_hash", "unreadable_count", None])
def test_one_digest_that_differs_fails_the_pass_and_is_told_whole(
    ground: Ground, field: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [ground.question(number) for number in range(6)]
    expected = [selftest._expected(ground, one) for one in asked]
    number = next(i for i, one in enumerate(expected) if "rows_hash" in one)

    def engine(plan: EnginePlan, descriptors: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        for position, one in enumerate(expected):
            changed = {} if field is None or position != number else {field: "another"}
            yield one | changed

    monkeypatch.setattr(selftest, "answers", engine)
    checks = Checks("query", lambda _: None)
    plan = EnginePlan(state=ground.folder, master="local[1]", passes=[(1,)])
    checks.section("engines", lambda: selftest._compare(checks, plan, asked, expected, silent))
    if field is None:
        assert checks.is_good()
        return
    [failed] = [one for one in checks.made if not one.ok]
    assert asked[number].query_id in failed.detail


def test_an_engine_that_says_less_fails(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [ground.question(number) for number in range(3)]
    expected = [selftest._expected(ground, one) for one in asked]
    monkeypatch.setattr(selftest, "answers", lambda *_: iter(expected[:-1]))
    checks = Checks("query", lambda _: None)
    plan = EnginePlan(state=ground.folder, master="local[1]", passes=[(1,)])
    checks.section("engines", lambda: selftest._compare(checks, plan, asked, expected, silent))
    assert checks.failed == 1


def test_a_bundle_that_does_not_start_fails_with_five(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: TemporaryBundle) -> None:
        raise VeenError(ErrorCode.CONFIG, "no room here")

    monkeypatch.setattr(TemporaryBundle, "start", refuse)
    assert cli.run(["selftest", "query", "--quick", "--json"]) == 5
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["ok"], found["failed"]) == (False, 1)
    assert Check(**found["checks"][0]).line() in err


@pytest.mark.parametrize("command", ["query", "all"])
def test_help_has_two_examples_and_starts_at_once(command: str) -> None:
    code = (
        "import sys; from config import cli; status = cli.run(sys.argv[1:]); "
        "heavy = {'hub.client', 'nacl', 'cbor2', 'django', 'pyarrow', 'pyspark'} & set(sys.modules)"
        "; assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "selftest", command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, after = done.stdout.partition("Examples:")
    assert len([line for line in after.splitlines() if line.strip().startswith("veen ")]) == 2
