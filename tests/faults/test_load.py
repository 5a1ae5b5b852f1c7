"""C12: under a steady load nothing is refused and almost all answers come in time [assurance]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hub.bench.messages import label_of, messages
from hub.bench.sockets import open_loop
from hub.bench.wrk import CONNECTIONS, Load
from hub.server.config import HubConfig
from tests.support import live_hub
from tests.support.live_hub import LiveHub

P99_MS_MAX = 250
ROUNDS_MAX = 3  # the machine may be busy with others; the hub is to blame when it is late each time


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LiveHub]:
    config = HubConfig(data_dir=tmp_path / "d", open_admission=True, open_reads=True, workers=2)
    with live_hub.running(config) as hub:
        yield hub


def rounds(hub: LiveHub, per_s: int, seconds: int) -> Iterator[Load]:
    parts = urlsplit(hub.url)
    assert parts.hostname is not None
    assert parts.port is not None
    for number in count():
        bodies = list(
            messages(per_s * seconds, label=label_of(f"load {number}"), clients=2 * CONNECTIONS)
        )
        yield open_loop(parts.hostname, parts.port, bodies, per_s)


def test_a_steady_load_is_answered_in_time_and_without_refusals(
    hub: LiveHub, scaled: Callable[[int, int], int]
) -> None:
    per_s, seconds = 200, scaled(3, 600)
    late = []
    for number, load in zip(range(ROUNDS_MAX), rounds(hub, per_s, seconds), strict=False):
        assert load.refused == 0
        assert load.ok == per_s * seconds
        assert int(hub.control("status")["messages"]) == (number + 1) * per_s * seconds
        if load.p99_ms <= P99_MS_MAX:
            return
        late.append(load.p99_ms)
    pytest.fail(f"p99 of {late} ms, {P99_MS_MAX} are allowed")
