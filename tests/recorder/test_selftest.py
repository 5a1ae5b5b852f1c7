"""`veen selftest recorder` holds here, and it notices a recorder that does not hold."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from config import cli
from config.selftest import recorder_checks
from config.selftest.bundle import TemporaryBundle
from config.selftest.recorder_ground import SHOP, TILL, Ground
from hub.errors import ErrorCode, VeenError
from hub.selftest.checks import Checks
from recorder.replay_client import ReplayedEvent
from recorder.replay_verify import EventLine

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "bundle", "ways in", "manifest", "replay", "actors", "I1", "I2", "I3", "lake", "evidence",
    "offline", "log",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(580)
def test_a_bundle_records_replays_proves_and_notices_every_lie() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "config.cli", "selftest", "recorder", "--quick", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert [one for one in found["checks"] if not one["ok"]] == []
    assert done.returncode == 0, done.stderr
    assert {one["group"] for one in found["checks"]} == GROUPS
    assert (found["events"], found["failed"]) == (900, 0)
    assert found["manifests"] > 1


def test_a_bundle_that_does_not_start_fails_with_five(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: TemporaryBundle) -> None:
        raise VeenError(ErrorCode.CONFIG, "no room here")

    monkeypatch.setattr(TemporaryBundle, "start", refuse)
    assert cli.run(["selftest", "recorder", "--quick", "--json"]) == 5
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["failed"]) == (False, 1)


@pytest.mark.parametrize(
    ("change", "is_held"),
    [
        ({}, True),
        ({"subject_id": "somebody"}, False),
        ({"event_type": "order.paid"}, False),
        ({"payload": b'{"n":9}'}, False),
    ],
)
def test_one_event_that_is_not_as_it_was_recorded_fails_the_check(
    *, tmp_path: Path, change: dict[str, object], is_held: bool
) -> None:
    ground = Ground(
        bundle=TemporaryBundle(tmp_path), folder=tmp_path, rng=random.Random(1), events=3
    )
    ground.given[TILL] = {"principal": "ab" * 32}
    fields = {
        "stream": SHOP, "hub_commit_seq": 1, "hub_commit_time": "2026-03-01T09:00:00.000Z",
        "subject_id": "person-0", "principal_id": "ab" * 32, "event_type": "order.placed",
        "event_time": "2026-03-01T09:00:00.000Z", "origin": "till", "payload": b'{"n":0}',
        "error": None, "receipt_id": "", "receipt": b"", **change,
    }  # fmt: skip
    ground.recorded = [ReplayedEvent(EventLine(**fields), is_proven=True)]  # type: ignore[arg-type]
    checks = Checks("recorder", lambda _: None)
    kinds = ["order.placed", "order.paid"]
    checks.hold("as recorded", lambda: recorder_checks._as_recorded(ground, TILL, kinds))
    assert checks.is_good() == is_held


def test_help_has_two_examples_and_starts_at_once() -> None:
    code = (
        "import sys; from config import cli; status = cli.run(sys.argv[1:]); "
        "heavy = {'hub.client', 'nacl', 'cbor2', 'django', 'pyarrow', 'pyspark'} & set(sys.modules)"
        "; assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "selftest", "recorder", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, after = done.stdout.partition("Examples:")
    assert len([line for line in after.splitlines() if line.strip().startswith("veen ")]) == 2
