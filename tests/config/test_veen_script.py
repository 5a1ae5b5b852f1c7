"""The `veen` script: makes .venv when it must, and only then; safe when killed or run twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EMPTY_LOCK = "# nothing is needed here: the packages come from the environment of the tests\n"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose locks ask for nothing, so that no index is needed."""
    root = tmp_path_factory.mktemp("checkout") / "a veen tree"
    for package in ("config", "hub"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, root / package, ignore=ignored)
    shutil.copy(ROOT / "veen", root / "veen")
    (root / "requirements").mkdir()
    for name in ("build.lock", "runtime.lock", "dev.lock"):
        (root / "requirements" / name).write_text(EMPTY_LOCK, encoding="utf-8")
    return root


def start(script: Path, *args: str, cwd: Path) -> subprocess.Popen[str]:
    packages = sysconfig.get_path("purelib")
    path = os.pathsep.join(
        part for part in os.environ["PATH"].split(os.pathsep) if not (Path(part) / "uv").exists()
    )
    environ = {**os.environ, "PYTHONPATH": packages, "PATH": path}
    return subprocess.Popen(
        (script, *args),
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: Path, *args: str, cwd: Path) -> tuple[int, str, str]:
    process = start(script, *args, cwd=cwd)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_the_script_makes_its_environment_once_and_when_it_must(tree: Path, tmp_path: Path) -> None:
    code, out, err = run(tree / "veen", "--version", cwd=tmp_path)
    assert (code, out) == (0, "veen 0.1.0\n"), err
    assert "installing requirements/runtime.lock" in err

    assert run(tree / "veen", "--version", cwd=tmp_path) == (0, "veen 0.1.0\n", "")

    lock = tree / "requirements" / "runtime.lock"
    lock.write_text(EMPTY_LOCK + "# changed\n", encoding="utf-8")
    assert "installing" in run(tree / "veen", "--version", cwd=tmp_path)[2]
    assert run(tree / "veen", "--version", cwd=tmp_path)[2] == ""

    # A killed pip leaves the mark, and perhaps half a package: nothing of it may survive.
    (tree / ".venv" / "veen-unfinished").touch()
    half = tree / ".venv" / "half-a-package"
    half.touch()
    lock.write_text(EMPTY_LOCK, encoding="utf-8")
    code, out, err = run(tree / "veen", "--version", cwd=tmp_path)
    assert (code, out) == (0, "veen 0.1.0\n"), err
    assert not half.exists()


def test_it_runs_through_a_link_and_ignores_a_foreign_config_folder(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "__init__.py").write_text("raise SystemExit(99)", encoding="utf-8")
    (tmp_path / "link").symlink_to(os.path.relpath(tree / "veen", tmp_path))
    code, out, err = run(tmp_path / "link", "--version", cwd=tmp_path)
    assert (code, out) == (0, "veen 0.1.0\n"), err


def test_two_first_runs_at_once_both_succeed(tree: Path, tmp_path: Path) -> None:
    shutil.rmtree(tree / ".venv", ignore_errors=True)
    both = [start(tree / "veen", "--version", cwd=tmp_path) for _ in range(2)]
    ends = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert [out for out, _ in ends] == ["veen 0.1.0\n"] * 2


def test_a_lock_that_cannot_be_installed_is_refused_and_leaves_no_stamp(
    tree: Path, tmp_path: Path
) -> None:
    lock = tree / "requirements" / "dev.lock"
    lock.write_text("no-such-package==1\n", encoding="utf-8")
    code, out, err = run(tree / "veen", "fix", cwd=tmp_path)
    assert (code, out) == (9, "")
    assert "a step failed" in err
    assert not (tree / ".venv" / "veen-dev.stamp").exists()
    lock.write_text(EMPTY_LOCK, encoding="utf-8")


def test_the_environment_of_development_serves_every_command(tree: Path, tmp_path: Path) -> None:
    assert run(tree / "veen", "vectors", "--help", cwd=tmp_path)[0] == 0
    (tree / ".venv" / "veen-runtime.stamp").unlink(missing_ok=True)
    assert run(tree / "veen", "--version", cwd=tmp_path) == (0, "veen 0.1.0\n", "")
