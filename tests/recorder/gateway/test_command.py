"""`veen recorder record --token-file`: events of standard input through a gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recorder.conftest import MakeCast
from tests.support import gateways
from tests.support.connections import Cast
from tests.support.gateways import Publisher, token_of
from tests.support.live_hub import ROOT, LiveHub


@pytest.fixture
def cast(hub: LiveHub, make_cast: MakeCast) -> Cast:
    return make_cast(hub)


@pytest.fixture
def command(cast: Cast, tmp_path: Path) -> Iterator[list[str]]:
    Publisher(tmp_path).publish(cast)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(token_of("shop"))
    with gateways.running(tmp_path) as gateway:
        yield [
            sys.executable, "-m", "config.cli", "recorder", "record", "--token-file", str(token),
            "--url", gateway.url, "--json", "-",
        ]  # fmt: skip


def test_a_flawed_line_is_refused_by_itself(command: list[str], cast: Cast, hub: LiveHub) -> None:
    lines = [
        b'{"event_type":"http.error","subject_id":"0"}',
        b'{"event_type":"http.error","subject_id":"1","payload":{"k":1,"k":2}}',
        b'{"event_type":"http.error","subject_id":"\\ud800"}',
        b'{"event_type":"http.error","subject_id":"3","payload":1e401}',
        b'{"event_type":"http.error","subject_id":"4","payload":' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"event_type":"http.error",',
        b'{"event_type":"http.error","subject_id":"6"}',
    ]
    done = subprocess.run(
        command, input=b"\n".join(lines), cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 4
    flawed = "invalid_event"
    codes = [one.get("error_code") for one in answers]
    assert codes == [None, flawed, flawed, flawed, flawed, "invalid_json", None]
    places = [one["details"][0]["pointer"] for one in answers[1:5]]
    assert places[:3] == ["/payload/k", "/subject_id", "/payload"]
    assert places[3].startswith("/payload/0/0")
    found = cast.events(hub.url, next(iter(cast.types)))
    assert [event.subject_id for event in found] == ["0", "6"]


def test_a_source_that_pauses_has_its_events_sent(command: list[str]) -> None:
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
