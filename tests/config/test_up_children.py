from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config import up_children
from config.up_children import Child, remember, start_time, stop_orphans
from config.up_state import StateDir, make_directories, write_json

SLEEP = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP[-1],
]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    state = StateDir.at(tmp_path / "state")
    make_directories(state)
    return state


@pytest.fixture
def child(state: StateDir) -> Iterator[Child]:
    child = Child("sleeper", state.log("sleeper"))
    yield child
    child.wait_stopped(time.monotonic())


def spawn(child: Child, command: list[str]) -> int:
    child.spawn(command, cwd=Path.cwd(), env=os.environ)
    until(lambda: "here" in child.log_tail())
    assert child.pid is not None
    return child.pid


def until(what: Callable[[], object], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_child_leads_its_own_session_and_stops_when_asked(child: Child) -> None:
    pid = spawn(child, SLEEP)
    assert os.getsid(pid) == pid != os.getsid(0)
    child.ask_to_stop()
    child.wait_stopped(time.monotonic() + 10)
    assert (child.state, child.pid, start_time(pid)) == ("stopped", None, None)


def test_a_child_that_will_not_stop_is_killed_at_the_deadline(child: Child) -> None:
    pid = spawn(child, STUBBORN)
    child.ask_to_stop()
    child.wait_stopped(time.monotonic() + 0.2)
    assert start_time(pid) is None


def test_waits_between_restarts_double_up_to_a_bound(child: Child) -> None:
    waits = []
    for _ in range(7):
        child.spawn([sys.executable, "-c", ""], cwd=Path.cwd(), env=os.environ)
        until(child.has_crashed)
        waits.append(child.plan_restart())
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert child.restarts == 7


def test_a_crash_after_a_steady_time_counts_as_the_first(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.backoff_s = 16
    monkeypatch.setattr(up_children, "STEADY_S", 0.0)
    child.spawn([sys.executable, "-c", ""], cwd=Path.cwd(), env=os.environ)
    until(child.has_crashed)
    assert child.plan_restart() == 1


def test_last_words_are_cut_and_cannot_steer_a_terminal(child: Child) -> None:
    text = "first\n" * 5000 + "red \x1b[31m alert\x07\n"
    child.log.write_text(text)
    tail = child.log_tail(3)
    assert tail == ["first", "first", "red ?[31m alert?"]


def test_a_long_log_keeps_one_older_part(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_children, "LOG_BYTES_MAX", 100)
    child.log.write_bytes(b"x" * 100)
    child.cut_log()
    assert child.log.stat().st_size == 100
    child.log.write_bytes(b"y" * 101)
    child.cut_log()
    assert child.log.stat().st_size == 0
    assert child.log.with_suffix(".log.1").read_bytes() == b"y" * 101


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_children_do_not_outlive_a_killed_supervisor(state: StateDir) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from config.up_children import Child\n"
        f"child = Child('sleeper', Path({str(state.log('sleeper'))!r}))\n"
        f"child.spawn({SLEEP!r}, cwd=Path.cwd(), env=os.environ)\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    until(lambda: start_time(pid) is None)


def test_what_an_earlier_run_left_is_stopped(state: StateDir, child: Child) -> None:
    pid = spawn(child, SLEEP)
    remember(state, [child])
    assert stop_orphans(state) == 1
    until(child.has_crashed)
    assert child.exit_code() == -signal.SIGTERM
    assert start_time(pid) is None
    assert stop_orphans(state) == 0


def test_a_stranger_with_the_pid_of_an_old_child_is_left_alone(
    state: StateDir, child: Child
) -> None:
    pid = spawn(child, SLEEP)
    write_json(state.children, {"children": [[pid, "12345"], [2**22 - 1, "1"]]})
    assert stop_orphans(state) == 0
    assert not child.has_crashed()
