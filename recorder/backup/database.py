"""The SQL database in a backup: a whole copy of SQLite, or pg_dump's archive [experience 3]."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hub.errors import ErrorCode, StoreError, VeenError

SQLITE: Final = "web/db.sqlite3"
POSTGRESQL: Final = "web/db.pgdump"
_TIMEOUT_S: Final = 3600

Settings = Mapping[str, Any]  # Django's description of one database


def kind_of(settings: Settings) -> str:
    """Which database this is; `none` when there is none yet."""
    if "postgresql" in str(settings["ENGINE"]):
        return "postgresql"
    return "sqlite" if Path(settings["NAME"]).exists() else "none"


def dump(settings: Settings, folder: Path) -> Path | None:
    """A file with everything as of one moment, whoever writes meanwhile."""
    kind = kind_of(settings)
    if kind == "none":
        return None
    if kind == "postgresql":
        target = folder / Path(POSTGRESQL).name
        _run("pg_dump", settings, "--format=custom", "--no-owner", "--file", str(target))
        return target
    target = folder / Path(SQLITE).name
    with (
        contextlib.closing(sqlite3.connect(settings["NAME"])) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, nothing beside it
    check_sqlite(target)
    return target


def check_sqlite(path: Path) -> None:
    """Raise S.DAMAGE unless the file is a whole database."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as opened:
            (word,) = opened.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as flaw:
        raise StoreError(f"{path}: {flaw}", ErrorCode.DAMAGE) from flaw
    if word != "ok":
        raise StoreError(f"{path}: {word}", ErrorCode.DAMAGE)


def load_postgresql(settings: Settings, archive: Path) -> None:
    """Put an archive in the place of what the database holds."""
    flags = ("--clean", "--if-exists", "--no-owner", "--single-transaction", "--exit-on-error")
    name = str(settings["NAME"])
    _run("pg_restore", settings, *flags, f"--dbname={name}", str(archive), names_database=False)


def _run(tool: str, settings: Settings, *args: str, names_database: bool = True) -> None:
    path = shutil.which(tool)
    if path is None:
        raise VeenError(
            ErrorCode.CONFIG, f"{tool} is not on PATH; PostgreSQL's client tools have it"
        )
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "10"}
    for variable, name in (
        ("PGHOST", "HOST"), ("PGPORT", "PORT"), ("PGUSER", "USER"), ("PGPASSWORD", "PASSWORD"),
    ):  # fmt: skip
        if settings.get(name):
            environment[variable] = str(settings[name])
    if names_database:
        environment["PGDATABASE"] = str(settings["NAME"])
    done = subprocess.run(  # noqa: S603 - a tool found on PATH, with our own words
        [path, *args],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        detail = f"{tool}: {said[-1] if said else done.returncode}"
        raise StoreError(detail)
