"""Work that met a JVM which did not come up may be tried again [spark, How]."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.config.test_java import make_java

SCRIPT = """
import sys
from pathlib import Path
from config.settings_file import Settings
from config.spark_driver import SparkDriver
from hub.errors import VeenError

driver = SparkDriver(Settings(java_home=Path(sys.argv[1])), Path(sys.argv[2]))
for _ in range(2):
    try:
        with driver.working():
            print("works")
    except VeenError as refusal:
        print(refusal.code, refusal.detail[:21])
"""


def test_a_jvm_that_ends_while_it_starts_is_busy_each_time(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "17.0.15")
    (home / "bin" / "java").write_text("#!/bin/sh\nkill -9 $$\n")
    command = [sys.executable, "-c", SCRIPT, str(home), str(tmp_path / "scratch")]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.stdout.splitlines() == ["E.BUSY Spark does not start:"] * 2, done.stderr
