"""A hub for all tests of a module, and for each test its own streams, tokens and lake."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings as DjangoSettings

from tests.support import web_bundle
from tests.support.live_hub import LiveHub
from tests.support.web_bundle import LaunchedIngest, LiveLog, WebBundle


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with web_bundle.running(tmp_path_factory.mktemp("bundle")) as hub:
        yield hub


@pytest.fixture(scope="module")
def read_token(shared_hub: LiveHub) -> str:
    return str(shared_hub.control("token_add", name="web", all=True)["token"])


@pytest.fixture
def bundle(
    shared_hub: LiveHub, read_token: str, tmp_path: Path, settings: DjangoSettings, db: None
) -> WebBundle:
    made = WebBundle(root=tmp_path, hub=shared_hub, log=LiveLog(shared_hub, read_token))
    made.point(settings)
    LaunchedIngest.bundle = made
    LaunchedIngest.asked = []
    settings.VEEN_LAKE_LAUNCHER = "tests.support.web_bundle.LaunchedIngest"
    return made


@pytest.fixture
def name() -> str:
    """A stream that no other test of the module has written to."""
    return f"record/app/{secrets.token_hex(4)}"


@pytest.fixture
def web() -> Client:
    """A caller without cookies."""
    return Client(enforce_csrf_checks=True)
