"""`veen hub start`: what it prints when it is ready, and which flags change what it serves."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub import keystore
from hub.label import derive, stream_id
from hub.wire.msg import Msg
from hub.wire.profile import parse_profile
from tests.hub.cli.conftest import Veen

ROUTING_KEY = b"\x05" * 32
PROFILE = "1000000000:1024"  # in its first epoch until the year 2033


@contextmanager
def started(root: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """The foreground hub of a command line; stopped at the end."""
    command = [sys.executable, "-m", "config.cli", "hub", "start", "--port", "0"]
    command += ["--data-dir", str(root / "data"), "--workers", "1", *flags]
    log = (root / "log").open("ab")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def test_json_prints_exactly_one_document(tmp_path: Path) -> None:
    with started(tmp_path, "--json") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        kept = json.loads((tmp_path / "data" / "hub.json").read_bytes())
        assert said == {name: kept[name] for name in ("url", "hub_pk", "hub_id", "pid")}
        assert said["pid"] == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Flags of a hub that takes anybody's messages, and a client's own directory."""
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    keystore.write_key_file(tmp_path / "state" / "secrets" / "routing.key", ROUTING_KEY)
    keystore.write_key_file(tmp_path / "one.key", b"\x01" * 32)
    return "--open-admission", "--open-reads", "--json"


def told(process: subprocess.Popen[bytes]) -> tuple[str, ...]:
    """Where a started hub is, as flags of a client."""
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    return "--hub-url", said["url"], "--hub-pk", said["hub_pk"], "--json"


def test_a_profile_with_epochs_is_taken_sent_and_read(
    reach: tuple[str, ...], tmp_path: Path, veen: Veen
) -> None:
    name = "demo/epochs"
    assert veen("stream", "create", name, "--admin-key", "one.key")[0] == 0
    with started(tmp_path, "--profile", PROFILE, *reach) as process:
        hub = told(process)
        sending = ("send", "--client", "one.key", "--stream", name, "--body", "hello")
        code, out, err = veen(*sending, "--profile", PROFILE, *hub)
        assert code == 0, err
        sent = json.loads(out)
        assert sent["label"] == derive(ROUTING_KEY, stream_id(name), 1).hex()
        assert Msg.decode(base64.b64decode(sent["msg"])).profile_id == parse_profile(PROFILE).id
        reading = ("stream", "--stream", name, "--epoch", "1", *hub)
        assert [json.loads(veen(*reading)[1]).get("text")] == [None]  # of no known profile
        code, out, err = veen(*reading, "--profile", PROFILE)
        assert json.loads(out)["text"] == "hello", err
        code, _, err = veen(*sending, "--profile", "1000000000:512", *hub)
        assert (code, "E.PROFILE" in err) == (4, True)


def test_the_sizes_of_segment_and_queue_are_what_the_command_line_says(
    reach: tuple[str, ...], tmp_path: Path, veen: Veen
) -> None:
    sizes = ("--segment-bytes", str(1 << 20), "--queue-max", "100")
    (tmp_path / "large").write_bytes(bytes(700_000))
    with started(tmp_path, *sizes, *reach) as process:
        hub = told(process)
        limits = json.loads(veen("hub", "profile", *hub)[1])["limits"]
        assert limits["queue_max"] == 100
        sending = ("send", "--client", "one.key", "--label", "ab" * 32, "--reader-pk", "09" * 32)
        for _ in range(3):
            assert veen(*sending, "--file", tmp_path / "large", *hub)[0] == 0
    assert len(list((tmp_path / "data" / "log").glob("*.seg"))) > 1
