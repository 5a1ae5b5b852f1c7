"""`veen doctor`: what this machine offers and lacks, before something fails [experience 3]."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import click

from config.settings_file import Settings, load
from config.up_state import StateDir, lock_holder
from hub.errors import VeenError

EXIT_NOT_READY: Final = 9
PYTHON_MIN: Final = (3, 11)
DISK_FAIL_BYTES: Final = 64 * 1024**2
DISK_WARN_BYTES: Final = 1024**3
FSYNC_WARN_MS: Final = 50.0
FSYNC_TRIES: Final = 9
# No clock can be right that is older than the code it runs.
CLOCK_FLOOR: Final = 1_760_000_000
OTHERS: Final = 0o077
OPTIONAL_PROGRAMS: Final = {
    "wrk": ("wrk",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
}
OPTIONAL_MEANING: Final = {
    "wrk": "sharper load figures in `veen bench`",
    "chromium": "browser tests",
}
MARKS: Final = {"ok": "ok  ", "info": "info", "warn": "warn", "fail": "FAIL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at; only `fail` keeps the bundle from running."""

    name: str
    status: str
    detail: str


def check_python() -> Check:
    found = platform.python_version()
    status = "ok" if sys.version_info >= PYTHON_MIN else "fail"
    return Check(name="python", status=status, detail=f"{found}, 3.11 or newer is needed")


def nearest_existing(path: Path) -> Path:
    """The directory in which a path that does not exist yet would be made."""
    return next(place for place in (path, *path.parents) if place.exists())


def check_disk(state: StateDir) -> Check:
    free = shutil.disk_usage(nearest_existing(state.root)).free
    status = "fail" if free < DISK_FAIL_BYTES else "warn" if free < DISK_WARN_BYTES else "ok"
    detail = f"{free / 1024**3:.1f} GiB free under {state.root}"
    return Check(name="disk", status=status, detail=detail)


def check_clock(now: float) -> Check:
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < CLOCK_FLOOR:
        return Check(name="clock", status="fail", detail=f"{shown} lies before this software")
    return Check(name="clock", status="ok", detail=shown)


def check_ports(settings: Settings, state: StateDir) -> list[Check]:
    from config.up_processes import is_free  # noqa: PLC0415 - loads the protocol

    is_up = lock_holder(state) is not None
    checks = []
    ports = (settings.port, settings.hub_port, settings.gateway_port)
    for name, port in zip(("web", "hub", "gateway"), ports, strict=True):
        if is_free(port):
            found = ("ok", f"{port} is free")
        elif is_up:
            found = ("ok", f"{port} is in use, and the bundle is up")
        else:
            found = ("warn", f"{port} is taken; `up` takes the next free one")
        checks.append(Check(name=f"port {name}", status=found[0], detail=found[1]))
    return checks


def check_secrets(state: StateDir) -> Check:
    if not state.secrets.is_dir():
        return Check(name="secrets", status="info", detail="none yet; the first `up` makes them")
    paths = [state.secrets, *sorted(state.secrets.iterdir())]
    wide = [
        f"{path.name} {mode:04o}"
        for path in paths
        if (mode := stat.S_IMODE(path.lstat().st_mode)) & OTHERS
    ]
    if wide:
        detail = f"open to others: {', '.join(wide)}; chmod go= them"
        return Check(name="secrets", status="fail", detail=detail)
    return Check(name="secrets", status="ok", detail=f"{len(paths) - 1} files for the owner only")


def check_fsync(state: StateDir) -> Check:
    """A receipt leaves after one fdatasync, so this is the floor of every answer."""
    try:
        took_ms = median(_fsync_times_ms(nearest_existing(state.root)))
    except OSError as error:
        return Check(name="fsync", status="fail", detail=f"{state.root}: {error.strerror}")
    status = "warn" if took_ms > FSYNC_WARN_MS else "ok"
    return Check(name="fsync", status=status, detail=f"{took_ms:.1f} ms for 4 KiB (median)")


def _fsync_times_ms(place: Path) -> list[float]:
    times = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(FSYNC_TRIES):
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1000 * (time.perf_counter() - started))
    return times


def check_programs(find: Callable[[str], str | None] = shutil.which) -> list[Check]:
    checks = []
    for name, programs in OPTIONAL_PROGRAMS.items():
        found = next((path for program in programs if (path := find(program))), None)
        detail = found or f"not found; only {OPTIONAL_MEANING[name]} would use it"
        checks.append(Check(name=name, status="ok" if found else "info", detail=detail))
    return checks


def check_java(wanted: Path | None, environ: Mapping[str, str]) -> Check:
    """The runtime that the worker would start Spark with."""
    from config.java import choose_java  # noqa: PLC0415

    try:
        java = choose_java(wanted, environ)
    except VeenError as refusal:
        # A wrong path was meant to be right; no Java at all may be on purpose.
        status = "info" if wanted is None else "warn"
        return Check(name="java", status=status, detail=f"queries need it: {refusal.detail}")
    detail = f"{java.home}, Java {java.version} (by {java.origin})"
    return Check(name="java", status="ok", detail=detail)


def check_broker(redis_url: str | None, environ: Mapping[str, str]) -> Check:
    """Where the worker's tasks would wait."""
    from config.broker import find_server  # noqa: PLC0415

    if redis_url is not None:
        return Check(name="broker", status="ok", detail="the one that redis_url names")
    server = find_server(environ)
    if server is None:
        detail = "no Redis or Valkey found; tasks wait in files, a little slower"
        return Check(name="broker", status="info", detail=detail)
    return Check(name="broker", status="ok", detail=str(server))


def check_settings(data_dir: Path | None) -> tuple[Settings, Check]:
    try:
        settings = load(flags={"data_dir": data_dir})
    except VeenError as refusal:
        # The rest can still be looked at, with what the defaults say.
        fallback = load(flags={"data_dir": data_dir}, environ={"VEEN_CONFIG": os.devnull})
        return fallback, Check(name="settings", status="fail", detail=refusal.detail)
    return settings, Check(name="settings", status="ok", detail=str(settings.data_dir))


def examine(data_dir: Path | None) -> list[Check]:
    """Every check, in the order a person would look."""
    settings, first = check_settings(data_dir)
    state = StateDir.at(settings.data_dir)
    return [
        check_python(),
        first,
        check_disk(state),
        check_fsync(state),
        check_clock(time.time()),
        *check_ports(settings, state),
        check_secrets(state),
        check_java(settings.java_home, os.environ),
        check_broker(settings.redis_url, os.environ),
        *check_programs(),
    ]


@click.command(
    epilog="""\b
Examples:
  veen doctor
  veen doctor --data-dir ./state --json"""
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="The state directory."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(*, data_dir: Path | None, as_json: bool) -> int:
    """Check what this machine offers and lacks; exit 9 when something must be mended."""
    checks = examine(data_dir)
    is_ok = all(check.status != "fail" for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": is_ok, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            click.echo(f"{MARKS[check.status]}  {check.name:<12} {check.detail}")
    return 0 if is_ok else EXIT_NOT_READY
