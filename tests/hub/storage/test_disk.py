from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from hub.errors import ErrorCode, StoreError
from hub.storage.disk import DirectoryLock, Disk
from tests.support.disks import Fault, FaultyDisk, Stopped


def test_a_lock_is_held_by_one_and_free_again_when_given_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = DirectoryLock(path)
    with pytest.raises(StoreError) as caught:
        DirectoryLock(path)
    assert caught.value.code is ErrorCode.LOCKED
    lock.release()
    DirectoryLock(path).release()


def test_another_process_is_refused_and_told_who_holds_the_directory(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hub.storage.disk import DirectoryLock\n"
        "lock = DirectoryLock(Path(sys.argv[1]))\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    path = tmp_path / "lock"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"process {holder.pid}"):
            DirectoryLock(path)
        holder.kill()
        holder.wait()
        DirectoryLock(path).release()  # a kill gives it up


def test_an_atomic_write_is_whole_or_not_at_all_at_every_stop(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for at in range(1, 8):
        path.write_bytes(b"old")
        with contextlib.suppress(Stopped):
            FaultyDisk(at, Fault.STOP).write_atomic(path, b"new content")
        assert path.read_bytes() in (b"old", b"new content")
    assert path.read_bytes() == b"new content"


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    disk = Disk()
    disk.mkdir(tmp_path / "a" / "b")
    disk.write_atomic(tmp_path / "a" / "b" / "file", b"secret")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o077 == 0


def test_every_sync_is_counted(tmp_path: Path) -> None:
    disk = Disk()
    disk.write_atomic(tmp_path / "file", b"x")
    assert disk.syncs == 2  # the file and its name
