"""`veen selftest core`: the story and the thirteen invariants on one temporary hub [SSOT 7, 12]."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hub.selftest import story as telling
from hub.selftest.checks import Check, Checks, require
from hub.selftest.invariants import check_invariants
from hub.selftest.story import Story


def run_core(say: Callable[[Check], None]) -> Checks:
    """Everything, in a directory that is gone afterwards."""
    checks = Checks("core", say)
    with tempfile.TemporaryDirectory(prefix="veen-selftest-") as folder, ExitStack() as closing:
        story = Story(checks, Path(folder), closing)
        checks.section("story", lambda: _tell(story))
    return checks


def _tell(story: Story) -> None:
    checks = story.checks
    hub, client = telling.begin(story)
    telling.send_and_read(story, client)
    check_invariants(checks, story.ground(client))
    checks.group = "story"
    telling.verify_offline(story, client)
    client = telling.crash(story, hub, client)
    checks.hold("fsck: clean while the hub runs", lambda: _fsck(story.data_dir))
    telling.rotate(story, client)
    client.close()
    checks.hold("down: the hub stops with exit code 0", lambda: require(hub.stop() == 0, "not 0"))
    checks.hold("fsck: clean after the rotation", lambda: _fsck(story.data_dir))


def _fsck(data_dir: Path) -> None:
    """Every stored byte derived again."""
    from hub.storage.fsck import run_fsck  # noqa: PLC0415 - pools and signatures: only when asked

    report = run_fsck(data_dir)
    require(report.ok, f"first finding: {report.findings[:1]}")
    require(report.entries > 0, "nothing was checked")
