"""The processes of a bundle: how each is started, and how it is known to work [architecture]."""

from __future__ import annotations

import http.client
import importlib.util
import socket
import sys
from typing import Final
from urllib.parse import urlsplit

from config.settings_file import ADAPTERS, Settings
from config.up_children import Child
from config.up_state import StateDir, read_json

LOOPBACK: Final = "127.0.0.1"
HUB, AUTHOR, GATEWAY, WORKER, WEB = "hub", "author", "gateway", "worker", "web"
# In the order of starting: the hub, then who creates streams on it, then who uses them.
ORDER: Final = (HUB, AUTHOR, GATEWAY, WORKER, WEB)  # and then the adapters, where switched on
# Those of one stage stop together: nobody is served by half a bundle, and nothing is recorded
# after the hub has gone.
STOP_STAGES: Final = ((WEB, GATEWAY, WORKER, *ADAPTERS), (AUTHOR,), (HUB,))
_OPTIONAL: Final = {GATEWAY: "recorder.gateway", WORKER: "config.worker"}


def chosen(settings: Settings) -> tuple[str, ...]:
    """The processes that this bundle runs."""
    left_out = set() if settings.run_worker else {WORKER}
    for name, module in _OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            left_out.add(name)
    adapters = [name for name in ADAPTERS if getattr(settings, name)]
    return (*(name for name in ORDER if name not in left_out), *adapters)


def author_command() -> list[str]:
    """The author finds everything by its settings."""
    return [sys.executable, "-m", "config.author"]


def gateway_command(state: StateDir, fd: int) -> list[str]:
    """The gateway serves on a socket of the supervisor's."""
    command = [sys.executable, "-m", "recorder.gateway"]
    return [*command, "--state-dir", str(state.root), "--fd", str(fd)]


def worker_command() -> list[str]:
    """The worker with its schedules and its Spark driver."""
    return [sys.executable, "-m", "config.worker"]


def probe_ready_file(state: StateDir, child: Child) -> tuple[bool, str]:
    """A process without an address writes its pid when it works."""
    found = read_json(state.ready(child.name))
    if found is not None and found.get("pid") == child.pid:
        return True, ""
    return False, f"it has not written {state.ready(child.name).name} yet"


def base_url(listening: socket.socket) -> str:
    """The address of a socket that we hold."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}"


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
