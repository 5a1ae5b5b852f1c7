"""A real hub in its own process, and the `veen` command run inside the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.cli import run
from hub import keystore
from hub.crypto.signing import SigningKey
from tests.hub.client.real_hub import RealHub, running_hub

ISSUER = SigningKey(b"\x01" * 32)


@pytest.fixture(scope="session")
def real_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    """One hub with a routing key and a trusted issuer for all tests of commands."""
    root = tmp_path_factory.mktemp("hub")
    keystore.write_key_file(root / "routing.key", b"\x05" * 32)
    with running_hub(
        root,
        "--trusted-issuer",
        ISSUER.public.hex(),
        "--routing-key-file",
        str(root / "routing.key"),
    ) as hub:
        yield hub


@pytest.fixture
def state(real_hub: RealHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client's state directory; the environment names hub, key and secrets."""
    secrets = tmp_path / "state" / "secrets"
    keystore.write_key_file(secrets / "routing.key", b"\x05" * 32)
    keystore.write_key_file(tmp_path / "issuer.key", ISSUER.seed)
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("VEEN_HUB_URL", real_hub.url)
    monkeypatch.setenv("VEEN_HUB_PK", real_hub.hub_pk.hex())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


Veen = Callable[..., tuple[int, str, str]]


@pytest.fixture
def veen(capfd: pytest.CaptureFixture[str]) -> Veen:
    """Run a command line; exit code, stdout and stderr."""

    def call(*args: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([str(one) for one in args])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def told(veen: Veen) -> Callable[..., dict[str, Any]]:
    """Run a command with --json that must succeed; its one document."""

    def call(*args: str | Path) -> dict[str, Any]:
        code, out, err = veen(*args, "--json")
        assert code == 0, err
        document: dict[str, Any] = json.loads(out)
        return document

    return call
