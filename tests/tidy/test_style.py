"""The house rules that a linter does not know [style 4, 6]."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("hub", "recorder", "identity", "agbridge", "queryapi", "wallet", "spark_jobs")
SOURCE_FOLDERS = (*PACKAGES, "console", "config")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
DRAWERS = {"common.py", "helpers.py", "manager.py", "misc.py", "utils.py"}
# Spelt in parts, so that this file does not accuse itself.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot)/")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
NOT_OURS = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__"}
CITATION = re.compile(r"\[[^\]]+\]")


def tracked_files() -> list[Path]:
    """What git knows or would take; a tree without git counts as a whole."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not NOT_OURS & set(path.parts)]
    return sorted(path for path in paths if path.is_file())


@cache
def source_files() -> tuple[Path, ...]:
    return tuple(
        path
        for path in tracked_files()
        if path.suffix == ".py"
        and path.relative_to(ROOT).parts[0] in SOURCE_FOLDERS
        and "migrations" not in path.parts  # Django writes those.
    )


@cache
def text_files() -> tuple[tuple[Path, str], ...]:
    texts = []
    for path in tracked_files():
        try:
            texts.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return tuple(texts)


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_are_source_files_to_judge() -> None:
    assert len(source_files()) > 10


def test_no_source_file_is_longer_than_400_lines() -> None:
    lengths = {place(path): len(path.read_text("utf-8").splitlines()) for path in source_files()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    too_long = {}
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    too_long[f"{place(path)}:{node.lineno} {node.name}"] = lines
    assert too_long == {}


def test_every_module_says_in_its_docstring_which_section_it_follows() -> None:
    silent = []
    for path in source_files():
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        is_package = path.name == "__init__.py"
        if not docstring or not (is_package or CITATION.search(docstring)):
            silent.append(place(path))
    assert silent == []


def test_there_is_no_drawer_for_odds_and_ends() -> None:
    assert [place(path) for path in source_files() if path.name in DRAWERS] == []


@pytest.mark.parametrize(
    ("pattern", "meaning"),
    [(MACHINE_PATH, "path of one machine"), (UNFINISHED, "mark of unfinished work")],
    ids=["machine-paths", "unfinished-work"],
)
def test_no_file_contains(pattern: re.Pattern[str], meaning: str) -> None:
    found = [
        f"{place(path)}:{number} {meaning}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_the_dev_lock_pins_what_the_runtime_lock_pins() -> None:
    pin = re.compile(r"^\S+==\S+", re.MULTILINE)
    pins = {
        name: set(pin.findall((ROOT / "requirements" / name).read_text()))
        for name in ("runtime.lock", "dev.lock")
    }
    assert pins["runtime.lock"]
    assert pins["runtime.lock"] <= pins["dev.lock"]


def test_every_pinned_package_has_a_hash_and_no_lock_names_an_index() -> None:
    for name in ("runtime.lock", "dev.lock", "pip.lock"):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", "")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert lines, name
        assert all(re.match(r"\S+==.*--hash=sha256:", line) for line in lines), name
        assert "://" not in text, name
