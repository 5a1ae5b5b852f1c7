"""`veen up` for real: its own processes, sockets and signals, from the first run to `down`."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from config.up_children import start_time
from config.up_processes import ORDER
from config.up_secrets import ISSUER, KEYSTORE, ROUTING_KEY, read_passphrase
from config.up_state import StateDir
from hub import control, keystore, label
from hub.authoring import author
from hub.client.http import Call, HubHttp
from hub.crypto.hpke import DhSecret
from hub.crypto.signing import SigningKey
from hub.types import ClientSeq, DhKey, Hash
from hub.wire.captoken import CapToken
from hub.wire.payload import PayloadHeader
from hub.wire.profile import PRODUCT
from hub.wire.receipt import Receipt
from tests.support.bundles import PROCESSES, Up, free_port, veen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

STATUS_KEYS = [
    "web_url", "hub_url", "gateway_url", "hub_pk", "hub_id", "zone", "data_dir", "processes",
]  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir.at(tmp_path / "s")


@pytest.fixture
def start(state: StateDir) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*arguments: str) -> Up:
        started.append(Up(state, "--port", str(free_port()), *arguments))
        return started[-1]

    yield start
    for one in started:
        one.end()


class Browser:
    """Keeps cookies, as a person's browser would."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port)
        self._cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        link = http.client.HTTPConnection(*self._address, timeout=20)
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in self._cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        link.request(method, path, urlencode(form) if form else None, headers)
        answer = link.getresponse()
        text = answer.read().decode()
        for value in answer.headers.get_all("Set-Cookie", []):
            self._cookies |= {name: c.value for name, c in SimpleCookie(value).items()}
        link.close()
        return answer.status, text

    def log_in(self, name: str, password: str) -> int:
        _, page = self.ask("GET", "/login/")
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert found
        form = {"csrfmiddlewaretoken": found[1], "username": name, "password": password}
        return self.ask("POST", "/login/", form)[0]


def send(up: Up, count: int) -> Receipt:
    """Authorize a new producer with the realm's issuer key and submit some messages."""
    secrets = keystore.read(up.state.secret(KEYSTORE), read_passphrase(up.state))
    key = SigningKey.generate()
    stream = label.stream_id("demo/first")
    token = CapToken.issue(
        SigningKey(secrets[ISSUER]), subject_pk=key.public, stream_ids=[stream], ttl=600
    )
    routing_key = keystore.read_key_file(up.state.secret(ROUTING_KEY))
    with HubHttp(up.status()["hub_url"]) as hub:
        hub.call(Call(method="POST", path="/authorize", body=token.encode()))
        for number in range(1, count + 1):
            made = author(
                key=key,
                profile=PRODUCT,
                label=label.derive(routing_key, stream),
                client_seq=ClientSeq(number),
                prev_ack=0,
                auth_ref=token.auth_ref(),
                reader_pk=DhKey(DhSecret.generate().public),
                header=PayloadHeader(schema=Hash(bytes(32))),
                body=b"hello",
            )
            answer = hub.call(Call(method="POST", path="/submit", body=made.msg_bytes))
        return Receipt.decode(answer.body)


def test_the_whole_life_of_a_bundle(state: StateDir, start: Callable[..., Up]) -> None:
    up = start("--zone", "offline").ready()
    login = re.search(r"Login +(\w+) +([\w-]+) ", up.text)
    assert login
    assert f"Fingerprint  {up.status()['hub_pk']}" in up.text

    # Nothing that was made is open to others, and the password was not kept.
    files = [path for path in state.secrets.iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {"web.token", "worker.token", "admin.token"} <= {path.name for path in files}
    assert not state.first_login.exists()

    shown = veen("status", "--data-dir", str(state.root), "--json")
    document = json.loads(shown.stdout)
    assert (shown.returncode, list(document)) == (0, STATUS_KEYS)
    assert document["zone"] == "offline"
    assert (document["gateway_url"] is not None) == ("gateway" in PROCESSES)
    assert [(p["name"], p["state"]) for p in document["processes"]] == [
        (name, "running") for name in PROCESSES
    ]

    second = veen("up", "--data-dir", str(state.root), "--no-open")
    assert second.returncode == 6
    assert f"already up on {state.root}" in second.stderr

    for key in ("web_url", "hub_url", "gateway_url"):
        assert not document[key].endswith("/"), "a route is appended to the address as it is"
    browser = Browser(document["web_url"])
    assert browser.ask("GET", "/")[0] == 302
    assert browser.log_in(login[1], login[2]) == 302
    receipt = send(up, 3)
    control.call(state.hub, "checkpoint")
    up.until(lambda: receipt.mmr_root.hex() in browser.ask("GET", "/")[1], timeout_s=20)
    assert "CONSISTENT" in browser.ask("GET", "/")[1]

    down = veen("down", "--data-dir", str(state.root))
    assert down.returncode == 0, down.stderr
    assert up.process.wait(10) == 0
    again = veen("status", "--data-dir", str(state.root), "--json")
    assert (again.returncode, json.loads(again.stdout)["processes"]) == (9, [])

    # The second run shows no password, and the first one still opens the console.
    up = start().ready()
    assert "Login" not in up.text
    assert up.status()["hub_pk"] == document["hub_pk"]
    assert Browser(up.status()["web_url"]).log_in(login[1], login[2]) == 302


def test_killed_children_come_back_and_it_is_said(start: Callable[..., Up]) -> None:
    up = start().ready()
    before = send(up, 2)
    for name in PROCESSES:
        pid = up.pid(name)
        os.kill(pid, signal.SIGKILL)
        up.says(f"veen: {name} ended with code -9; starting it again")
        up.says(f"veen: {name} is ready again (restart 1)")
        assert up.pid(name) != pid
    assert send(up, 1).stream_seq == before.stream_seq + 1


def test_a_killed_supervisor_leaves_nothing_that_stops_the_next_up(
    start: Callable[..., Up],
) -> None:
    up = start().ready()
    pids = [up.pid(name) for name in PROCESSES]
    assert up.end(signal.SIGKILL) == -9
    up = start().ready()
    assert all(start_time(pid) is None for pid in pids)
    assert send(up, 1).stream_seq == 1


@pytest.mark.parametrize(
    "mark",
    ["hub/hub.json", "secrets/first-login", "trust.json.sig", "author/outbox", "run/author.ready"],
)  # fmt: skip
def test_a_first_run_killed_at_any_step_is_completed_by_the_next(
    state: StateDir, start: Callable[..., Up], mark: str
) -> None:
    up = start()
    path = state.root / mark
    while not path.exists():
        assert up.process.poll() is None, up.text
    up.end(signal.SIGKILL)
    up = start().ready()
    assert re.search(r"Login +admin +[\w-]{23} ", up.text), "the password was never shown"
    assert send(up, 1).stream_seq == 1


def test_ctrl_c_stops_everything(start: Callable[..., Up]) -> None:
    up = start().ready()
    pids = [up.pid(name) for name in PROCESSES]
    assert up.end(signal.SIGINT) == 0
    assert all(start_time(pid) is None for pid in pids)
    assert up.said[-1] == "veen: stopped"
    assert not up.state.status.exists()


def test_all_five_processes_come_up_and_go_down(state: StateDir) -> None:
    up = Up(state, "--port", str(free_port()), run_worker=True)
    try:
        shown = {one["name"]: one["state"] for one in up.ready().status()["processes"]}
        assert shown == dict.fromkeys(ORDER, "running")
        pids = [up.pid(name) for name in ORDER]
        assert veen("down", "--data-dir", str(state.root)).returncode == 0
        assert all(start_time(pid) is None for pid in pids)
    finally:
        up.end()


def test_a_taken_port_is_said_and_the_next_one_used(state: StateDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = int(server.getsockname()[1])
        up = Up(state, "--port", str(taken))
        try:
            up.ready()
            assert f"veen: port {taken} is taken; web uses " in up.text
            assert Browser(up.status()["web_url"]).ask("GET", "/healthz") == (200, "ok\n")
        finally:
            up.end()


def test_a_hub_that_cannot_start_ends_up_with_9_and_its_last_words(
    state: StateDir, start: Callable[..., Up]
) -> None:
    state.hub.parent.mkdir(mode=0o700)
    state.hub.write_text("this is no directory")
    up = start()
    assert up.process.wait(60) == 9
    up.end()
    assert "not ready: hub ended at start" in up.text
    assert any(line.startswith("  | ") for line in up.said)


def test_a_rotated_key_is_taken_over_while_it_runs(start: Callable[..., Up]) -> None:
    up = start().ready()
    send(up, 1)
    new_pk = control.call(up.state.hub, "rotate")["new_pk"]
    up.until(lambda: up.status()["hub_pk"] == new_pk, timeout_s=30)
    trust = json.loads(up.state.trust.read_bytes())
    assert [k["status"] for k in trust["hubs"][0]["keys"]] == ["superseded", "active"]
    up.end()
    up = start().ready()
    assert up.status()["hub_pk"] == new_pk
