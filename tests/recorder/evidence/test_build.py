"""Packs made from a real hub: every event of a log that rotated its key and was forked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.cli import run
from hub import keystore
from hub.client import HubClient
from hub.errors import ErrorCode, VeenError
from hub.selftest.offline import namespace_command
from hub.types import ManifestId
from recorder.evidence.build import build_pack
from recorder.evidence.page import render
from recorder.evidence.verify import verify_pack
from tests.recorder.evidence import logs
from tests.recorder.evidence.logs import LABEL, READER, STREAM
from tests.support.live_hub import ROOT, ROUTING_KEY, LiveHub, running

NAMESPACE = namespace_command()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """Twelve events: 1-5 under the first key, 6-9 under the second, 10-12 not checkpointed."""
    with logs.hub(tmp_path_factory.mktemp("rotated")) as live:
        with HubClient(live.url, live.hub_pk) as client:
            logs.record(client, 1, 5)
        live.control("checkpoint")
        live.control("rotate")
        with HubClient(live.url, live.hub_pk) as client:
            logs.record(client, 6, 9)
            live.control("checkpoint")
            logs.record(client, 10, 12)
        yield live


@pytest.fixture
def client(hub: LiveHub) -> Iterator[HubClient]:
    """Pinned to the first key; the second is followed through its record."""
    with HubClient(hub.url, hub.hub_pk) as found:
        yield found


def test_every_checkpointed_event_gives_a_valid_pack(client: HubClient, hub: LiveHub) -> None:
    for seq in range(1, 10):
        pack = build_pack(client, label=LABEL, stream=STREAM, seq=seq, secrets=[READER])
        for key in client.chain.keys:
            judgement = verify_pack(pack.encode(), key, routing_key=ROUTING_KEY)
            assert judgement.is_valid(), judgement.report.checks
            assert judgement.reading.event == logs.event(seq)
        assert pack.hub_id == hub.hub_id
        assert len(pack.rotations) == 1
    assert len(client.chain.keys) == 2


def test_without_secrets_the_content_stays_sealed(client: HubClient) -> None:
    pack = build_pack(client, label=LABEL, stream=STREAM, seq=3)
    assert pack.opening is None
    assert READER.secret not in pack.encode()


def test_an_opened_pack_gives_nothing_of_the_stream_key_away(client: HubClient) -> None:
    one = build_pack(client, label=LABEL, stream=STREAM, seq=3, secrets=[READER])
    two = build_pack(client, label=LABEL, stream=STREAM, seq=4)
    assert READER.secret not in one.encode()
    borrowed = verify_pack(replace(two, opening=one.opening).encode(), client.chain.pinned)
    assert borrowed.reading.content.value == "refused"


def test_what_no_manifest_covers_yet_is_said_so(client: HubClient) -> None:
    with pytest.raises(VeenError) as refusal:
        build_pack(client, label=LABEL, stream=STREAM, seq=11)
    assert refusal.value.code is ErrorCode.NOTFOUND
    assert "veen hub checkpoint" in refusal.value.detail
    for seq in (0, 13):
        with pytest.raises(VeenError):
            build_pack(client, label=LABEL, stream=STREAM, seq=seq)


def test_a_chosen_manifest_must_be_by_the_key_of_the_receipt(client: HubClient) -> None:
    newest = client.manifest()
    pack = build_pack(client, label=LABEL, stream=STREAM, seq=7, manifest_id=newest.id)
    assert pack.manifest == newest.encode()
    for seq, wanted in ((3, newest.id), (7, newest.previous), (7, ManifestId(bytes(32)))):
        with pytest.raises(VeenError):
            build_pack(client, label=LABEL, stream=STREAM, seq=seq, manifest_id=wanted)


def test_a_wrong_reader_key_makes_no_pack(client: HubClient) -> None:
    with pytest.raises(VeenError) as refusal:
        build_pack(client, label=LABEL, stream=STREAM, seq=3, secrets=[bytes([7]) * 32])
    assert refusal.value.code is ErrorCode.FORMAT


def test_events_from_before_a_fork_are_proven_under_the_parent(tmp_path: Path) -> None:
    with logs.hub(tmp_path) as parent:
        with HubClient(parent.url, parent.hub_pk) as client:
            logs.record(client, 1, 4)
        parent.control("checkpoint")
    with running(replace(logs.config(tmp_path), fork=True)) as fork:
        assert fork.hub_pk != parent.hub_pk
        with HubClient(fork.url, fork.hub_pk, parent_keys=[parent.hub_pk]) as client:
            logs.record(client, 5, 6)
            fork.control("checkpoint")
            old = build_pack(client, label=LABEL, stream=STREAM, seq=2)
            new = build_pack(client, label=LABEL, stream=STREAM, seq=6)
        with HubClient(fork.url, fork.hub_pk) as stranger, pytest.raises(VeenError):
            build_pack(stranger, label=LABEL, stream=STREAM, seq=2)
    assert verify_pack(old.encode(), parent.hub_pk).is_valid()
    assert verify_pack(new.encode(), fork.hub_pk).is_valid()
    assert verify_pack(old.encode(), fork.hub_pk).word() == "signer unknown"


# --- the commands ------------------------------------------------------------------------------


@pytest.fixture
def place(hub: LiveHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    keystore.write_key_file(state / "secrets" / "routing.key", ROUTING_KEY)
    held = {"ver": 1, "streams": {STREAM: [{"key_id": 1, "secret": READER.secret.hex()}]}}
    readers = state / "secrets" / "readers.keys"
    readers.touch(mode=0o600)
    readers.write_text(json.dumps(held))
    monkeypatch.setenv("VEEN_DATA_DIR", str(state))
    monkeypatch.setenv("VEEN_HUB_URL", hub.url)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def veen(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    capfd.readouterr()
    code = run(list(args))
    return code, capfd.readouterr().out


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("form", ["pack", "html"])
def test_the_command_writes_what_the_other_command_verifies(
    hub: LiveHub, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    flags = ["--html"] if form == "html" else []
    code, out = veen(
        capfd, "recorder", "evidence", "--stream", STREAM, "--seq", "3", "--open", "--out", "e",
        "--hub-pk", hub.hub_pk.hex(), "--json", *flags,
    )  # fmt: skip
    assert code == 0
    made = json.loads(out)
    assert made["content"] == "opened"
    assert "user:3" not in out  # what is disclosed is disclosed in the file only
    assert Path("e").stat().st_mode & 0o077 == 0
    code, out = veen(capfd, "verify", "e", "--hub-pk", hub.hub_pk.hex(), "--json")
    told = json.loads(out)
    assert (code, told["word"], told["event"]["subject_id"]) == (0, "valid", "user:3")
    assert told["event"]["receipt_id"] == made["receipt_id"]
    code, out = veen(capfd, "verify", "e", "--json")
    assert (code, json.loads(out)["word"]) == (7, "signer unknown")
    code, out = veen(capfd, "verify", "e", "--hub-pk", hub.hub_pk.hex())
    assert "VALID: evidence pack, content opened" in out
    assert "ok    position      proof reaches the manifest's checkpoint" in out


@pytest.mark.usefixtures("place")
def test_other_files_are_still_verified_by_the_same_command(
    hub: LiveHub, client: HubClient, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("one.receipt").write_bytes(client.receipt(LABEL, 8).encode())
    Path("all.rotation").write_bytes(b"".join(client.rotations()))
    pin = ("--hub-pk", hub.hub_pk.hex())
    assert veen(capfd, "verify", "one.receipt", "all.rotation", *pin)[0] == 0
    assert veen(capfd, "verify", str(hub.data_dir), *pin)[0] == 0
    Path("page.html").write_text(render(), encoding="utf-8")
    assert veen(capfd, "verify", "page.html", *pin)[0] == 3
    assert veen(capfd, "recorder", "verifier", "--out", "v.html")[0] == 0
    assert Path("v.html").read_text("utf-8") == render()


@pytest.mark.skipif(NAMESPACE is None, reason="no empty network namespace can be made here")
def test_a_pack_is_verified_without_any_network(
    hub: LiveHub, client: HubClient, place: Path
) -> None:
    """C18: in an empty network namespace, by the real command."""
    assert NAMESPACE is not None
    pack = build_pack(client, label=LABEL, stream=STREAM, seq=3, secrets=[READER])
    (place / "e").write_bytes(pack.encode())
    command = [*NAMESPACE, sys.executable, "-m", "config.cli", "verify", str(place / "e"), "--json"]
    command += ["--hub-pk", hub.hub_pk.hex()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["word"] == "valid"
    (place / "e").write_bytes(replace(pack, proof=pack.proof[:-1] + b"\x00").encode())
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 7


def test_the_verifier_imports_no_network_and_no_framework() -> None:
    code = (
        "import sys, recorder.evidence.verify, recorder.evidence.page\n"
        # Not _socket: typing_extensions takes the name of a type from it, and no more.
        "print(*({'socket', 'ssl', 'http.client', 'django'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
