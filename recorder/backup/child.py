"""The part of a backup that needs Django, in a process of its own [architecture].

It runs with VEEN_DATA_DIR at the state directory in question, which may be one that is only being
restored, so its settings and its database are that directory's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hub.errors import ErrorCode, StoreError

_ROOT: Final = Path(__file__).resolve().parents[2]
_TIMEOUT_S: Final = 3600


def call(state: Path, verb: str, **arguments: object) -> dict[str, Any]:
    """Run one verb on a state directory; S.DAMAGE or E.STORE with what it said."""
    environment = {name: value for name, value in os.environ.items() if name != "VEEN_CONFIG"}
    environment |= {"VEEN_DATA_DIR": str(state), "PYTHONPATH": str(_ROOT)}
    environment["DJANGO_SETTINGS_MODULE"] = "config.settings"
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "recorder.backup.child", verb],
        env=environment,
        input=json.dumps(arguments).encode(),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise StoreError(f"the database process failed: {' '.join(said)}") from None
    if "error" in answer:
        raise StoreError(answer["error"], ErrorCode(answer["code"]))
    return answer


def _dump(arguments: dict[str, Any]) -> dict[str, Any]:
    from django.db import connections  # noqa: PLC0415

    from recorder.backup import database  # noqa: PLC0415

    settings = connections["default"].settings_dict
    found = database.dump(settings, Path(arguments["folder"]))
    return {"kind": database.kind_of(settings), "file": None if found is None else str(found)}


def _load(arguments: dict[str, Any]) -> dict[str, Any]:
    from django.db import connections  # noqa: PLC0415

    from recorder.backup import database  # noqa: PLC0415

    settings = connections["default"].settings_dict
    if database.kind_of(settings) != "postgresql":
        detail = "the backup holds a PostgreSQL database, the settings name none"
        raise StoreError(detail, ErrorCode.CONFIG)
    database.load_postgresql(settings, Path(arguments["archive"]))
    return {}


def _finding(arguments: dict[str, Any]) -> dict[str, Any]:
    from django.utils import timezone  # noqa: PLC0415

    from hub.index_source import Observation  # noqa: PLC0415
    from hub.services import record_finding  # noqa: PLC0415

    observed = Observation(
        code=ErrorCode(arguments["code"]), object=arguments["object"], detail=arguments["detail"]
    )
    return {"finding": record_finding(observed, timezone.now()).pk}


VERBS: Final = {"dump": _dump, "load": _load, "finding": _finding}


def _main() -> None:
    from hub.errors import VeenError  # noqa: PLC0415

    arguments = json.load(sys.stdin)
    try:
        import django  # noqa: PLC0415

        django.setup()
        answer = VERBS[sys.argv[1]](arguments)
    except VeenError as refusal:
        answer = {"error": refusal.detail, "code": refusal.code}
    print(json.dumps(answer))  # noqa: T201 - the answer to the parent


if __name__ == "__main__":
    _main()
