"""Development commands: test, lint, fix, vectors, fuzz [style 4]."""

from __future__ import annotations

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


def _run(*command: str) -> int:
    """Run a command in the repository and return its exit code."""
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _pytest(*args: str) -> int:
    return EXIT_OF_PYTEST.get(_run(sys.executable, "-m", "pytest", *args), EXIT_CHECKS_FAILED)


@click.command(context_settings=PASS_ON)
@click.option("--fast", is_flag=True, help="Leave out tests marked slow or browser.")
@click.option("--full", is_flag=True, help="Run fault and attack tests in their large numbers.")
@click.option("-n", "processes", default="2", show_default=True, help="Processes; 0 for none.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def test(*, fast: bool, full: bool, processes: str, pytest_args: tuple[str, ...]) -> int:
    """Run the test suite; further arguments go to pytest.

    \b
    Examples:
      veen test
      veen test --fast tests/hub/wire -k receipt
    """  # noqa: D301 - click's mark against rewrapping
    options = [f"--{name}" for name, given in (("fast", fast), ("full", full)) if given]
    if processes != "0":
        options += ["-n", processes, "--dist", "worksteal"]
    return _pytest(*options, *pytest_args)


@click.command()
def lint() -> int:
    """Run every static check and name those that failed.

    \b
    Examples:
      veen lint
      veen fix && veen lint
    """  # noqa: D301 - click's mark against rewrapping
    failed = []
    for name, command in LINTERS.items():
        click.secho(f"== {name}", bold=True, err=True)
        if not Path(command[0]).exists():
            click.echo(f"lint: skipped, {command[0]} does not exist on this kind of machine")
        elif _run(*command):
            failed.append(name)
    verdict = f"lint: failed: {', '.join(failed)}" if failed else "lint: all checks passed"
    click.echo(verdict)
    return EXIT_CHECKS_FAILED if failed else 0


@click.command()
def fix() -> int:
    """Repair what the linters can repair by themselves.

    \b
    Examples:
      veen fix
      veen fix && veen lint
    """  # noqa: D301 - click's mark against rewrapping
    _run(sys.executable, "-m", "ruff", "check", "--fix-only", ".")
    return EXIT_CHECKS_FAILED if _run(sys.executable, "-m", "ruff", "format", ".") else 0


@click.command(context_settings=PASS_ON)
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def vectors(*, pytest_args: tuple[str, ...]) -> int:
    """Check every test vector byte for byte.

    \b
    Examples:
      veen vectors
      veen vectors -v
    """  # noqa: D301 - click's mark against rewrapping
    return _pytest("-k", "vector", *pytest_args)


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="How long to search.")
@click.option("--seed", default=None, type=int, help="First seed; from the clock if not given.")
@click.argument("places", nargs=-1)
def fuzz(*, minutes: float, seed: int | None, places: tuple[str, ...]) -> int:
    """Search for counterexamples with a new seed each round, until one is found or time is up.

    \b
    Examples:
      veen fuzz --minutes 5
      veen fuzz --seed 20251 tests/properties
    """  # noqa: D301 - click's mark against rewrapping
    end = time.monotonic() + 60 * minutes
    current = time.time_ns() // 10**6 % 10**9 if seed is None else seed
    while time.monotonic() < end:
        click.echo(f"fuzz: seed {current}")
        os.environ["VEEN_SEED"] = str(current)
        code = _pytest(
            "-q", "-n", "2", "--hypothesis-profile=fuzz", f"--hypothesis-seed={current}",
            *(places or ("tests/properties",)),
        )  # fmt: skip
        if code:
            click.echo(f"fuzz: failed with seed {current}; repeat it with --seed {current}")
            return code
        current += 1
    click.echo("fuzz: time is up, nothing found")
    return 0
