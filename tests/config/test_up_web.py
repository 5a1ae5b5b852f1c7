"""The database of the web process is there whole or not at all, whenever the power goes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from config.up_secrets import make_django_key
from config.up_state import StateDir, make_directories

pytestmark = pytest.mark.slow

# Runs `prepare` and kills itself where the first argument says.
KILLED = """
import os, signal, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
import django
django.setup()
from django.db.migrations.recorder import MigrationRecorder
from django.contrib.auth.models import UserManager
from pathlib import Path
from config import up_web

place, count = sys.argv[1], int(sys.argv[2])
def kill_before(owner, name):
    real = getattr(owner, name)
    def armed(*args, **kwargs):
        global count
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    setattr(owner, name, armed)
if place == "record": kill_before(MigrationRecorder, "record_applied")
if place == "swap": kill_before(Path, "replace")
if place == "account": kill_before(up_web, "_ensure_administrator")
if place == "password": kill_before(up_web, "write_json")
if place == "insert": kill_before(UserManager, "create_superuser")
up_web.prepare()
"""


def prepare(state: StateDir, *killed: str) -> int:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("VEEN_")}
    environ["VEEN_DATA_DIR"] = str(state.root)
    program = ["-c", KILLED, *killed] if killed else ["-m", "config.up_web"]
    command = [sys.executable, *program]
    return subprocess.run(command, env=environ, check=False, timeout=60).returncode


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    state = StateDir.at(tmp_path / "state")
    make_directories(state)
    make_django_key(state)
    return state


def administrators(state: StateDir) -> list[str]:
    with closing(sqlite3.connect(state.database)) as database:
        found = database.execute("SELECT username FROM auth_user WHERE is_superuser").fetchall()
    return [row[0] for row in found]


@pytest.mark.parametrize(
    ("place", "count"),
    [("record", "1"), ("record", "9"), ("swap", "1"), ("account", "1"), ("password", "1"),
     ("insert", "1")],
)  # fmt: skip
def test_killed_anywhere_the_next_run_completes_it(state: StateDir, place: str, count: str) -> None:
    assert prepare(state, place, count) == -9
    assert prepare(state) == 0
    assert administrators(state) == ["admin"]
    login = json.loads(state.first_login.read_bytes())
    assert login["name"] == "admin"
    assert len(login["password"]) == 23
    assert sorted(p.name for p in state.web.iterdir()) == ["db.sqlite3"]


def test_a_second_run_keeps_users_and_makes_no_new_password(state: StateDir) -> None:
    assert prepare(state) == 0
    state.first_login.unlink()  # it was shown
    before = state.database.read_bytes()
    assert prepare(state) == 0
    assert not state.first_login.exists()
    assert state.database.read_bytes() == before


def test_an_older_database_is_upgraded_with_its_rows(state: StateDir) -> None:
    assert prepare(state) == 0
    with closing(sqlite3.connect(state.database)) as database, database:
        database.execute("DROP TABLE console_loginfailure")
        database.execute("DELETE FROM django_migrations WHERE app = 'console'")
        database.execute("UPDATE auth_user SET username = 'olga'")
    assert prepare(state, "swap", "1") == -9
    assert prepare(state) == 0
    assert administrators(state) == ["olga"]
    with closing(sqlite3.connect(state.database)) as database:
        assert database.execute("SELECT count(*) FROM console_loginfailure").fetchone() == (0,)
