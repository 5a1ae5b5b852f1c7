"""`veen backup` as an operator types it, from a running hub to a restored one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from config.cli import run
from tests.recorder.backup.conftest import PASSPHRASE, TRUST, Bundle
from tests.recorder.evidence.logs import LABEL


def veen(capfd: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    code = run(["backup", *map(str, args), "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_from_a_running_hub_to_a_restored_one(
    bundle: Bundle,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VEEN_DATA_DIR", str(bundle.root))
    (tmp_path / "pass").touch(mode=0o600)
    (tmp_path / "pass").write_bytes(PASSPHRASE + b"\n")
    sealed = ("--secrets-passphrase-file", tmp_path / "pass")
    with bundle.running() as hub:
        bundle.record(hub, 1, 5)
        code, made = veen(capfd, "create", "--out", tmp_path / "b", *sealed)
        assert code == 0
        assert (made["entries"], made["has_secrets"]) == (5, True)
        bundle.record(hub, 6, 8)
    code, told = veen(capfd, "verify", tmp_path / "b", "--deep")
    assert (code, told["valid"], told["fsck"]["ok"]) == (0, True, True)
    assert veen(capfd, "verify", tmp_path / "b", "--trust-pk", "ab" * 32)[0] == 7
    shutil.rmtree(bundle.root)
    code, told = veen(capfd, "verify", tmp_path / "b")
    assert (code, told["error"]["code"]) == (7, "V.TRUST")  # the bundle's own pin is gone
    pin = ("--trust-pk", TRUST.public.hex())
    code, done = veen(capfd, "restore", tmp_path / "b", "--to", bundle.root, *pin, *sealed)
    assert code == 0, done
    assert done["fork"] is True
    assert done["lost"] == [f"{LABEL.hex()} 6..8"]
    assert json.loads((bundle.root / "restore.json").read_bytes())["lost"] == done["lost"]
    with bundle.running() as again:
        assert again.hub_pk.hex() == done["hub_pk"]
    (tmp_path / "b" / "config" / "veen.toml").write_text("zone = 'offline'\n")
    assert veen(capfd, "verify", tmp_path / "b", *pin)[0] == 7


def test_a_backup_without_secrets_takes_them_from_elsewhere(
    bundle: Bundle,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VEEN_DATA_DIR", str(bundle.root))
    with bundle.running() as hub:
        bundle.record(hub, 1, 2)
    assert veen(capfd, "create", "--out", tmp_path / "b")[1]["has_secrets"] is False
    safe = tmp_path / "safe"
    shutil.copytree(bundle.root / "secrets", safe / "secrets")
    shutil.copytree(bundle.root / "hub" / "keys", safe / "hub" / "keys")
    to = ("--to", tmp_path / "new", "--trust-pk", TRUST.public.hex())
    code, done = veen(capfd, "restore", tmp_path / "b", *to, "--secrets-from", safe)
    assert (code, done["writable"], done["fork"]) == (0, True, True)
    code, refused = veen(capfd, "restore", tmp_path / "b", *to, "--secrets-from", safe)
    assert (code, refused["error"]["code"]) == (1, "C.CONFIG")
