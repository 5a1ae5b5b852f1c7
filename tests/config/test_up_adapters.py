"""Adapters as processes of the bundle: one switch each, a producer by recorded acts, restarts."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from config.settings_file import Settings, read
from config.up_adapters import Adapter
from config.up_processes import chosen
from config.up_state import StateDir
from hub.errors import ErrorCode, VeenError
from recorder.adapters.sockets import bound_tcp
from tests.support.bundles import Up, free_port, veen

LINE = b"<34>1 2026-03-01T09:00:00.250Z gw1 sshd 77 ID47 - "


def log_request(text: str) -> bytes:
    record = {"body": {"stringValue": text}, "timeUnixNano": "1772355600123456789"}
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


def events(state: StateDir, stream: str) -> list[dict[str, Any]]:
    """What the log holds, verified against the pinned hub key on the way."""
    shown = veen("recorder", "replay", stream, "--state-dir", str(state.root), "--json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert shown.returncode == 0, shown.stderr
    return [row for row in rows if "end" not in row]


def address_of(up: Up, name: str) -> tuple[str, int]:
    shown = next(one for one in up.status()["processes"] if one["name"] == name)
    host, _, port = shown["address"].removesuffix("/v1/logs").rpartition(" ")[2].rpartition(":")
    return host.removeprefix("http://"), int(port)


def send_udp(up: Up, text: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(LINE + text, address_of(up, "syslog"))


def post_otlp(up: Up, text: str) -> int:
    link = http.client.HTTPConnection(*address_of(up, "otlp"), timeout=20)
    try:
        link.request("POST", "/v1/logs", log_request(text), {"Content-Type": "application/json"})
        return link.getresponse().status
    finally:
        link.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_switched_on_they_record_and_a_killed_one_loses_nothing(tmp_path: Path) -> None:
    state = StateDir.at(tmp_path / "s")
    state.root.mkdir(mode=0o700)
    state.config_file.write_text("syslog = true\nsyslog_port = 0\notlp_port = 0\n")
    up = Up(state, "--port", str(free_port()), "--otlp", run_worker=True)
    try:
        up.ready()
        host, port = address_of(up, "syslog")
        assert f"Syslog       udp and tcp {host}:{port}" in up.text
        assert "Otlp         http://127.0.0.1:" in up.text
        shown = veen("status", "--data-dir", str(state.root)).stdout
        assert f"udp and tcp {host}:{port}" in shown

        send_udp(up, b"over udp")
        with socket.create_connection((host, port)) as sender:
            sender.sendall(LINE + b"over tcp\n")
        assert post_otlp(up, "over http") == 200
        up.until(lambda: len(events(state, "record/infrastructure/syslog")) == 2)
        up.until(lambda: len(events(state, "record/app/otlp")) == 1)

        for name in ("syslog", "otlp"):
            os.kill(up.pid(name), signal.SIGKILL)
            up.says(f"veen: {name} ended with code -9; starting it again")
        # The sockets are the supervisor's: what is sent now waits for the next process.
        send_udp(up, b"while it was away")
        assert post_otlp(up, "while it was away") == 200
        for name in ("syslog", "otlp"):
            up.says(f"veen: {name} is ready again (restart 1)")
        up.until(lambda: len(events(state, "record/infrastructure/syslog")) == 3)
        up.until(lambda: len(events(state, "record/app/otlp")) == 2)
        found = events(state, "record/infrastructure/syslog")
        assert {one["payload"]["message"] for one in found} == {
            "over udp", "over tcp", "while it was away",
        }  # fmt: skip
        assert {one["event_type"] for one in found} == {"syslog.message"}

        # The producers and their streams were made by acts, with a reason.
        changes = events(state, "record/infrastructure/changes")
        added = [one for one in changes if one["event_type"] == "producer.added"]
        assert [one["payload"]["producer"] for one in added] == ["syslog", "otlp"]
        assert "the syslog adapter is switched on" in json.dumps(added[0])
        files = list(state.adapters.glob("*.json"))
        assert sorted(path.name for path in files) == ["otlp.json", "syslog.json"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    finally:
        up.end()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_second_run_finds_its_producer_and_a_lost_file_is_said_with_its_remedy(
    tmp_path: Path,
) -> None:
    state = StateDir.at(tmp_path / "s")
    state.root.mkdir(mode=0o700)
    state.config_file.write_text("syslog = true\nsyslog_port = 0\n")
    for _ in range(2):  # each run has its hub at another port
        up = Up(state, "--port", str(free_port()))
        up.ready()
        kept = json.loads((state.adapters / "syslog.json").read_bytes())
        assert kept["hub_url"] == up.status()["hub_url"]
        up.end()

    (state.adapters / "syslog.json").unlink()
    up = Up(state, "--port", str(free_port()))
    try:
        up.ready()
        assert "syslog is not started: " in up.text
        remedy = up.text[up.text.index("`veen recorder producer rotate") :].split("`")[1]
        shown = {one["name"]: one["state"] for one in up.status()["processes"]}
        assert (shown["syslog"], shown["web"]) == ("waiting", "running")
        done = veen(*remedy.split()[1:], "--state-dir", str(state.root))
        assert done.returncode == 0, done.stderr
        up.says("veen: syslog is ready again")
    finally:
        up.end()


def test_off_by_default_and_switched_by_flag_variable_and_file(tmp_path: Path) -> None:
    assert not {"syslog", "otlp"} & set(chosen(Settings()))
    file = tmp_path / "veen.toml"
    file.write_text("syslog = true\notlp = true\n")
    settings = read(flags={"otlp": False}, environ={}, config_file=file).settings
    assert chosen(settings)[-1] == "syslog"
    assert read(environ={"VEEN_SYSLOG": "on"}).settings.syslog


@pytest.mark.parametrize("name", ["syslog", "otlp"])
def test_beyond_loopback_only_for_named_networks(name: str) -> None:
    def codes(**given: str) -> list[str]:
        environ = {f"VEEN_{name}_{key}".upper(): value for key, value in given.items()}
        loaded = read(environ={**environ, f"VEEN_{name}".upper(): "1"})
        return [problem.code for problem in loaded.problems]

    assert codes(bind="192.0.2.1") == ["config.E017"]
    assert codes(bind="not-an-address") == ["config.E017"]
    assert codes(bind="192.0.2.1", allow="192.0.2.0/24") == []
    assert codes(allow="192.0.2.1/24") == ["config.E016"]


def test_a_taken_port_and_a_missing_connection_file_are_refused_in_one_sentence(
    tmp_path: Path,
) -> None:
    state = StateDir.at(tmp_path)
    taken = bound_tcp("127.0.0.1", 0)
    try:
        port = taken.getsockname()[1]
        with pytest.raises(VeenError, match=r"syslog_port sets another") as refusal:
            Adapter("syslog", Settings(syslog_port=port), state).listen()
        assert refusal.value.code is ErrorCode.CONFIG
    finally:
        taken.close()
    missing = tmp_path / "routers.json"
    with pytest.raises(VeenError, match=r"veen recorder producer add NAME"):
        Adapter("otlp", Settings(otlp_connection=missing), state).check()


def test_one_free_port_serves_datagrams_and_connections(tmp_path: Path) -> None:
    adapter = Adapter("syslog", Settings(syslog_port=0), StateDir.at(tmp_path))
    adapter.listen()
    try:
        tcp, udp = (socket.socket(fileno=os.dup(fd)) for fd in adapter.fds)
        with tcp, udp:
            assert tcp.getsockname() == udp.getsockname()
    finally:
        adapter.close()
