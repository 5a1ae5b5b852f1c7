"""Make .venv from a lock file with nothing but Python's standard library [stack].

Runs under the system's Python before any dependency exists, started by the `veen` script.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from config.bootstrap_pip import fetch_pip

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UNFINISHED = VENV / "veen-unfinished"
BUILD_LOCK = ROOT / "requirements" / "build.lock"
WHEELS_ONLY = ("--require-hashes", "--only-binary", ":all:")
# PySpark is published as source only. Its wheel is built with the hashed setuptools of build.lock,
# never with one that the build would fetch by itself.
LOCK_OPTIONS = (*WHEELS_ONLY, "--no-binary", "pyspark", "--no-build-isolation")


class BootstrapError(Exception):
    """The environment cannot be made; the message says what a person can do."""


def say(text: str) -> None:
    sys.stderr.write(f"veen: {text}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """One bootstrap at a time; the kernel drops the lock when its last holder is gone.

    The children inherit it: a pip that outlives a killed bootstrap is still writing.
    """
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.fcntl(lock, fcntl.F_SETFD, 0)  # Clears close-on-exec.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another veen is preparing .venv; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*command: str | Path, is_quiet: bool = False) -> None:
    # PIP_USER would send the packages to the home directory and past the environment.
    environment = {**os.environ, "PIP_USER": "0", "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    output = subprocess.DEVNULL if is_quiet else sys.stderr
    subprocess.run(command, check=True, env=environment, stdout=output, close_fds=False)


def has_module(python: str | Path, module: str) -> bool:
    probe = (python, "-I", "-c", f"import {module}")
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


def is_usable() -> bool:
    """Whether .venv has a Python that runs and is the one whose packages it holds."""
    code = (
        "import sys, pathlib, sysconfig;"
        "sys.exit(not (sys.version_info >= (3, 11) and sys.prefix != sys.base_prefix"
        " and pathlib.Path(sysconfig.get_path('purelib')).is_dir()))"
    )
    if UNFINISHED.exists() or not PYTHON.exists():
        return False
    return subprocess.run((PYTHON, "-I", "-c", code), check=False).returncode == 0


def make_venv() -> None:
    if is_usable():
        return
    if VENV.exists():
        say(f"replacing {VENV}: unfinished, or its Python is gone or another one")
        shutil.rmtree(VENV)
    if importlib.util.find_spec("venv") is None:
        raise BootstrapError("this Python lacks the module venv; install the full python3")
    say(f"making {VENV} with Python {sysconfig.get_python_version()}")
    # Debian splits ensurepip off, so pip arrives in a step of its own (ensure_pip).
    run(sys.executable, "-m", "venv", "--without-pip", VENV)


def ensure_pip() -> None:
    if has_module(PYTHON, "pip"):
        return
    if has_module(PYTHON, "ensurepip"):
        with contextlib.suppress(subprocess.CalledProcessError):
            run(PYTHON, "-m", "ensurepip", "--default-pip", is_quiet=True)
            return
    say("this Python has no pip; fetching it from the package index")
    wheel = fetch_pip(ROOT / "requirements" / "pip.lock", VENV)
    # A wheel is a zip, and Python runs the pip inside it, which then installs itself.
    run(PYTHON, wheel / "pip", "install", "--no-index", "--no-deps", "--quiet", wheel)
    wheel.unlink()


def install_with_uv(lock: Path) -> bool:
    uv = shutil.which("uv")
    if uv is None:
        return False
    command = [uv, "pip", "install", "--quiet", "--python", str(PYTHON)]
    if index := os.environ.get("PIP_INDEX_URL"):
        command += ["--default-index", index]
    try:
        run(*command, *WHEELS_ONLY, "-r", str(BUILD_LOCK))
        run(*command, *LOCK_OPTIONS, "-r", str(lock))
    except subprocess.CalledProcessError:
        say("uv could not install the lock; using pip, which reads pip's own configuration")
        return False
    return True


def install(lock: Path) -> None:
    say(f"installing {lock.relative_to(ROOT)}; the first time this takes a few minutes")
    if install_with_uv(lock):
        return
    ensure_pip()
    pip = (PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check")
    run(*pip, *WHEELS_ONLY, "-r", BUILD_LOCK)
    run(*pip, *LOCK_OPTIONS, "-r", lock)


@contextlib.contextmanager
def marked_unfinished() -> Iterator[None]:
    """Mark the environment while pip writes into it.

    A killed pip may leave a package half there that looks installed, so whoever comes next and
    finds the mark starts afresh. A pip that merely fails has cleaned up behind itself.
    """
    UNFINISHED.touch()
    try:
        yield
    except subprocess.CalledProcessError as failure:
        if failure.returncode > 0:
            UNFINISHED.unlink()
        raise
    UNFINISHED.unlink()


def put_on_path() -> None:
    """Let this Python find our packages from any directory, in child processes too."""
    query = (PYTHON, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    packages = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()
    (Path(packages) / "veen.pth").write_text(f"{ROOT}\n", encoding="utf-8")


def main() -> int:
    lock = ROOT / "requirements" / f"{sys.argv[1]}.lock"
    try:
        with exclusive():
            make_venv()
            with marked_unfinished():
                install(lock)
            put_on_path()
    except (BootstrapError, OSError) as error:
        say(str(error))
        return 1
    except subprocess.CalledProcessError as error:
        say(f"a step failed (status {error.returncode}); its message stands above")
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
