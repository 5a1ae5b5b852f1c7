"""System checks that refuse an unsafe start, each with a code and a sentence [style 4: settings].

They are deployment checks: `manage.py makemigrations` needs no secrets, the web process does.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register, run_checks
from django.core.exceptions import ImproperlyConfigured

from config.up_secrets import DJANGO_KEY
from config.up_state import StateDir

TAG: Final = "veen"
SECRET_KEY_LENGTH_MIN: Final = 32
OTHERS: Final = 0o077


def _state() -> StateDir:
    state: StateDir = settings.STATE
    return state


@register(TAG, deploy=True)
def check_debug(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:  # noqa: ANN401, ARG001
    if not settings.DEBUG:
        return []
    return [Error("DEBUG shows secrets to whoever causes an error.", id="hub.E001")]


@register(TAG, deploy=True)
def check_secret_key(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:  # noqa: ANN401, ARG001
    path = _state().secret(DJANGO_KEY)
    if not path.exists():
        return [
            Error(
                "There is no secret key, so sessions could not be trusted.",
                hint=f"`veen up` creates {path}.",
                id="hub.E002",
            )
        ]
    weak = len(settings.SECRET_KEY) < SECRET_KEY_LENGTH_MIN
    if weak or settings.SECRET_KEY.startswith("django-insecure"):
        return [Error(f"The key in {path} is short or a default.", id="hub.E003")]
    return []


@register(TAG, deploy=True)
def check_secret_modes(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:  # noqa: ANN401, ARG001
    return [
        Error(
            f"{path} has mode {mode:04o}: others than its owner can reach it.",
            hint=f"chmod go= {path}",
            id="hub.E004",
        )
        for path, mode in wide_open(_state())
    ]


def wide_open(state: StateDir) -> list[tuple[Path, int]]:
    """Secrets, and the room they lie in, that are open to others."""
    if not state.secrets.is_dir():
        return []
    every = [state.secrets, *sorted(state.secrets.iterdir())]
    modes = [(path, stat.S_IMODE(path.lstat().st_mode)) for path in every]
    return [(path, mode) for path, mode in modes if mode & OTHERS]


@register(TAG, deploy=True)
def check_hosts(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:  # noqa: ANN401, ARG001
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    return [Error("allowed_hosts '*' lets any name point at this console.", id="hub.E005")]


@register(TAG, deploy=True)
def check_database(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:  # noqa: ANN401, ARG001
    from django.db import connections  # noqa: PLC0415 - the driver is loaded only when asked

    try:
        connections["default"]
    except ImproperlyConfigured as missing:
        return [
            Error(
                f"The database driver cannot be loaded: {str(missing).splitlines()[0]}",
                hint="PostgreSQL needs the package psycopg in the environment of veen.",
                id="hub.E007",
            )
        ]
    return []


def refuse_unsafe_start() -> None:
    """Raise with every reason at once."""
    found = run_checks(tags=[TAG], include_deployment_checks=True)
    if found:
        raise ImproperlyConfigured("\n".join(f"{m.id}: {m.msg} {m.hint or ''}" for m in found))
