"""A spool on a disk that is really full: nothing is lost, and it goes on by itself [SDR0 3.2]."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorder.conftest import MakeCast
from tests.support.live_hub import ROOT, LiveHub

# In a mount namespace of its own. The first process fills a small disk while the hub is away and
# kills itself; the second one finds the same disk and sends.
FILL = """
import json, os, signal, sys, time
from hub.errors import StoreError
from recorder.sdk import Recorder

pause_s = float(sys.argv[3])
recorder = Recorder(sys.argv[1], sys.argv[2])
taken, refusal = [], None
for number in range(100_000):
    try:
        recorder.record(event_type="http.request", subject_id=str(number), payload="x" * 8000)
    except StoreError as full:
        refusal = full.detail
        break
    taken.append(number)
    time.sleep(pause_s)
for number in (100_000, 100_001):  # and still after it was refused once
    try:
        recorder.record(event_type="http.request", subject_id=str(number), payload="x" * 8000)
        taken.append(number)
    except StoreError:
        pass
print(json.dumps({"taken": taken, "refusal": refusal}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
SEND = """
import json, sys, time
from recorder.sdk import Recorder
from recorder.spool_files import NoRoomError

with Recorder(sys.argv[1], sys.argv[2]) as recorder:
    recorder.flush(0)  # starts to drain what others left
    end = time.monotonic() + 120
    while time.monotonic() < end:
        state = recorder.state()
        if not state.spooled_bytes and state.pending == 0:
            break
        time.sleep(0.05)
    while True:
        try:
            recorder.record(event_type="login.ok", subject_id="there is room again")
            break
        except NoRoomError:  # until the outbox has given its own back
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    is_flushed = recorder.flush(60)
found = {"spooled": state.spooled_bytes, "dead": state.dead_letters, "flushed": is_flushed}
print(json.dumps(found), flush=True)
"""
BOTH = f"""
set -eu
mount -t tmpfs -o size=64m tmpfs "$DISK"
"{sys.executable}" -c "$FILL" "$AWAY" "$DISK/spool" "$PAUSE" || true
"{sys.executable}" -c "$SEND" "$THERE" "$DISK/spool"
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    try_it = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(try_it, check=False, capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="no mount namespaces on this machine")
@pytest.mark.parametrize(
    "pause_s", ["0", "0.001"], ids=["a burst fills the spool", "a steady load fills the outbox"]
)
def test_a_spool_that_filled_its_disk_outlives_kill_9_and_is_sent_whole(
    hub: LiveHub, make_cast: MakeCast, tmp_path: Path, pause_s: str
) -> None:
    cast = make_cast(hub)
    disk, away, there = (tmp_path / name for name in ("disk", "away", "there"))
    for folder in (disk, away, there):
        folder.mkdir()
    environment = {
        "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "FILL": FILL, "SEND": SEND,
        "DISK": str(disk), "AWAY": str(cast.write(away, hub_url="http://127.0.0.1:1")),
        "THERE": str(cast.write(there)), "PAUSE": pause_s,
    }  # fmt: skip
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", BOTH],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    filled, sent = map(json.loads, done.stdout.splitlines())
    assert "No space left" in filled["refusal"]
    assert "not recorded" in filled["refusal"]
    assert sent == {"spooled": 0, "dead": 0, "flushed": True}
    stream = next(iter(cast.types))
    recorded = [int(one.subject_id) for one in cast.events(hub.url, stream)]
    assert recorded == filled["taken"]
    assert len(recorded) > 1000
