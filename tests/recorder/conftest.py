"""A hub that asks for capabilities, and producers of it with streams of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.server.config import HubConfig
from tests.support import live_hub
from tests.support.connections import Cast
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub

_numbers = itertools.count()

MakeCast = Callable[..., Cast]


def closed_config(data_dir: Path, **more: Any) -> HubConfig:
    """Writing needs a capability of ISSUER; reading is open, so that tests can look."""
    return HubConfig(
        data_dir=data_dir,
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        open_reads=True,
        workers=1,
        **more,
    )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub.running(closed_config(tmp_path_factory.mktemp("hub") / "d")) as running:
        yield running


@pytest.fixture(scope="session")
def make_cast() -> MakeCast:
    """Producers of a hub, each with two streams that nobody else writes."""

    def make(hub: LiveHub, **more: Any) -> Cast:
        number = next(_numbers)
        types = {
            f"record/app/web-{number}": ("http.error", "http.request"),
            f"record/security/iam-{number}": ("login.failed", "login.ok"),
        }
        given = {"hub_pk": hub.hub_pk, "hub_url": hub.url, "types": types, **more}
        return Cast(**given)

    return make
