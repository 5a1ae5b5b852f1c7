"""The story that README.md tells, pasted line by line by somebody with an empty home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import live_hub

ROOT = Path(__file__).resolve().parents[2]
STORY = "## A first story in five minutes"


def blocks() -> list[str]:
    """The shell blocks of the story, in order."""
    text = (ROOT / "README.md").read_text("utf-8")
    story = text.partition(STORY)[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", story, re.MULTILINE | re.DOTALL)


def can_cut_the_network() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory whose ./veen is ours, and a home with nothing in it."""
    (tmp_path / "clone").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "clone" / "veen").symlink_to(ROOT / "veen")
    return tmp_path / "home"


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "BROWSER": "true"}


@pytest.fixture
def up(home: Path) -> Iterator[Path]:
    """What the first terminal shows, while it runs."""
    shown = home.parent / "up.txt"
    with shown.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-euc", f"exec {blocks()[0]}"],
            cwd=home.parent / "clone",
            env=environment(home),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        live_hub.until(
            lambda: "VEEN is up." in shown.read_text("utf-8") or process.poll() is not None,
            timeout_s=120,
        )
        yield shown
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def paste(block: str, home: Path) -> str:
    """What a terminal says to these lines; the first that fails ends them."""
    done = subprocess.run(
        ["sh", "-euc", block],
        cwd=home.parent / "clone",
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not can_cut_the_network(), reason="unshare -rn is not allowed here")
def test_the_story_of_the_readme_works_as_it_is_written(up: Path, home: Path) -> None:
    _, first, second, third = blocks()
    assert "Fingerprint" in up.read_text("utf-8")
    said = paste(first, home)
    assert said.count("stream_seq  1\n") == said.count("stream_seq  2\n") == 1
    assert "the valve was closed" in said
    assert "completeness  holds" in said
    assert "VALID: stream" in said
    said = paste(second, home)
    assert "CONSISTENT: " in said
    assert said.count("leaf is included under the last manifest of the superseded key") == 2
    assert "FAIL" not in said
    assert "VALID: 2 messages" in said
    said = paste(third, home)
    assert re.search(r"^row_count +2$", said, re.MULTILINE)
    assert said.rstrip().endswith("valid")
    assert "ended with code -9" in up.read_text("utf-8")
