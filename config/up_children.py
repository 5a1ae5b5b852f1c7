"""A child process of the bundle: started in its own session, watched, stopped whole.

[architecture: processes of `veen up`]
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from config.up_state import PRIVATE_FILE, StateDir, read_json, write_json

GRACE_S: Final = 15.0
BACKOFF_FIRST_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
STEADY_S: Final = 60.0  # after so long a crash counts as the first one again
LOG_BYTES_MAX: Final = 32 * 1024 * 1024
LOG_TAIL_BYTES: Final = 8192
_PR_SET_PDEATHSIG: Final = 1


def _libc() -> Any:  # noqa: ANN401 - ctypes has no better type
    return ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> Callable[[], None] | None:
    """A `kill -9` of the supervisor must not leave a hub that nobody watches (Linux only)."""
    libc = _libc()
    if not hasattr(libc, "prctl"):
        return None
    parent = os.getpid()

    def set_death_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # The parent died before the line above.
            os._exit(1)

    return set_death_signal


class Child:
    """One supervised process; `spawn` may be called again after it ended."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.state = "starting"
        self.restarts = 0
        self.backoff_s = BACKOFF_FIRST_S
        self.started_at = 0.0
        self.restart_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def spawn(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start the command; its output goes to the log, its signals come only from us."""
        fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        try:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                pass_fds=pass_fds,
                start_new_session=True,  # Ctrl-C reaches the supervisor alone
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - we have no threads
            )
        finally:
            os.close(fd)
        self.started_at = time.monotonic()
        self.state = "starting"

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else None

    def has_crashed(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def plan_restart(self) -> float:
        """Clear what the dead process left of its group; return the seconds to wait."""
        assert self._process is not None
        kill_group(self._process.pid, signal.SIGKILL)
        now = time.monotonic()
        if now - self.started_at > STEADY_S:
            self.backoff_s = BACKOFF_FIRST_S
        wait_s = self.backoff_s
        self.backoff_s = min(2 * self.backoff_s, BACKOFF_MAX_S)
        self.restart_at = now + wait_s
        self.restarts += 1
        self.state = "restarting"
        self._process = None
        return wait_s

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # Only the leader: it stops its own workers in order.
            self._process.terminate()

    def wait_stopped(self, deadline: float) -> None:
        """Wait until the deadline, then kill the whole group."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        kill_group(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.state = "stopped"
        self._process = None

    def log_tail(self, lines: int = 20) -> list[str]:
        """The last lines it wrote, for a message to a person."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        printable = (
            "".join(c if c.isprintable() else "?" for c in line) for line in text.splitlines()
        )
        return list(printable)[-lines:]

    def cut_log(self) -> None:
        """Keep one older generation; truncated in place, because the child holds the file."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES_MAX:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)


def kill_group(pid: int, how: signal.Signals) -> None:
    """Signal the session a child leads; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)


def start_time(pid: int) -> str | None:
    """When the kernel started this process: with it, a pid names one process for ever (Linux).

    None when it has ended, also while nobody has collected its exit code.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name stands in parentheses and may hold blanks and parentheses itself.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def remember(state: StateDir, children: Sequence[Child]) -> None:
    """Write down who our children are, for an `up` that comes after a kill -9."""
    alive = [child.pid for child in children if child.pid is not None]
    write_json(state.children, {"children": [[pid, start_time(pid)] for pid in alive]})


def stop_orphans(state: StateDir) -> int:
    """Stop children of a supervisor that was killed; return how many there were."""
    listed = (read_json(state.children) or {}).get("children", [])
    orphans = [pid for pid, born in listed if born is not None and start_time(pid) == born]
    for pid in orphans:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while any(start_time(pid) is not None for pid in orphans) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in orphans:
        kill_group(pid, signal.SIGKILL)
    return len(orphans)
