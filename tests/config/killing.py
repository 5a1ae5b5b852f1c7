"""Runs a function in a child process that is killed at one of its system calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

CALLS = ("fsync", "fdatasync", "replace", "rename", "mkdir", "unlink")


def run_and_kill(work: Callable[[], object], *, at: int, after: bool) -> bool:
    """Kill -9 at the call number `at`, before or after it took place; False when it got through."""
    child = os.fork()
    if child == 0:
        _arm(at, after=after)
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent must not go on in the child
            os._exit(1)
        os._exit(0)
    _, how = os.waitpid(child, 0)
    if os.WIFSIGNALED(how):
        assert os.WTERMSIG(how) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(how) == 0, "the work itself failed"
    return False


def _arm(at: int, *, after: bool) -> None:
    count = 0

    def armed(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == at and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args, **kwargs)
            finally:  # also when the call failed
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        return counted

    for name in CALLS:
        setattr(os, name, armed(getattr(os, name)))
