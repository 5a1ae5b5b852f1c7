"""An answer taken away and verified where there is no network, after the hub's key was rotated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.selftest.bundle import clean_environment
from config.selftest.query_ground import STREAMS
from hub.selftest import offline
from queryapi.client import Query
from tests.support.query_scene import Scene

REQUESTS = "record/query/requests"
ROUTES = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=1)"


def veen(
    scene: Scene, *words: str, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*before, sys.executable, "-m", "config.cli", *words],
        env=clean_environment(VEEN_DATA_DIR=str(scene.bundle.state.root)),
        cwd=scene.ground.folder,
        capture_output=True,
        check=False,
    )


def printed(scene: Scene, *words: str) -> Any:
    done = veen(scene, *words, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def verified_offline(scene: Scene) -> list[Query]:
    """The commands of an investigator; every receipt but the newest is of the superseded key."""
    new_pk = printed(scene, "hub", "key", "rotate")["new_pk"]
    asked = ("--scope", STREAMS[0], "--scope", REQUESTS, "--evidence", "full", "--save", "answer")
    printed(scene, "query", "submit", "--scope", REQUESTS, "--metric", "count")
    digest = printed(scene, "query", "submit", *asked)
    events = scene.ground.folder / "taken.ndjson"
    replayed = veen(scene, "recorder", "replay", STREAMS[0], REQUESTS, "--with-proofs", "--json")
    assert replayed.returncode == 0, replayed.stderr.decode()
    events.write_bytes(replayed.stdout)
    command = ("query", "verify", "answer", "--events", events.name, "--hub-pk", new_pk, "--json")
    cut = tuple(offline.namespace_command() or ())
    if cut:
        reached = subprocess.run(
            [*cut, sys.executable, "-c", ROUTES], capture_output=True, check=False
        )
        assert reached.returncode != 0, "there is a network"
    done = veen(scene, *command, before=cut)
    report = json.loads(done.stdout)
    assert (done.returncode, report["valid"]) == (0, True), report
    assert len(report["checks"]) == 9
    _spoiled(scene, command, cut)
    return [Query(client=scene.client, query_id=digest["query_id"], result_id=digest["result_id"])]


def _spoiled(scene: Scene, command: tuple[str, ...], cut: tuple[str, ...]) -> None:
    """One digit of one row, and the same command says no."""
    rows: Path = scene.ground.folder / "answer" / "rows.json"
    text = rows.read_text()
    rows.write_text(text.replace('"hub_commit_seq":7', '"hub_commit_seq":8', 1))
    done = veen(scene, *command, before=cut)
    assert done.returncode == 7, done.stderr.decode()
    names = [one["name"] for one in json.loads(done.stdout)["checks"] if not one["ok"]]
    assert "rows_hash covers the rows" in names
    rows.write_text(text)
