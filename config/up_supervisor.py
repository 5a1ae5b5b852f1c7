"""Starts the bundle's processes in order, watches them, stops them [architecture: `veen up`]."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from config import up_processes
from config.settings_file import ADAPTERS, PREFIX, Settings
from config.up_adapters import adapters_of
from config.up_children import GRACE_S, Child, die_with_parent, remember, stop_orphans
from config.up_hub import (
    RunningHub,
    asked_hub,
    ensure_read_tokens,
    hub_command,
    running_hub,
    settle_trust,
)
from config.up_processes import (
    AUTHOR,
    GATEWAY,
    HUB,
    LOOPBACK,
    ORDER,
    STOP_STAGES,
    WEB,
    WORKER,
    base_url,
    is_free,
    probe,
)
from config.up_secrets import RealmKeys, complete_first_run, realm_keys
from config.up_state import StateDir, read_json, write_json
from config.up_web import web_command
from hub.errors import ErrorCode, VeenError
from hub.types import PublicKey
from recorder.codes import RecordError

PROJECT: Final = Path(__file__).resolve().parent.parent
PORTS_TRIED_MAX: Final = 200
READY_TIMEOUT_S: Final = 90.0
TICK_S: Final = 0.25
HOUSEKEEPING_S: Final = 10.0

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
        self._children = {
            name: Child(name, state.log(name)) for name in up_processes.chosen(self._settings)
        }
        self._adapters = adapters_of(self._settings, state)
        self._hub = self._children[HUB]
        self._realm: RealmKeys | None = None
        self._hub_port = 0
        self._sockets: dict[str, socket.socket] = {}
        self._running_hub: RunningHub | None = None
        self._hub_json_at = 0
        self._tidied_at = time.monotonic()

    def start(self) -> dict[str, Any]:
        """Bring everything up in order; return the status document."""
        for adapter in self._adapters.values():
            adapter.check()
        orphans = stop_orphans(self._state)
        if orphans:
            self._say(f"stopped {orphans} process(es) that an earlier run left behind")
        complete_first_run(self._state)
        self._realm = realm_keys(self._state)
        self._forget_hub_json()
        self._state.status.unlink(missing_ok=True)  # of a run that was killed
        self._hub_port = self._free_port(HUB, self._settings.hub_port)
        self._spawn(self._hub)
        self._spawn(self._children[AUTHOR])  # it waits for the status, and loads meanwhile
        self._prepare_web()
        self._await_ready([self._hub])
        hub = running_hub(self._state)
        if hub is None:
            raise NotReadyError("the hub is ready but wrote no hub.json", self._hub.log_tail())
        self._running_hub = hub
        settle_trust(self._state, hub, self._accepted_pk)
        ensure_read_tokens(self._state, hub)
        self._listen_all()
        self._write_status()  # before those who read it
        self._await_ready([self._children[AUTHOR]])  # it makes what the others use
        self._write_status()
        self._start_together([GATEWAY, WORKER, WEB])
        self._start_adapters()
        return self.status()

    def _start_adapters(self) -> None:
        """Last, for their producers are made by acts that the web process takes."""
        able = []
        for name, adapter in self._adapters.items():
            try:
                adapter.ensure_connection()
            except (VeenError, RecordError, OSError) as refusal:
                # Nobody else waits for it, and what helps is a command that asks this bundle.
                self._children[name].state = "waiting"
                self._say(f"{name} is not started: {refusal}")
            else:
                able.append(name)
        self._follow_hub()
        self._start_together(able)

    def _follow_hub(self) -> None:
        for adapter in self._adapters.values():
            if self._running_hub is not None:
                adapter.follow(self._running_hub.url)

    def _tend_adapters(self) -> None:
        """Start one whose connection file came meanwhile; a rotated producer needs a new start."""
        for name, adapter in self._adapters.items():
            child = self._children[name]
            if child.state == "waiting" and adapter.connection.exists():
                self._spawn(child)
                self._write_status()
            elif child.state == "running" and adapter.has_new_key():
                child.ask_to_stop()
            if (flaw := adapter.follow_streams()) is not None:
                self._say(f"the streams of {name} are not renewed: {flaw}")

    def _start_together(self, names: Sequence[str]) -> None:
        children = [self._children[name] for name in names if name in self._children]
        for child in children:
            self._spawn(child)
        self._await_ready(children)
        self._write_status()

    def _listen_all(self) -> None:
        """Sockets are ours before anyone serves on them, so every address is known at once."""
        wanted = {GATEWAY: self._settings.gateway_port, WEB: self._settings.port}
        for name, port in wanted.items():
            if name in self._children:
                self._sockets[name] = self._listen(name, port)
        for adapter in self._adapters.values():
            adapter.listen()

    def first_login(self) -> dict[str, Any] | None:
        """Name and password of a new administrator, until `forget_first_login`."""
        return read_json(self._state.first_login)

    def forget_first_login(self) -> None:
        self._state.first_login.unlink(missing_ok=True)

    def watch(self) -> None:
        """Restart what crashes until someone asks to stop."""
        while not self._stop.wait(TICK_S):
            changes = [self._tend(child) for child in self._children.values()]
            if any(changes):
                self._write_status()
            self._look_for_new_key()
            if time.monotonic() - self._tidied_at > HOUSEKEEPING_S:
                self._tidied_at = time.monotonic()
                self._keep_house()

    def stop(self) -> None:
        """Stage by stage; within one, all are asked before any is waited for."""
        for stage in STOP_STAGES:
            children = [self._children[name] for name in stage if name in self._children]
            deadline = time.monotonic() + GRACE_S
            for child in children:
                child.ask_to_stop()
            for child in children:
                child.wait_stopped(deadline)
        for listening in self._sockets.values():
            listening.close()
        for adapter in self._adapters.values():
            adapter.close()
        leftovers = [self._state.ready(name) for name in (*ORDER, *ADAPTERS)]
        for path in (self._state.status, self._state.children, *leftovers):
            path.unlink(missing_ok=True)

    def status(self) -> dict[str, Any]:
        """Exactly what `veen status --json` prints."""
        hub = self._running_hub
        web, gateway = self._sockets.get(WEB), self._sockets.get(GATEWAY)
        return {
            "web_url": base_url(web) if web else None,
            "hub_url": hub.url if hub else None,
            "gateway_url": base_url(gateway) if gateway else None,
            "hub_pk": hub.hub_pk.hex() if hub else None,
            "hub_id": hub.hub_id.hex() if hub else None,
            "zone": self._settings.zone,
            "data_dir": str(self._state.root),
            "processes": [self._described(child) for child in self._children.values()],
        }

    def _described(self, child: Child) -> dict[str, Any]:
        found = {"name": child.name, "pid": child.pid, "state": child.state}
        adapter = self._adapters.get(child.name)
        return (
            found if adapter is None or not adapter.fds else {**found, "address": adapter.address}
        )

    def _write_status(self) -> None:
        self._remember()
        write_json(self._state.status, self.status())

    def _remember(self) -> None:
        remember(self._state, list(self._children.values()))

    def _spawn(self, child: Child) -> None:
        listening, adapter = self._sockets.get(child.name), self._adapters.get(child.name)
        # The socket is ours and outlives a crash: callers wait instead of being refused, and no
        # stranger can answer in its place.
        fds: tuple[int, ...] = () if listening is None else (listening.fileno(),)
        if adapter is not None:
            fds = adapter.fds
        self._state.ready(child.name).unlink(missing_ok=True)
        child.spawn(
            self._command(child.name, fds), cwd=PROJECT, env=self._environment(), pass_fds=fds
        )
        self._remember()

    def _command(self, name: str, fds: tuple[int, ...]) -> list[str]:
        if name in self._adapters:
            return self._adapters[name].command()
        if name == HUB:
            assert self._realm is not None
            return hub_command(self._settings, self._state, self._realm, self._hub_port)
        if name == AUTHOR:
            return up_processes.author_command()
        if name == WORKER:
            return up_processes.worker_command()
        if name == GATEWAY:
            return up_processes.gateway_command(self._state, *fds)
        return web_command(*fds)

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

    def _await_ready(self, children: Sequence[Child]) -> None:
        """Wait until all of them work; give the last words of one that does not."""
        started = time.monotonic()
        waiting = list(children)
        while waiting:
            waited_s = time.monotonic() - started
            for child in list(waiting):
                is_ready, reason = self._look_at_start(child)
                if is_ready:
                    child.state = "running"
                    self._say(f"{child.name} is ready after {waited_s:.1f} s")
                    waiting.remove(child)
                elif waited_s > READY_TIMEOUT_S:
                    raise NotReadyError(
                        f"{child.name} is not ready after {waited_s:.0f} s: {reason}",
                        child.log_tail(),
                    )
            if waiting:
                self._say(f"waiting for {waiting[0].name} {waited_s:.0f} s ...")
                if self._stop.wait(TICK_S):
                    raise StoppedError

    def _look_at_start(self, child: Child) -> tuple[bool, str]:
        if child.has_crashed():
            if child is self._hub and not is_free(self._hub_port):
                self._hub_port = self._free_port(HUB, self._hub_port)
                self._spawn(child)  # someone was faster on that port
                return False, "its port was taken"
            code = child.exit_code()
            raise NotReadyError(f"{child.name} ended at start, code {code}", child.log_tail())
        return self._probe(child)

    def _probe(self, child: Child) -> tuple[bool, str]:
        if child is self._hub:
            hub = running_hub(self._state)
            return probe(f"{hub.url}/readyz") if hub else (False, "no hub.json yet")
        listening = self._sockets.get(child.name)
        if listening is None:
            return up_processes.probe_ready_file(self._state, child)
        return probe(f"{base_url(listening)}/healthz")

    def _tend(self, child: Child) -> bool:
        """One look at one child; True when its state changed."""
        if child.state == "restarting":
            if time.monotonic() < child.restart_at:
                return False
            if child is self._hub:
                self._forget_hub_json()
                self._hub_port = self._free_port(HUB, self._hub_port)
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
        for child in self._children.values():
            child.cut_log()
        if self._hub.state == "running":
            self._note_hub()
        self._tend_adapters()

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
        self._follow_hub()
        self._write_status()

    def _free_port(self, name: str, wanted: int) -> int:
        """The wanted port, or the next one nobody has."""
        for port in range(wanted, min(wanted + PORTS_TRIED_MAX, 65536)):
            if is_free(port):
                if port != wanted:
                    self._say(f"port {wanted} is taken; {name} uses {port}")
                return port
        raise VeenError(ErrorCode.CONFIG, f"no free port for {name} from {wanted} on")

    def _listen(self, name: str, wanted: int) -> socket.socket:
        """A listening socket on the first free port from the wanted one on."""
        while True:
            port = self._free_port(name, wanted)
            with contextlib.suppress(OSError):  # someone was faster on that port
                return socket.create_server((LOOPBACK, port), backlog=128)
