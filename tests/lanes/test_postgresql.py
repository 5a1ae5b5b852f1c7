"""Every test that uses the database passes on PostgreSQL too [architecture: processes]."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgresql import find_binaries, running_server

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/console", "tests/hub/test_index.py", "tests/recorder")

pytestmark = pytest.mark.slow


@pytest.mark.skipif(find_binaries() is None, reason="no PostgreSQL server on this machine")
def test_the_tests_of_the_tables_pass_on_postgresql() -> None:
    with running_server() as url:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--only-database",
                "-m",
                "not browser and not spark and not slow",
                *(name for name in FOLDERS if (ROOT / name).exists()),
            ],
            cwd=ROOT,
            env={**os.environ, "VEEN_DATABASE_URL": url, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
