"""DATABASE of Django: SQLite in the state directory, PostgreSQL by URL [architecture]."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from config.settings_file import Settings
from config.up_state import StateDir
from hub.errors import ErrorCode, VeenError
from hub.keystore import read_private

# FULL: a row may hold the only copy of a wrapped key, or an act that was answered with 202.
SQLITE_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
    "PRAGMA busy_timeout=10000;"
)
POSTGRES_SCHEMES: Final = frozenset({"postgres", "postgresql"})


def configuration(settings: Settings, state: StateDir) -> dict[str, Any]:
    """Django's description of the database these settings name."""
    if settings.database_url is None:
        return sqlite(str(state.database))
    return _postgresql(settings)


def sqlite(name: str) -> dict[str, Any]:
    """IMMEDIATE, so that a read that turns into a write waits instead of failing."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_PRAGMAS,
            "timeout": 10,
        },
    }


def _postgresql(settings: Settings) -> dict[str, Any]:
    assert settings.database_url is not None
    url = urlsplit(settings.database_url)
    if url.scheme not in POSTGRES_SCHEMES:
        raise VeenError(
            ErrorCode.CONFIG, f"database_url must begin with postgresql://, not {url.scheme}://"
        )
    name = unquote(url.path.removeprefix("/"))
    if not name:
        raise VeenError(ErrorCode.CONFIG, "database_url names no database")
    found: dict[str, Any] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(url.username or ""),
        "HOST": url.hostname or "",
        "PORT": str(url.port or ""),
        "OPTIONS": dict(parse_qsl(url.query)),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
    if settings.database_password_file is not None:
        found["PASSWORD"] = read_private(settings.database_password_file).decode().strip()
    return found
