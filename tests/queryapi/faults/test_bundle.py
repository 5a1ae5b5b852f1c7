"""A whole bundle in trouble: nothing is lost, nothing is recorded twice, other queries go on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.queryapi.faults.forgeries import forged, weakened
from tests.queryapi.faults.kills import killed_while_held, killed_while_running
from tests.queryapi.faults.offline import verified_offline
from tests.queryapi.faults.storms import answered_at_once, fifty_at_once, flipped_bit, full_disk
from tests.support.query_scene import Scene

TROUBLES = (
    answered_at_once, weakened, fifty_at_once, forged, flipped_bit, full_disk, killed_while_running,
    killed_while_held, verified_offline,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(580)
def test_whatever_dies_fills_up_or_is_damaged_every_query_ends_once() -> None:
    """One bundle for all, because a start costs more than most of the troubles."""
    # A short path: sockets of broker and Spark lie below it.
    with tempfile.TemporaryDirectory(prefix="vk-") as folder:
        scene = Scene(Path(folder))
        with scene.bundle:
            scene.start()
            answered = [query for trouble in TROUBLES for query in trouble(scene)]
            scene.recorded_once(*answered)
