"""A bundle and an operator's working directory, for runbooks that need more than a hub."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.runbooks.test_runbooks import WRAPPER
from tests.support.bundles import Up, environment
from tests.support.live_hub import ROOT


@dataclass
class Bundle:
    """Where the commands of a runbook run as they stand."""

    up: Up
    work: Path

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-c", WRAPPER + script],
            env={
                **environment(), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
                "WORK": str(self.work), "VEEN_DATA_DIR": str(self.up.state.root),
                "PATH": os.environ["PATH"],
            },
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout
