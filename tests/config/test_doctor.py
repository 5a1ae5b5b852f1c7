from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from config import cli, doctor
from config.settings_file import Settings
from config.up_state import StateDir, make_directories, write_atomic


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir.at(tmp_path / "state")


def test_json_lists_every_check_in_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.run(["doctor", "--data-dir", str(tmp_path / "state"), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (0 if document["ok"] else 9)
    names = {check["name"] for check in document["checks"]}
    wanted = {"python", "settings", "disk", "fsync", "clock", "secrets"}
    wanted |= {"port web", "port hub", "port gateway"}
    assert names == wanted | {"wrk", "chromium", "java", "broker"}
    assert not (tmp_path / "state").exists(), "looking must not create anything"


def test_a_secret_open_to_others_fails_and_is_named(
    state: StateDir, capsys: pytest.CaptureFixture[str]
) -> None:
    make_directories(state)
    write_atomic(state.secret("web.token"), b"x", mode=0o644)
    assert cli.run(["doctor", "--data-dir", str(state.root)]) == 9
    assert "web.token 0644" in capsys.readouterr().out


def test_private_secrets_pass(state: StateDir) -> None:
    make_directories(state)
    write_atomic(state.secret("web.token"), b"x")
    assert doctor.check_secrets(state).status == "ok"


@pytest.mark.parametrize(
    ("free", "status"), [(10 * 1024**2, "fail"), (500 * 1024**2, "warn"), (9 * 1024**3, "ok")]
)
def test_little_disk_warns_and_next_to_none_fails(
    state: StateDir, monkeypatch: pytest.MonkeyPatch, free: int, status: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free, 0, free))
    assert doctor.check_disk(state).status == status


@pytest.mark.parametrize(("now", "status"), [(0.0, "fail"), (1.9e9, "ok")])
def test_a_clock_before_the_software_fails(now: float, status: str) -> None:
    assert doctor.check_clock(now).status == status


def test_a_taken_port_is_a_warning_because_up_takes_the_next(state: StateDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        settings = Settings(port=taken, hub_port=taken, gateway_port=taken)
        found = doctor.check_ports(settings, state)
    assert [check.status for check in found] == ["warn"] * 3


def test_missing_optional_programs_are_only_told() -> None:
    assert {check.status for check in doctor.check_programs(find=lambda _: None)} == {"info"}


def test_the_java_of_the_worker_is_found_where_the_worker_finds_it(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21.0.1"\n')
    (home / "bin" / "java").write_text("")
    (home / "bin" / "java").chmod(0o700)
    for wanted, environ in ((home, {}), (None, {"JAVA_HOME": str(home), "PATH": ""})):
        found = doctor.check_java(wanted, environ)
        assert (found.status, str(home) in found.detail) == ("ok", True)
    assert doctor.check_java(tmp_path / "nowhere", {}).status == "warn"


def test_the_broker_of_the_worker_is_found_where_the_worker_finds_it(tmp_path: Path) -> None:
    server = tmp_path / "redis-server"
    server.write_text("")
    server.chmod(0o700)
    found = doctor.check_broker(None, {"PATH": str(tmp_path)})
    assert (found.status, found.detail) == ("ok", str(server))
    named = doctor.check_broker("redis://:secret@host/0", {"PATH": ""})
    assert named.status == "ok"
    assert "secret" not in named.detail


def test_wrong_settings_fail_and_the_rest_is_still_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEEN_PROT", "8080")
    checks = {check.name: check for check in doctor.examine(tmp_path)}
    assert checks["settings"].status == "fail"
    assert "VEEN_PROT" in checks["settings"].detail
    assert checks["disk"].status in ("ok", "warn")
