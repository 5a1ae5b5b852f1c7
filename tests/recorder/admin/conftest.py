"""An administrator, an author who executes, and a recorder with something in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings as DjangoSettings

from hub.server.config import HubConfig
from tests.support import live_hub
from tests.support.live_hub import ISSUER, ROUTING_KEY, LiveHub
from tests.support.office import Office, opened

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _fast_passwords(settings: DjangoSettings) -> None:
    """The cost of a real hash is a second for every login, and nothing here depends on it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga(transactional_db: None) -> User:
    """An administrator."""
    return User.objects.create_superuser("olga", password=PASSWORD)


@pytest.fixture(scope="session")
def admin_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    config = HubConfig(
        data_dir=tmp_path_factory.mktemp("admin") / "d",
        trusted_issuers=frozenset({ISSUER.public}),
        routing_key=ROUTING_KEY,
        workers=1,
        log_submits=False,
    )
    with live_hub.running(config) as hub:
        yield hub


@pytest.fixture
def office(
    admin_hub: LiveHub, tmp_path: Path, transactional_db: None, settings: DjangoSettings
) -> Iterator[Office]:
    settings.VEEN_AUTHOR_SOCKET = tmp_path / "author.sock"
    settings.VEEN_LAKE_DIR = tmp_path / "lake"
    settings.VEEN_STATUS_FILE = tmp_path / "status.json"
    with opened(admin_hub, tmp_path) as made:
        made.found_changes()
        yield made


@pytest.fixture
def author(office: Office, monkeypatch: pytest.MonkeyPatch) -> Office:
    """An office whose author is at work the moment it is woken, in the thread that wakes it."""
    monkeypatch.setattr("recorder.services._wake", office.run)
    return office
