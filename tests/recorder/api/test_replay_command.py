"""`veen recorder replay` prints what verified, and says so on stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings
from pytest_django.live_server_helper import LiveServer

from tests.support.web_bundle import WebBundle, token

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[3]
RUN = "import sys; from config.cli import main; sys.exit(main())"


@pytest.fixture
def options(live_server: LiveServer, bundle: WebBundle, name: str, tmp_path: Path) -> list[str]:
    bundle.stream(name)
    bundle.record(name, 12)
    bundle.log.checkpoint()
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(token("reader", streams=(name,)))
    return ["--web-url", live_server.url, "--token-file", str(path), "--state-dir", str(tmp_path)]


def veen(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "recorder", "replay", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_json_is_ndjson_with_its_end(bundle: WebBundle, name: str, options: list[str]) -> None:
    done = veen(name, "--hub-pk", bundle.hub_pk.hex(), "--from", "3", "--json", *options)
    assert done.returncode == 0, done.stderr
    *events, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["hub_commit_seq"] for one in events] == list(range(3, 13))
    assert "msg" not in events[0]
    assert end["end"]["count"] == 10
    assert "10 events verified against manifest" in done.stderr


def test_people_get_lines(bundle: WebBundle, name: str, options: list[str]) -> None:
    done = veen(name, "--hub-pk", bundle.hub_pk.hex(), "--to", "2", *options)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{name} 1 ")
    assert "proven" in second
    assert "type.1 subject-1" in second


def test_a_hub_that_is_not_the_pinned_one_is_exit_7_and_prints_nothing(
    name: str, options: list[str]
) -> None:
    done = veen(name, "--hub-pk", "ab" * 32, *options)
    assert (done.returncode, done.stdout) == (7, "")
    assert "V.TRUST" in done.stderr


def test_without_a_pinned_key_it_refuses_and_unverified_is_said_aloud(
    name: str, options: list[str]
) -> None:
    assert veen(name, *options).returncode == 7
    done = veen(name, "--no-verify", *options)
    assert done.returncode == 0
    assert "NOT verified" in done.stderr


def test_a_closed_stream_is_refused_with_its_code(bundle: WebBundle, options: list[str]) -> None:
    done = veen("record/app/other", "--hub-pk", bundle.hub_pk.hex(), *options)
    assert done.returncode == 4
    assert "forbidden_stream" in done.stderr


def test_a_lake_that_is_behind_ends_the_stream_with_a_line_that_says_so(
    bundle: WebBundle, name: str, options: list[str], settings: Settings
) -> None:
    settings.VEEN_LAKE_LAUNCHER = "recorder.lake_launcher.NoLauncher"
    bundle.record(name, 1)
    pinned = ("--hub-pk", bundle.hub_pk.hex(), "--timeout", "0.1", "--json")
    done = veen(name, *pinned, *options)
    assert done.returncode == 9, done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "lake_behind"
    assert "wait longer" in done.stderr
