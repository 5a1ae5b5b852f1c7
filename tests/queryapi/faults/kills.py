"""kill -9 of worker, JVM and broker at every state of a query: it completes, recorded once."""

from __future__ import annotations

import contextlib
from functools import partial

from config.selftest.bundle import until
from queryapi.client import Query
from queryapi.events import result_key
from queryapi.result_files import DIGEST, ROWS
from tests.support.query_scene import ANSWER_S, Scene, frozen

WRITTEN, KEPT, RECORDED, PENDING = "q-written", "q-kept", "q-recorded", "q-pending"


def killed_while_running(scene: Scene) -> list[Query]:
    """JVM and broker go while Spark works; the worker itself stays, and starts another JVM."""
    with frozen(scene.java()):
        asked = [scene.ask(), scene.count()]
        for one in asked:
            scene.reaches(one, "running")
            step = partial(_step, one)
            until(step, "status says what it is at", ANSWER_S)
        scene.kill_broker()
        for one in asked:
            assert one.status()["status"] == "running"
        scene.kill_java()
    for one in asked:
        scene.completes(one)
    return asked


def _step(query: Query) -> object:
    return query.status()["progress"]["step"]


def killed_while_held(scene: Scene) -> list[Query]:
    """Four queries, each held at one of the other states, and then all three processes go.

    The database refuses the worker's step to the next state, and the author gets no time: so every
    state lasts as long as it is needed.
    """
    scene.await_worker()
    with contextlib.ExitStack() as releases:
        unkept = f"NEW.query_id = '{WRITTEN}' AND NEW.digest <> ''"
        unended = f"NEW.query_id = '{RECORDED}' AND NEW.state = 'completed'"
        releases.enter_context(scene.refusing("hold_digest", "digest", unkept))
        releases.enter_context(scene.refusing("hold_end", "state", unended))
        recorded = scene.ask(query_id=RECORDED)
        key = result_key(recorded.result_id)
        until(lambda: scene.is_recorded(key), "a digest is recorded", ANSWER_S)
        with frozen(scene.java()):
            kept, written = scene.ask(query_id=KEPT), scene.ask(query_id=WRITTEN)
            scene.reaches(kept, "running")
            scene.reaches(written, "running")
            releases.enter_context(frozen(scene.pid("author")))
            pending = scene.ask(query_id=PENDING)
        rows = scene.folder(written) / ROWS
        until((scene.folder(written) / DIGEST).exists, "rows are written", ANSWER_S)
        until(lambda: scene.row(kept)["digest"], "a digest is kept", ANSWER_S)
        inode = rows.stat().st_ino
        for kill in (scene.kill_broker, scene.kill_java, scene.kill_worker):
            kill()
            assert scene.row(pending)["state"] == "pending"
            assert scene.row(written) | {"attempts": 1} == {
                "state": "running", "digest": "", "attempts": 1,
            }  # fmt: skip
            assert scene.row(kept)["state"] == scene.row(recorded)["state"] == "running"
            assert not scene.is_recorded(result_key(kept.result_id))
    held = [pending, written, kept, recorded]
    for one in held:
        scene.completes(one)
    assert rows.stat().st_ino == inode, "what was on disk was computed again"
    assert scene.row(kept)["attempts"] >= 2
    return held
