"""Development commands: test, lint, fix, vectors, fuzz [style 4]."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).resolve().parent.parent
EXIT_CHECKS_FAILED: Final = 5
# What pytest says: 0 passed, 1 failed, 2 interrupted, 3 broken inside, 4 usage, 5 nothing to run.
EXIT_OF_PYTEST: Final = {0: 0, 3: 70, 4: 1, 5: 1}
FUZZED: Final = ("tests/properties", "tests/fuzz")
PASS_ON: Final = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
IMPORT_LINTER: Final = "from importlinter.cli import lint_imports_command as run; run()"
LINTERS: Final[dict[str, tuple[str, ...]]] = {
    "ruff check": (sys.executable, "-m", "ruff", "check", "."),
    "ruff format": (sys.executable, "-m", "ruff", "format", "--check", "."),
    "mypy": (sys.executable, "-m", "mypy"),
    "import-linter": (sys.executable, "-c", IMPORT_LINTER),
    "codespell": (sys.executable, "-m", "codespell_lib"),
    "shellcheck": (str(Path(sys.executable).with_name("shellcheck")), "veen", ".ci/run"),
}


JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
STDERR: Final = 2


def _run(*command: str, as_json: bool) -> int:
    """Run a command in the repository; with --json its words go to stderr."""
    stdout = STDERR if as_json else None
    return subprocess.run(command, cwd=ROOT, stdout=stdout, check=False).returncode


def _pytest(*args: str, as_json: bool) -> int:
    code = _run(sys.executable, "-m", "pytest", *args, as_json=as_json)
    return EXIT_OF_PYTEST.get(code, EXIT_CHECKS_FAILED)


def _verdict(code: int, text: str, *, as_json: bool, **document: object) -> int:
    """The last line of a command, or its one document; its exit code."""
    if as_json:
        click.echo(json.dumps({"ok": code == 0, **document}))
    elif text:
        click.echo(text)
    return code


@click.command(context_settings=PASS_ON)
@click.option("--fast", is_flag=True, help="Leave out tests marked slow or browser.")
@click.option("--full", is_flag=True, help="Run fault and attack tests in their large numbers.")
@click.option("-n", "processes", default="2", show_default=True, help="Processes; 0 for none.")
@JSON
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(
    *, fast: bool, full: bool, processes: str, as_json: bool, pytest_args: tuple[str, ...]
) -> int:
    """Run the test suite; further arguments go to pytest.

    \b
    Examples:
      veen test
      veen test --fast tests/hub/wire -k receipt
    """  # noqa: D301 - click's mark against rewrapping
    options = [f"--{name}" for name, given in (("fast", fast), ("full", full)) if given]
    if processes != "0":
        options += ["-n", processes, "--dist", "worksteal"]
    code = _pytest(*options, *pytest_args, as_json=as_json)
    return _verdict(code, "", as_json=as_json, exit_code=code)


@click.command()
@JSON
def lint(*, as_json: bool) -> int:
    """Run every static check and name those that failed.

    \b
    Examples:
      veen lint
      veen fix && veen lint
    """  # noqa: D301 - click's mark against rewrapping
    failed, skipped = [], []
    for name, command in LINTERS.items():
        click.secho(f"== {name}", bold=True, err=True)
        if not Path(command[0]).exists():
            click.echo(f"lint: skipped, {command[0]} does not exist here", err=as_json)
            skipped.append(name)
        elif _run(*command, as_json=as_json):
            failed.append(name)
    text = f"lint: failed: {', '.join(failed)}" if failed else "lint: all checks passed"
    code = EXIT_CHECKS_FAILED if failed else 0
    return _verdict(code, text, as_json=as_json, failed=failed, skipped=skipped)


@click.command()
@JSON
def fix(*, as_json: bool) -> int:
    """Repair what the linters can repair by themselves.

    \b
    Examples:
      veen fix
      veen fix && veen lint
    """  # noqa: D301 - click's mark against rewrapping
    ruff = (sys.executable, "-m", "ruff")
    _run(*ruff, "check", "--fix-only", ".", as_json=as_json)
    code = EXIT_CHECKS_FAILED if _run(*ruff, "format", ".", as_json=as_json) else 0
    return _verdict(code, "", as_json=as_json)


@click.command(context_settings=PASS_ON)
@JSON
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def vectors(*, as_json: bool, pytest_args: tuple[str, ...]) -> int:
    """Check every test vector byte for byte.

    \b
    Examples:
      veen vectors
      veen vectors -v
    """  # noqa: D301 - click's mark against rewrapping
    code = _pytest("-k", "vector", *pytest_args, as_json=as_json)
    return _verdict(code, "", as_json=as_json, exit_code=code)


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="How long to search.")
@click.option("--seed", default=None, type=int, help="First seed; from the clock if not given.")
@JSON
@click.argument("places", nargs=-1)
def fuzz(*, minutes: float, seed: int | None, as_json: bool, places: tuple[str, ...]) -> int:
    """Search for counterexamples with a new seed each round, until one is found or time is up.

    \b
    Examples:
      veen fuzz --minutes 5
      veen fuzz --seed 20251 tests/properties
    """  # noqa: D301 - click's mark against rewrapping
    end = time.monotonic() + 60 * minutes
    first = time.time_ns() // 10**6 % 10**9 if seed is None else seed
    current = first
    while time.monotonic() < end:
        click.echo(f"fuzz: seed {current}", err=as_json)
        os.environ["VEEN_SEED"] = str(current)
        code = _pytest(
            "-q", "-n", "2", "--hypothesis-profile=fuzz", f"--hypothesis-seed={current}",
            *(places or FUZZED), as_json=as_json,
        )  # fmt: skip
        if code:
            text = f"fuzz: failed with seed {current}; repeat it with --seed {current}"
            return _verdict(code, text, as_json=as_json, first_seed=first, failed_seed=current)
        current += 1
    text = "fuzz: time is up, nothing found"
    return _verdict(0, text, as_json=as_json, first_seed=first, failed_seed=None)
