"""The notebooks of the documents, cell by cell, against a temporary bundle as their README says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from config.selftest.bundle import TemporaryBundle, clean_environment

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
NAMES = ("record-and-verify", "forensic-query", "replay-and-compare")
NBFORMAT: Any = nbformat  # published without types
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
CELL_S = 180


def run(notebook: Any, folder: Path) -> None:
    """Every cell, in a kernel that stands in a folder; a cell that raises ends it."""
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


def read(name: str) -> Any:
    return NBFORMAT.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def prepare(bundle: TemporaryBundle, folder: Path) -> None:
    """Type what the README tells a reader to type."""
    [block] = BLOCK.findall((NOTEBOOKS / "README.md").read_text())
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "veen"
        subprocess.run(
            [sys.executable, "-m", "config.cli", *words],
            cwd=folder,
            env=clean_environment(VEEN_DATA_DIR=str(bundle.state.root)),
            check=True,
        )


@pytest.fixture
def kernel_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel finds the project, and none of the settings of this process."""
    for name in [one for one in os.environ if one.startswith(("VEEN_", "DJANGO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(580)
@pytest.mark.usefixtures("kernel_environment")
def test_every_notebook_does_what_it_says() -> None:
    # A short path: sockets of broker and Spark lie below it.
    with tempfile.TemporaryDirectory(prefix="vn-") as place:
        folder = Path(place) / "desk"
        folder.mkdir()
        with TemporaryBundle(Path(place), VEEN_SPARK_MASTER="local[2]") as bundle:
            bundle.start()
            prepare(bundle, folder)
            for name in NAMES:
                run(read(name), folder)


@pytest.mark.usefixtures("kernel_environment")
def test_a_claim_that_does_not_hold_is_noticed(tmp_path: Path) -> None:
    notebook = NBFORMAT.v4.new_notebook(
        cells=[
            NBFORMAT.v4.new_code_cell("found = 1"),
            NBFORMAT.v4.new_code_cell("assert found == 2"),
        ]
    )
    with pytest.raises(CellExecutionError, match="AssertionError"):
        run(notebook, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_are_kept_without_output_and_claim_something(name: str) -> None:
    cells = read(name).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert max(len(cell.source.splitlines()) for cell in code) <= 30
    assert sum("assert" in cell.source for cell in code) >= 3
    assert len(cells) - len(code) >= len(code) // 2, "more prose"


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NAMES)
