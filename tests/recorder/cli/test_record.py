"""`veen recorder record` through the SDK; the gateway's way is tried with the gateway."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config import cli
from tests.recorder.conftest import MakeCast
from tests.support.connections import Cast
from tests.support.live_hub import ROOT, LiveHub


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    return make_cast(hub)


@pytest.fixture
def flags(cast: Cast, tmp_path: Path) -> list[str]:
    return [
        "recorder", "record", "--connection", str(cast.write(tmp_path)),
        "--spool-dir", str(tmp_path / "spool"),
    ]  # fmt: skip


class Stdin:
    """What sys.stdin is to a command."""

    def __init__(self, text: bytes) -> None:
        self.buffer = io.BytesIO(text)


def run_lines(
    flags: list[str],
    text: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, list[dict[str, Any]]]:
    monkeypatch.setattr(sys, "stdin", Stdin(text))
    code = cli.run([*flags, "--json", "-"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_event_from_flags_is_answered_with_its_receipt(
    flags: list[str], cast: Cast, hub: LiveHub, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [
        "--event-type", "login.ok", "--subject-id", "alice", "--payload", '{"n": 1.50}',
        "--origin", "idp", "--event-time", "2026-03-01T09:00:00Z", "--json",
    ]  # fmt: skip
    assert cli.run([*flags, *more]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == [
        "stream", "hub_commit_seq", "hub_commit_time", "principal_id", "receipt_id", "receipt",
    ]  # fmt: skip
    (event,) = cast.events(hub.url, list(cast.types)[1])
    assert (event.subject_id, event.payload, event.origin) == ("alice", '{"n":1.5}', "idp")


def test_lines_are_answered_in_order_each_by_itself(
    flags: list[str],
    cast: Cast,
    hub: LiveHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [
        b'{"event_type":"http.error","subject_id":"1","payload":12345678901234567890.125}',
        b"not json",
        b"",
        b'{"event_type":"other","subject_id":"2"}',
        b'{"event_type":"http.error","subject_id":"3","colour":1}',
        b'["list"]',
        b'{"event_type":"http.error","subject_id":"4","idempotency_key":"k"}',
        b'{"event_type":"http.error","subject_id":"4","idempotency_key":"k"}',
        b'{"event_type":"http.error","subject_id":"5","idempotency_key":"k"}',
    ]
    code, answers = run_lines(flags, b"\n".join(lines), monkeypatch, capsys)
    assert code == 4
    assert [answer["line"] for answer in answers] == list(range(1, 9))
    codes = [answer.get("error_code") for answer in answers]
    assert codes == [
        None, "invalid_json", "unknown_event_type", "invalid_event", "invalid_event", None, None,
        "idempotency_conflict",
    ]  # fmt: skip
    assert answers[3]["details"] == [{"pointer": "/colour", "reason": "unknown key"}]
    assert answers[5]["receipt_id"] == answers[6]["receipt_id"]
    events = cast.events(hub.url, next(iter(cast.types)))
    assert [event.subject_id for event in events] == ["1", "4"]
    assert events[0].payload == "12345678901234567890.125"


def test_many_lines_need_no_memory_of_them_all(
    flags: list[str],
    cast: Cast,
    hub: LiveHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = b"".join(b'{"event_type":"http.error","subject_id":"%d"}\n' % one for one in range(700))
    code, answers = run_lines(flags, text, monkeypatch, capsys)
    assert code == 0
    assert [answer["hub_commit_seq"] for answer in answers] == list(range(1, 701))


def test_an_answer_does_not_wait_for_the_next_line(flags: list[str]) -> None:
    command = [sys.executable, "-m", "config.cli", *flags, "--json", "-"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in (1, 2):
            process.stdin.write(b'{"event_type":"http.error","subject_id":"x"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["hub_commit_seq"] == number
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--event-type", "a"],
        ["-", "--event-type", "a", "--subject-id", "b"],
        ["--event-type", "a", "--subject-id", "b", "--payload", "{"],
        ["--event-type", "a", "--subject-id", "b", "--url", "http://x"],
    ],
)
def test_wrong_use_is_a_usage_error(flags: list[str], more: list[str]) -> None:
    assert cli.run([*flags, *more]) == 1


def test_a_hub_that_is_away_is_said_and_the_event_stays(
    make_cast: MakeCast, hub: LiveHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = make_cast(hub, hub_url="http://127.0.0.1:9")
    flags = [
        "recorder", "record", "--connection", str(away.write(tmp_path)), "--spool-dir",
        str(tmp_path / "spool"), "--event-type", "login.ok", "--subject-id", "x",
        "--timeout", "0.2", "--json",
    ]  # fmt: skip
    assert cli.run(flags) == 2
    assert "stays in the spool" in json.loads(capsys.readouterr().out)["error"]["message"]
    present = make_cast(hub, key=away.key, types=away.types)
    present.readers = away.readers
    flags[3] = str(present.write(tmp_path))
    flags[flags.index("--timeout") + 1] = "30"
    assert cli.run(flags) == 0
    assert json.loads(capsys.readouterr().out)["hub_commit_seq"] == 2


def test_control_characters_of_an_event_do_not_reach_the_terminal(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"event_type": "a", "subject_id": "x", "\x1b[31m": 1}).encode()
    monkeypatch.setattr(sys, "stdin", Stdin(text))
    assert cli.run([*flags, "-"]) == 4
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_the_command_imports_no_framework() -> None:
    code = (
        "import sys; import recorder.cli.ways; from config import cli;"
        "cli.run(['recorder', 'record', '--help']);"
        "print(sorted({'django', 'rest_framework', 'pyspark', 'uvloop'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
