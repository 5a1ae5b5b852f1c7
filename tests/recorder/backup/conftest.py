"""A state directory with a running hub, a database and secrets, as `veen up` leaves it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hub import keystore
from hub.client import HubClient
from hub.crypto.signing import SigningKey
from hub.server.config import HubConfig
from tests.recorder.evidence import logs
from tests.support.live_hub import ROOT, ROUTING_KEY, LiveHub, running

TRUST: Final = SigningKey(b"the realm's trust key, for tests")
PASSPHRASE: Final = b"only for these tests"


@dataclass
class Bundle:
    """A state directory; its hub runs inside `running`."""

    root: Path

    @property
    def config(self) -> HubConfig:
        heads = self.root.with_name(self.root.name + ".heads")
        return logs.config(self.root, heads_file=heads)

    @contextmanager
    def running(self, **options: object) -> Iterator[LiveHub]:
        with running(logs.config(self.root, heads_file=self.config.heads_file, **options)) as live:
            yield live

    def record(self, hub: LiveHub, first: int, last: int) -> None:
        with HubClient(hub.url, hub.hub_pk) as client:
            logs.record(client, first, last)


def make_database(root: Path, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={**os.environ, "VEEN_DATA_DIR": str(root), **environment},
        check=True,
    )


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database with its tables; making them is slow."""
    root = tmp_path_factory.mktemp("template")
    (root / "web").mkdir()
    make_database(root)
    return root / "web" / "db.sqlite3"


@pytest.fixture
def bundle(tmp_path: Path, template: Path) -> Bundle:
    return make_bundle(tmp_path, template)


def make_bundle(home: Path, template: Path) -> Bundle:
    root = home / "state"
    (root / "web").mkdir(parents=True)
    (root / "web" / "db.sqlite3").write_bytes(template.read_bytes())
    keystore.write_key_file(root / "secrets" / "trust.key", TRUST.seed)
    keystore.write_key_file(root / "secrets" / "routing.key", ROUTING_KEY)
    (root / "veen.toml").write_text('zone = "online"\n')
    (root / "trust.pk").write_text(TRUST.public.hex() + "\n")
    return Bundle(root)
