"""A temporary bundle of real processes, set up, killed in part and started again [interfaces]."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from config.up_processes import WORKER
from config.up_state import StateDir, read_json
from hub.client import Draft, HubClient
from hub.crypto.signing import SigningKey
from hub.errors import ErrorCode, VeenError
from hub.types import AuthRef, HubId, PublicKey
from recorder.web_client import WebClient

START_S: Final = 150.0
STOP_S: Final = 60.0
ACT_WAIT_S: Final = "30"
_ROOT: Final = Path(__file__).resolve().parents[2]


def until(is_true: Callable[[], object], what: str, timeout_s: float) -> None:
    """Wait for something another process does; E.BUSY says what did not happen."""
    end = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() >= end:
            raise VeenError(ErrorCode.BUSY, f"{what}: not after {timeout_s:g} s")
        time.sleep(0.05)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def clean_environment(**settings: str) -> dict[str, str]:
    """This process's variables without any of ours, and the settings that are wanted."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VEEN_", "DJANGO_"))}
    return {**kept, "PYTHONPATH": str(_ROOT), **settings}


class TemporaryBundle:
    """One `veen up` on a directory of its own; leaving the block always ends it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.state = StateDir.at(folder / "state")
        self._folder = folder
        self._settings = {
            "VEEN_HUB_PORT": str(free_port()),
            "VEEN_GATEWAY_PORT": str(free_port()),
            "VEEN_PORT": str(free_port()),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.status: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- its life

    def start(self) -> None:
        """Start it and wait until everything works."""
        out, err = self._folder / "up.out", self._folder / "up.err"
        command = [sys.executable, "-m", "config.cli", "up", "--no-open", "--json"]
        with out.open("wb") as told, err.open("ab") as log:
            process = self._process = subprocess.Popen(
                [*command, "--data-dir", str(self.state.root)],
                env=clean_environment(**self._settings),
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the self-test, which then stops it
            )
        until(
            lambda: process.poll() is not None or out.read_bytes().endswith(b"\n"),
            "the bundle starts", START_S,
        )  # fmt: skip
        if process.poll() is not None:
            last = err.read_text(errors="replace")[-400:]
            raise VeenError(ErrorCode.CONFIG, f"the bundle did not start: {last}")
        self.status = json.loads(out.read_bytes())

    def stop(self) -> None:
        """Stop it as Ctrl-C would; what does not end is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def pid(self, name: str) -> int:
        """The process of that name that runs now; 0 while there is none."""
        found = read_json(self.state.status) or {}
        rows = found.get("processes", [])
        return next((int(p["pid"] or 0) for p in rows if p["name"] == name), 0)

    def worker_pid(self) -> int:
        """The worker that runs now; 0 while there is none."""
        return self.pid(WORKER)

    def kill_worker(self) -> None:
        """End the worker and its JVM without a word."""
        pid = self.worker_pid()
        java = java_of(pid)
        os.kill(pid, signal.SIGKILL)
        os.kill(java, signal.SIGKILL)

    # -- its office

    @property
    def web_url(self) -> str:
        """Where its API is."""
        return str(self.status["web_url"]).rstrip("/")

    @property
    def lake(self) -> Path:
        """Where its worker keeps the lake."""
        return self.state.root / "lake"

    @property
    def hub_pk(self) -> PublicKey:
        """The key to pin."""
        return PublicKey(bytes.fromhex(self.status["hub_pk"]))

    @property
    def hub_id(self) -> HubId:
        """The hub's id."""
        return HubId(bytes.fromhex(self.status["hub_id"]))

    @property
    def admin_token(self) -> str:
        """The administrator that `up` made."""
        return self.state.secret("admin.token").read_text().strip()

    def act(self, verb: str, **args: object) -> dict[str, Any]:
        """Have an administrator's act done; its result."""
        web = WebClient(self.web_url, token=self.admin_token, timeout_s=90)
        taken = web.post("/api/admin/acts", {"verb": verb, "args": args, "reason": "self-test"})
        done = web.get(f"/api/admin/acts/{taken['act_id']}", {"wait": ACT_WAIT_S})
        if done["state"] != "done":
            raise VeenError(ErrorCode.PROTOCOL, f"{verb} is {done['state']}: {done}")
        return {**done["result"], "token": taken.get("token")}

    def findings(self) -> list[tuple[str, str, str]]:
        """Code, object and detail of each finding, the newest first."""
        web = WebClient(self.web_url, token=self.admin_token)
        rows = web.get("/api/admin/findings", {"limit": "1000"})["findings"]
        return [(one["code"], one["object"], one["detail"]) for one in rows]

    def send(self, name: str, stream: str, drafts: Callable[[dict[str, Any]], Sequence[Draft]],
             ) -> int:  # fmt: skip
        """Record messages with a new key of its own; the head afterwards."""
        key = SigningKey.generate()
        given = self.act(
            "producer.add", name=f"{name}-{secrets.token_hex(3)}", streams=[stream],
            principal=key.public.hex(),
        )  # fmt: skip
        with (
            HubClient(self.status["hub_url"], self.hub_pk) as client,
            client.producer(key, auth_ref=AuthRef(bytes.fromhex(given["auth_ref"]))) as producer,
        ):
            return producer.submit_batch(drafts(given))[-1].stream_seq


def java_of(pid: int) -> int:
    """The JVM that a process started."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue  # It has just ended.
        command, _, rest = text.partition("(")[2].rpartition(")")
        if command == "java" and int(rest.split()[1]) == pid:
            return int(entry.name)
    raise VeenError(ErrorCode.NOTFOUND, f"process {pid} has no JVM")


class FrozenSpark:
    """Keeps a bundle's JVM from working, so that a query stays where it is; then lets it go on."""

    def __init__(self, bundle: TemporaryBundle) -> None:
        self._java = java_of(bundle.worker_pid())

    def __enter__(self) -> Self:
        os.kill(self._java, signal.SIGSTOP)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):  # It may have been killed meanwhile.
            os.kill(self._java, signal.SIGCONT)
