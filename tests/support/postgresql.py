"""A private PostgreSQL server for the lane that needs one; Debian's package or any other."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ACCOUNT = "veen"


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl; Debian keeps it off PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return candidates[-1].parent if candidates else None


@contextmanager
def running_server() -> Iterator[str]:
    """A new cluster on a free loopback port; yields the URL of an empty database."""
    binaries = find_binaries()
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="veen-pg-") as folder:
        home = Path(folder)
        become = _unprivileged(home)
        _call(become, binaries / "initdb", "-D", home / "data", "-U", ACCOUNT, "-A", "trust", "-N")
        port = _free_port()
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {home} -c fsync=off"
        _call(become, binaries / "pg_ctl", "-D", home / "data", "-w", "-o", options,
              "-l", home / "log", "start")  # fmt: skip
        try:
            _call(become, binaries / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", ACCOUNT,
                  "veen")  # fmt: skip
            yield f"postgresql://{ACCOUNT}@127.0.0.1:{port}/veen"
        finally:
            _call(become, binaries / "pg_ctl", "-D", home / "data", "-m", "immediate", "stop")


def _unprivileged(home: Path) -> Callable[[], None] | None:
    """The server refuses to run as root, so root lends the folder to another account."""
    if os.geteuid() != 0:
        return None
    account = next(entry for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody"))
    os.chown(home, account.pw_uid, account.pw_gid)

    def become() -> None:
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)

    return become


def _call(become: Callable[[], None] | None, *command: object) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        preexec_fn=become,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # a server that inherited a pipe would hold it open
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
