"""The state directory of one bundle: its paths, its lock and its atomic writes [architecture]."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hub.errors import ErrorCode, VeenError

PRIVATE_DIR: Final = 0o700
PRIVATE_FILE: Final = 0o600
PUBLIC_FILE: Final = 0o644
LOCK_TRIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDir:
    """Where everything of one bundle lies; holding a StateDir creates nothing."""

    root: Path

    @classmethod
    def at(cls, root: Path) -> StateDir:
        """Children run elsewhere, so the path is made absolute once, here."""
        return cls(root=root.expanduser().resolve())

    @property
    def hub(self) -> Path:
        return self.root / "hub"

    @property
    def hub_json(self) -> Path:
        return self.hub / "hub.json"

    @property
    def heads(self) -> Path:
        """Outside the directory: a restored copy of the whole must not bring its own heads."""
        return self.root.with_name(self.root.name + ".heads")

    @property
    def secrets(self) -> Path:
        return self.root / "secrets"

    @property
    def web(self) -> Path:
        return self.root / "web"

    @property
    def database(self) -> Path:
        return self.web / "db.sqlite3"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def status(self) -> Path:
        return self.run / "status.json"

    @property
    def children(self) -> Path:
        return self.run / "children.json"

    @property
    def author_socket(self) -> Path:
        """Where the web process wakes the author."""
        return self.run / "author.sock"

    @property
    def author(self) -> Path:
        """The hub client of the service identities: what they sent and what they verified."""
        return self.root / "author"

    @property
    def gateway(self) -> Path:
        """The gateway's configuration and its outboxes."""
        return self.root / "gateway"

    @property
    def worker(self) -> Path:
        """The hub client of the worker."""
        return self.root / "worker"

    @property
    def adapters(self) -> Path:
        """The connection files and spools of the adapters that `up` made producers for."""
        return self.root / "adapters"

    def ready(self, child: str) -> Path:
        """Written by a process without an address once it works, with its pid."""
        return self.run / f"{child}.ready"

    @property
    def trust(self) -> Path:
        return self.root / "trust.json"

    @property
    def trust_pk(self) -> Path:
        """The realm's trust key in the open, for the processes that only verify."""
        return self.root / "trust.pk"

    @property
    def trust_sig(self) -> Path:
        return self.root / "trust.json.sig"

    @property
    def config_file(self) -> Path:
        return self.root / "veen.toml"

    @property
    def first_login(self) -> Path:
        """The first password, kept only until it has been shown."""
        return self.secrets / "first-login"

    def secret(self, name: str) -> Path:
        return self.secrets / name

    def log(self, child: str) -> Path:
        return self.run / f"{child}.log"


def sync_directory(path: Path) -> None:
    """Make a rename durable; without it the name may be lost with the power."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write whole or not at all: a temporary file, synced, then renamed.

    The temporary name is fixed, so what a kill leaves behind is overwritten by the next try.
    """
    temporary = path.with_name(path.name + ".tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    # O_EXCL, because an attacker's link in place of the file would redirect the secret.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_json(path: Path, value: object, *, mode: int = PRIVATE_FILE) -> None:
    write_atomic(path, json.dumps(value, indent=2).encode() + b"\n", mode=mode)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file of ours, or None when it is missing or not whole."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def make_private_dir(path: Path) -> None:
    """Create a directory only its owner can enter, or narrow one that is ours already."""
    path.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    if stat.S_IMODE(path.stat().st_mode) != PRIVATE_DIR:
        path.chmod(PRIVATE_DIR)


def make_directories(state: StateDir) -> None:
    """The empty rooms; `hub` is left to the hub itself, which marks its own format."""
    rooms = (state.secrets, state.web, state.run, state.author, state.gateway, state.worker)
    for path in (state.root, *rooms):
        make_private_dir(path)
    sync_directory(state.root)


def _take(fd: int) -> bool:
    # `veen status` takes the lock for an instant to see whether it is held: not a second `up`.
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


@contextlib.contextmanager
def held_lock(state: StateDir) -> Iterator[None]:
    """Hold the bundle's lock with our pid inside, or say who holds it."""
    fd = os.open(state.lock, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        if not _take(fd):
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise VeenError(
                ErrorCode.LOCKED,
                f"veen is already up on {state.root} (process {holder}); "
                "`veen status` shows it, `veen down` stops it",
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def lock_holder(state: StateDir) -> int | None:
    """The pid of the running bundle, or None.

    A pid file alone may name a stranger after a reboot; a lock that is held cannot.
    """
    try:
        fd = os.open(state.lock, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    else:
        return None
    finally:
        os.close(fd)
