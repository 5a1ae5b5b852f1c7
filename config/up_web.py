"""Prepares the web process: tables, and the first administrator [architecture].

Runs as a process of its own (`python -m config.up_web`), so that the supervisor never imports
Django. Tables are made in a copy that takes the database's place when it is complete: Django notes
a migration after its tables, and a kill between the two could never be repaired by running again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from config.up_secrets import ADMIN_TOKEN
from config.up_state import PRIVATE_FILE, StateDir, read_json, sync_directory, write_json
from recorder.tokens import new_password

ADMINISTRATOR: Final = "admin"


def web_command(fd: int) -> list[str]:
    """One process with threads: pages are few, and one process keeps one watch over the hub."""
    return [
        sys.executable, "-m", "gunicorn", "--config", "python:config.web_server",
        "--bind", f"fd://{fd}", "config.wsgi:application",
    ]  # fmt: skip


def prepare() -> None:
    """Bring the tables up to date and see that there is an administrator."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django  # noqa: PLC0415 - this module's constants are read by a process without Django

    django.setup()
    from django.conf import settings  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415

    state: StateDir = settings.STATE
    with _alone(state):
        if settings.VEEN.database_url is None:
            _prepare_sqlite(state)
        else:
            call_command("migrate", verbosity=0, interactive=False)
        _ensure_administrator(state)
        _ensure_admin_token(state)


@contextlib.contextmanager
def _alone(state: StateDir) -> Iterator[None]:
    """Wait for a preparation whose supervisor was killed and that has not ended yet."""
    fd = os.open(state.run / "prepare.lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _prepare_sqlite(state: StateDir) -> None:
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    if state.database.exists() and not _has_unapplied():
        return
    work = state.database.with_name("db.sqlite3.new")
    for suffix in ("", "-wal", "-shm", "-journal"):
        work.with_name(work.name + suffix).unlink(missing_ok=True)
    os.close(os.open(work, os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    if state.database.exists():
        _copy(state.database, work)
    connection = connections["default"]
    _point_at(connection, work)
    call_command("migrate", verbosity=0, interactive=False)
    _point_at(connection, state.database)
    with work.open("rb") as file:
        os.fsync(file.fileno())
    work.replace(state.database)
    sync_directory(state.web)


def _point_at(connection: Any, path: Path) -> None:  # noqa: ANN401 - Django's wrapper
    """Closing the last connection also folds the write-ahead log back into its file."""
    connection.close()
    connection.settings_dict["NAME"] = str(path)


def _has_unapplied() -> bool:
    from django.db import connections  # noqa: PLC0415
    from django.db.migrations.executor import MigrationExecutor  # noqa: PLC0415

    executor = MigrationExecutor(connections["default"])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    connections["default"].close()
    return bool(plan)


def _copy(source: Path, target: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(source)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def _ensure_administrator(state: StateDir) -> None:
    """The password is on disk before the account exists, so it can always still be shown once."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415

    users = get_user_model()._default_manager  # noqa: SLF001 - Django's documented name for it
    if users.filter(is_superuser=True).exists():
        return
    login = read_json(state.first_login)
    if login is None:
        login = {"name": ADMINISTRATOR, "password": new_password()}
        write_json(state.first_login, login)
    users.create_superuser(username=login["name"], password=login["password"])


def _ensure_admin_token(state: StateDir) -> None:
    """The token that the commands on this machine administer with."""
    from recorder.services import ensure_admin_token  # noqa: PLC0415

    path = state.secret(ADMIN_TOKEN)
    if path.exists():
        ensure_admin_token(path.read_text().strip())


if __name__ == "__main__":
    try:
        prepare()
    except Exception as error:
        if os.environ.get("VEEN_DEBUG"):
            raise
        reason = {"event": "web.not_prepared", "reason": f"{type(error).__name__}: {error}"}
        sys.exit(json.dumps(reason))
