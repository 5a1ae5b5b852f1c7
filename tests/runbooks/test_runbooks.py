"""Every runbook, its commands run as they stand in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hub import keystore
from hub.client import HubClient
from hub.crypto.signing import SigningKey
from hub.label import stream_id
from hub.types import UnixSeconds
from hub.wire.readerkey import ReaderKeyRecord
from recorder.evidence.verify import verify_pack
from tests.recorder.evidence import logs
from tests.recorder.evidence.logs import LABEL, READER, STREAM
from tests.support.live_hub import ROOT, ROUTING_KEY, LiveHub, running

FOLDER = ROOT / "docs" / "runbooks"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TRUST = SigningKey(b"the realm's trust key, for tests")
ADMIN = SigningKey(b"a recorder admin for these tests")
NAMES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
ON_A_BUNDLE = {"database-lost", "query-failed", "recorder-keys"}  # run by tests of their own
WRAPPER = 'veen() { "$PYTHON" -m config.cli "$@"; }\nset -eu\ncd "$WORK"\n'


@dataclass
class Desk:
    """An operator's desk: a state directory whose hub runs, a pin, a place to work in."""

    hub: LiveHub
    root: Path
    work: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, script: str) -> str:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("VEEN_")},
            "PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "WORK": str(self.work),
            "VEEN_DATA_DIR": str(self.root),
            **self.variables,
        }
        done = subprocess.run(
            ["bash", "-c", WRAPPER + script],
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    root, work = tmp_path / "state", tmp_path / "work"
    work.mkdir()
    keystore.write_key_file(root / "secrets" / "routing.key", ROUTING_KEY)
    keystore.write_key_file(root / "secrets" / "trust.key", TRUST.seed)
    keystore.write_key_file(work / "admin.key", ADMIN.seed)
    keystore.write_key_file(root / "client" / "readers" / _reader_file(), READER.secret)
    (root / "trust.pk").write_text(TRUST.public.hex() + "\n")
    (work / "passphrase").touch(mode=0o600)
    (work / "passphrase").write_text("only for these tests\n")
    _register(root)
    heads = tmp_path / "state.heads"
    with running(logs.config(root, heads_file=heads)) as hub:
        with HubClient(hub.url, hub.hub_pk) as client:
            logs.record(client, 1, 5)
        desk = Desk(hub, root, work)
        desk.variables = {
            "HUB_PK": hub.hub_pk.hex(),
            "TRUST_PK": TRUST.public.hex(),
            "STREAM": STREAM,
            "SEQ": "5",
            "UPTO_SEQ": "5",
            "NEW_STATE": str(tmp_path / "new"),
        }
        made = hub.control("checkpoint")
        desk.variables["MANIFEST_ID"] = str(made["manifest_id"])
        desk.run("veen hub anchor publish --file stick/veen.anchor --out kept.anchor")
        yield desk


def _reader_file() -> str:
    return f"{stream_id(STREAM).hex()[:32]}-1.key"


def _register(root: Path) -> None:
    """What `veen stream create` notes of a stream."""
    record = ReaderKeyRecord.sign(
        ADMIN, stream_id=stream_id(STREAM), key_id=1, reader_pk=READER.public, ts=UnixSeconds(1)
    )
    row = {
        "name": STREAM,
        "stream_id": stream_id(STREAM).hex(),
        "label": LABEL.hex(),
        "class": "log",
        "admin_pk": ADMIN.public.hex(),
        "reader_keys": [record.encode().hex()],
    }
    (root / "client" / "streams.json").write_text(json.dumps({"ver": 1, "streams": [row]}))


def blocks(name: str) -> list[str]:
    return BLOCK.findall((FOLDER / f"{name}.md").read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in NAMES if one not in ON_A_BUNDLE])
def test_the_commands_of_a_runbook_run_as_they_stand(name: str, desk: Desk) -> None:
    told = "\n".join(desk.run(block) for block in blocks(name))
    PROOFS.get(name, lambda _desk, _told: None)(desk, told)


def _checkpoint_now(desk: Desk, told: str) -> None:
    assert "upto_seq" in told or "label" in told
    assert "VALID" in told
    assert (desk.work / "now.manifest").exists()


def _validate(desk: Desk, told: str) -> None:
    assert "CONSISTENT" in told
    assert "VALID: evidence pack" in told
    data = (desk.work / "last.evidence").read_bytes()
    assert verify_pack(data, desk.hub.hub_pk).is_valid()


def _window(_desk: Desk, told: str) -> None:
    assert re.search(r"completeness +holds", told)
    assert re.search(r"position +holds", told)
    assert "VALID: stream" in told


def _keys(desk: Desk, told: str) -> None:
    assert told.count("secret held here") >= 3  # one, and both after the rotation
    old = (desk.work / "old.evidence").read_bytes()
    current = desk.hub.control("status")["hub_pk"]
    assert current != desk.hub.hub_pk.hex()
    for key in (desk.hub.hub_pk, bytes.fromhex(current)):
        assert verify_pack(old, key).is_valid()  # type: ignore[arg-type]


def _restore(desk: Desk, told: str) -> None:
    assert "VALID: backup, restored aside and re-derived" in told
    report = json.loads((Path(desk.variables["NEW_STATE"]) / "restore.json").read_bytes())
    assert report["fork"] is True
    assert report["fsck"]["ok"] is True


def _disk_full(_desk: Desk, told: str) -> None:
    assert "first_held" in told
    assert "CONSISTENT" in told


def _corruption(desk: Desk, told: str) -> None:
    assert told.count("CONSISTENT") == 2
    index = min((desk.work / "damaged-copy" / "labels").glob("*/index"))
    index.write_bytes(bytes(len(index.read_bytes())))
    copy, fsck, rebuild = blocks("corruption")
    del copy
    with pytest.raises(AssertionError, match=r"DAMAGE|index"):
        desk.run(fsck)
    assert "CONSISTENT" in desk.run(rebuild)


PROOFS = {
    "corruption": _corruption,
    "checkpoint-now": _checkpoint_now,
    "validate-checkpoint": _validate,
    "safe-replay-window": _window,
    "rotate-keys": _keys,
    "hub-key-rotation": lambda _desk, told: _is_consistent(told),
    "restore-from-backup": _restore,
    "disk-full": _disk_full,
}


def _is_consistent(told: str) -> None:
    assert "CONSISTENT" in told


def test_every_runbook_is_listed_and_has_something_to_run_or_to_read() -> None:
    listed = set(re.findall(r"\(([a-z-]+)\.md\)", (FOLDER / "README.md").read_text("utf-8")))
    assert listed == set(NAMES)
    assert set(PROOFS) | ON_A_BUNDLE <= set(NAMES)
    assert [name for name in NAMES if not blocks(name)] == []


def test_the_links_of_runbooks_and_manual_lead_somewhere() -> None:
    for path in (*FOLDER.glob("*.md"), *(ROOT / "docs" / "manual").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"
