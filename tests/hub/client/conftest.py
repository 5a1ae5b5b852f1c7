"""A scripted hub and the drafts of one author."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.client import HubClient
from tests.hub.client.scripted_hub import ScriptedHub


@pytest.fixture
def hub() -> Iterator[ScriptedHub]:
    with ScriptedHub() as scripted:
        yield scripted


@pytest.fixture
def client(hub: ScriptedHub, tmp_path: Path) -> Iterator[HubClient]:
    with HubClient(hub.url, hub.key.public, state_dir=tmp_path / "state", timeout_s=5) as made:
        yield made
