"""Starts the bundle's processes in order, watches them, stops them [architecture: `veen up`]."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from config.settings_file import PREFIX, Settings
from config.up_children import GRACE_S, Child, die_with_parent, remember, stop_orphans
from config.up_hub import (
    RunningHub,
    asked_hub,
    ensure_read_tokens,
    hub_command,
    running_hub,
    settle_trust,
)
from config.up_secrets import RealmKeys, complete_first_run, realm_keys
from config.up_state import StateDir, read_json, write_json
from config.up_web import web_command
from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey

PROJECT: Final = Path(__file__).resolve().parent.parent
PORTS_TRIED_MAX: Final = 200
READY_TIMEOUT_S: Final = 90.0
TICK_S: Final = 0.25
HOUSEKEEPING_S: Final = 10.0
LOOPBACK: Final = "127.0.0.1"

Say = Callable[[str], None]


class NotReadyError(TimeoutError):
    """A process did not come up; the command ends with exit code 9."""

    def __init__(self, reason: str, log_tail: list[str]) -> None:
        super().__init__(reason)
        self.log_tail = log_tail


class StoppedError(Exception):
    """Someone asked us to stop while we were still starting."""


class Bundle:
    """The processes of one state directory, whose lock the caller holds."""

    def __init__(
        self,
        settings: Settings,
        state: StateDir,
        *,
        say: Say,
        stop: threading.Event,
        accepted_pk: PublicKey | None = None,
    ) -> None:
        self._settings = replace(settings, data_dir=state.root)
        self._state = state
        self._say = say
        self._stop = stop
        self._accepted_pk = accepted_pk
        self._hub = Child("hub", state.log("hub"))
        self._web = Child("web", state.log("web"))
        self._children = (self._hub, self._web)
        self._realm: RealmKeys | None = None
        self._hub_port = 0
        self._web_socket: socket.socket | None = None
        self._running_hub: RunningHub | None = None
        self._hub_json_at = 0
        self._tidied_at = time.monotonic()

    def start(self) -> dict[str, Any]:
        """Bring everything up in order; return the status document."""
        orphans = stop_orphans(self._state)
        if orphans:
            self._say(f"stopped {orphans} process(es) that an earlier run left behind")
        complete_first_run(self._state)
        self._realm = realm_keys(self._state)
        self._forget_hub_json()
        self._hub_port = self._free_port("hub", self._settings.hub_port)
        self._spawn(self._hub)
        self._prepare_web()
        self._await_ready(self._hub)
        hub = running_hub(self._state)
        if hub is None:
            raise NotReadyError("the hub is ready but wrote no hub.json", self._hub.log_tail())
        self._running_hub = hub
        settle_trust(self._state, hub, self._accepted_pk)
        ensure_read_tokens(self._state, hub)
        self._web_socket = self._listen(self._settings.port)
        self._write_status()  # before the web process, which reads it
        self._spawn(self._web)
        self._await_ready(self._web)
        self._write_status()
        return self.status()

    def first_login(self) -> dict[str, Any] | None:
        """Name and password of a new administrator, until `forget_first_login`."""
        return read_json(self._state.first_login)

    def forget_first_login(self) -> None:
        self._state.first_login.unlink(missing_ok=True)

    def watch(self) -> None:
        """Restart what crashes until someone asks to stop."""
        while not self._stop.wait(TICK_S):
            changes = [self._tend(child) for child in self._children]
            if any(changes):
                self._write_status()
            self._look_for_new_key()
            if time.monotonic() - self._tidied_at > HOUSEKEEPING_S:
                self._tidied_at = time.monotonic()
                self._keep_house()

    def stop(self) -> None:
        """The web first, so that nobody is served by half a bundle."""
        deadline = time.monotonic() + GRACE_S
        for child in reversed(self._children):
            child.ask_to_stop()
            child.wait_stopped(deadline)
        if self._web_socket is not None:
            self._web_socket.close()
        for path in (self._state.status, self._state.children):
            path.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """Exactly what `veen status --json` prints."""
        hub = self._running_hub
        return {
            "web_url": f"{self._web_base()}/" if self._web_socket else None,
            "hub_url": hub.url if hub else None,
            "gateway_url": None,
            "hub_pk": hub.hub_pk.hex() if hub else None,
            "hub_id": hub.hub_id.hex() if hub else None,
            "zone": self._settings.zone,
            "data_dir": str(self._state.root),
            "processes": [
                {"name": child.name, "pid": child.pid, "state": child.state}
                for child in self._children
            ],
        }

    def _web_base(self) -> str:
        assert self._web_socket is not None
        return f"http://{LOOPBACK}:{self._web_socket.getsockname()[1]}"

    def _write_status(self) -> None:
        remember(self._state, self._children)
        write_json(self._state.status, self.status())

    def _spawn(self, child: Child) -> None:
        assert self._realm is not None
        if child is self._hub:
            command = hub_command(self._settings, self._state, self._realm, self._hub_port)
            child.spawn(command, cwd=PROJECT, env=self._environment())
        else:
            # The socket is ours and outlives a crash: callers wait instead of being refused, and
            # no stranger can answer in its place.
            assert self._web_socket is not None
            fd = self._web_socket.fileno()
            child.spawn(web_command(fd), cwd=PROJECT, env=self._environment(), pass_fds=(fd,))
        remember(self._state, self._children)

    def _environment(self) -> dict[str, str]:
        """Ours without VEEN_*, and the settings as decided here, so that all agree on them."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
        debug = {k: os.environ[k] for k in ("VEEN_DEBUG",) if k in os.environ}
        return {**inherited, **debug, **self._settings.environ(), "PYTHONUNBUFFERED": "1"}

    def _prepare_web(self) -> None:
        self._say("preparing the database")
        done = subprocess.run(
            [sys.executable, "-m", "config.up_web"],
            cwd=PROJECT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=die_with_parent(),
        )
        if done.returncode != 0:
            raise NotReadyError("the database could not be prepared", done.stderr.splitlines())

    def _await_ready(self, child: Child) -> None:
        """Wait until the child answers; give its last words when it does not."""
        started = time.monotonic()
        reason = ""
        while True:
            if child.has_crashed():
                if child is self._hub and not is_free(self._hub_port):
                    self._hub_port = self._free_port("hub", self._hub_port)
                    self._spawn(child)  # someone was faster on that port
                    continue
                code = child.exit_code()
                raise NotReadyError(f"{child.name} ended at start, code {code}", child.log_tail())
            is_ready, reason = self._probe(child)
            waited_s = time.monotonic() - started
            if is_ready:
                child.state = "running"
                self._say(f"{child.name} is ready after {waited_s:.1f} s")
                return
            if waited_s > READY_TIMEOUT_S:
                raise NotReadyError(
                    f"{child.name} is not ready after {waited_s:.0f} s: {reason}", child.log_tail()
                )
            self._say(f"waiting for {child.name} {waited_s:.0f} s ...")
            if self._stop.wait(TICK_S):
                raise StoppedError

    def _probe(self, child: Child) -> tuple[bool, str]:
        if child is self._hub:
            hub = running_hub(self._state)
            return probe(f"{hub.url}/readyz") if hub else (False, "no hub.json yet")
        return probe(f"{self._web_base()}/healthz")

    def _tend(self, child: Child) -> bool:
        """One look at one child; True when its state changed."""
        if child.state == "restarting":
            if time.monotonic() < child.restart_at:
                return False
            if child is self._hub:
                self._forget_hub_json()
                self._hub_port = self._free_port("hub", self._hub_port)
            self._spawn(child)
            return True
        if child.has_crashed():
            code = child.exit_code()
            wait_s = child.plan_restart()
            self._say(f"{child.name} ended with code {code}; starting it again in {wait_s:.0f} s")
            return True
        if child.state == "starting" and self._probe(child)[0]:
            child.state = "running"
            self._say(f"{child.name} is ready again (restart {child.restarts})")
            self._note_hub()
            return True
        return False

    def _forget_hub_json(self) -> None:
        """A hub that was killed leaves the address at which it no longer is."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._state.hub_json.unlink()

    def _keep_house(self) -> None:
        for child in self._children:
            child.cut_log()
        if self._hub.state == "running":
            self._note_hub()

    def _look_for_new_key(self) -> None:
        """A hub writes hub.json anew when its key rotates: trust should follow within a blink."""
        with contextlib.suppress(FileNotFoundError):
            changed_at = self._state.hub_json.stat().st_mtime_ns
            if changed_at != self._hub_json_at and self._hub.state == "running":
                self._hub_json_at = changed_at
                self._note_hub()

    def _note_hub(self) -> None:
        """Take over a key that was rotated while we run; keep the old one if it is not trusted."""
        hub = asked_hub(self._state)
        if hub is None or hub == self._running_hub:
            return
        try:
            settle_trust(self._state, hub)
        except VeenError as refusal:
            self._say(f"the hub's key is not taken over: {refusal}")
            return
        self._running_hub = hub
        self._write_status()

    def _free_port(self, name: str, wanted: int) -> int:
        """The wanted port, or the next one nobody has."""
        for port in range(wanted, min(wanted + PORTS_TRIED_MAX, 65536)):
            if is_free(port):
                if port != wanted:
                    self._say(f"port {wanted} is taken; {name} uses {port}")
                return port
        raise VeenError(ErrorCode.CONFIG, f"no free port for {name} from {wanted} on")

    def _listen(self, wanted: int) -> socket.socket:
        """A listening socket on the first free port from the wanted one on."""
        while True:
            port = self._free_port("web", wanted)
            with contextlib.suppress(OSError):  # someone was faster on that port
                return socket.create_server((LOOPBACK, port), backlog=128)


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe_socket:
        # As servers do; without it a port just left by a server counts as taken for a minute.
        probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe_socket.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def probe(url: str, timeout_s: float = 2.0) -> tuple[bool, str]:
    """Ask a child for its health; the text says what is missing."""
    parts = urlsplit(url)
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        link.request("GET", parts.path)
        answer = link.getresponse()
        text = answer.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return False, str(error)
    finally:
        link.close()
    return answer.status == http.client.OK, f"{answer.status} {text}"
