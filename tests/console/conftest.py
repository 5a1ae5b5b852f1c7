"""People and rows for the console's pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as DjangoSettings

from hub.models import IndexState, LabelHead, ManifestRow

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _fast_passwords(settings: DjangoSettings) -> None:
    """The cost of a real hash is a second for every login, and nothing here depends on it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def olga(db: None) -> User:
    """An administrator."""
    return User.objects.create_superuser("olga", password=PASSWORD)


@pytest.fixture
def visitor(db: None) -> Client:
    return Client()


@pytest.fixture
def operator(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


@pytest.fixture
def log_of_three(db: None) -> list[ManifestRow]:
    """Three checkpoints and two labels, one of them ahead of its checkpoint."""
    now = timezone.now()
    rows = [
        ManifestRow.objects.create(
            manifest_id=f"{number:064x}",
            previous=f"{number - 1:064x}",
            hub_pk="ab" * 32,
            created_at=now - timedelta(minutes=10 - 3 * number),
            labels=2,
            messages=100 * number,
            verified=True,
        )
        for number in (1, 2, 3)
    ]
    for number, ahead in ((1, 0), (2, 7)):
        LabelHead.objects.create(
            label=f"{number:02x}" * 32,
            stream_name=None,
            upto_seq=150 + ahead,
            root="cd" * 32,
            hub_ts=1_700_000_000,
            checkpoint_seq=150,
            checkpoint_manifest=rows[-1].manifest_id,
            updated=now,
            checked=now,
        )
    IndexState.objects.create(
        checked_at=now, reached_at=now, hub_pk="ab" * 32, hub_id="ef" * 32, problem=""
    )
    return rows
