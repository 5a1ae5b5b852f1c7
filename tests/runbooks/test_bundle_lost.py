"""Runbooks for a bundle whose database is gone, and for one whose queries fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.up_state import StateDir
from tests.runbooks.bundle import Bundle
from tests.runbooks.test_runbooks import blocks
from tests.support.bundles import Up, free_port


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_after_a_lost_database_the_runbook_shows_what_came_back(tmp_path: Path) -> None:
    state, work = StateDir.at(tmp_path / "s"), tmp_path / "work"
    work.mkdir()
    up = Up(state, "--port", str(free_port()))
    try:
        before = Bundle(up.ready(), work)
        before.run("veen stream create record/app/orders --event-type order.placed\n")
        before.run("veen recorder producer add till --stream record/app/orders --gateway\n")
    finally:
        up.end()
    (state.root / "web" / "db.sqlite3").rename(tmp_path / "lost.sqlite3")
    up = Up(state, "--port", str(free_port()))
    try:
        after = Bundle(up.ready(), work)
        told = "\n".join(after.run(block) for block in blocks("database-lost"))
        assert "record/app/orders" in told
        assert "till" in told
        assert "database_rebuilt" in told
        shown = [after.run(block) for block in blocks("query-failed")]
        assert len(shown) == 2
        assert "gateway" in shown[1]
    finally:
        up.end()
