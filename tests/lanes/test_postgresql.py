"""Every test that uses the database passes on PostgreSQL too [architecture: processes]."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgresql import find_binaries, running_server

ROOT = Path(__file__).resolve().parents[2]
RECORDER = sorted(
    str(one.relative_to(ROOT))
    for one in (ROOT / "tests" / "recorder").iterdir()
    if one.is_dir() or one.name.startswith("test_")
)
# Three runs that may go side by side, each long enough to be worth its server.
SHARES = {
    "console, index and queryapi": ("tests/console", "tests/hub/test_index.py", "tests/queryapi"),
    "recorder, first half": RECORDER[::2],
    "recorder, second half": RECORDER[1::2],
}
TIMEOUT_S = 1200

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S + 60)]


@pytest.mark.skipif(find_binaries() is None, reason="no PostgreSQL server on this machine")
@pytest.mark.parametrize("share", SHARES)
def test_the_tests_of_the_tables_pass_on_postgresql(share: str) -> None:
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
                *SHARES[share],
            ],
            cwd=ROOT,
            env={**os.environ, "VEEN_DATABASE_URL": url, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
