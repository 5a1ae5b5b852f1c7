"""An HTTP process never outlives its writer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tests.support.live_hub import ROOT, STOP_S


def test_a_writer_that_dies_before_its_first_word_leaves_no_worker_behind() -> None:
    ours, theirs = socket.socketpair()
    accepted, other = socket.socketpair()
    fds = (theirs.fileno(), accepted.fileno())
    worker = subprocess.Popen(
        [sys.executable, "-m", "hub.server.worker", *map(str, fds)],
        pass_fds=fds,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    theirs.close()
    accepted.close()
    ours.close()
    try:
        assert worker.wait(STOP_S) == 0
    finally:
        worker.kill()
        other.close()
