"""Hubs that the tests of one module share: one open to all, one that asks for capabilities."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hub.server.config import HubConfig
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, HttpClient, LiveHub


@pytest.fixture(scope="module")
def open_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """Anyone may write and read."""
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("open") / "d",
        open_admission=True,
        open_reads=True,
        workers=1,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture(scope="module")
def closed_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """Writing needs a capability of ISSUER, reading a token."""
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("closed") / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=2,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def anyone(open_hub: LiveHub) -> HttpClient:
    """A connection to the open hub."""
    return open_hub.client()


@pytest.fixture
def producer(closed_hub: LiveHub) -> HttpClient:
    """A connection to the closed hub."""
    return closed_hub.client()
