"""One hub for all acts of a session; each test has its own keys, rows and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.server.config import HubConfig
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub
from tests.support.office import Office, opened


@pytest.fixture(scope="session")
def acts_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """Writing needs a capability of ISSUER, reading a token."""
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("acts") / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def office(acts_hub: LiveHub, tmp_path: Path, db: None) -> Iterator[Office]:
    """An author on its first day, ready to record acts."""
    with opened(acts_hub, tmp_path) as made:
        made.found_changes()
        yield made
