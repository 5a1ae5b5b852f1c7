"""The story of the README against a real hub: every command a first user types."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.crypto.signing import SigningKey
from hub.types import ManifestId, PublicKey
from hub.wire.msg import Msg
from hub.wire.receipt import Receipt
from hub.wire.rotation import hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from tests.hub.cli.conftest import Veen
from tests.hub.client.real_hub import RealHub, running_hub

Told = Callable[..., dict[str, Any]]
TRUST_KEY = SigningKey(b"\x09" * 32)


def make_stream(told: Told, name: str) -> None:
    """A key, a stream and an authorized capability of this test alone."""
    told("keygen", "--name", "alice")
    told("keygen", "--out", "admin.key", "--plain")
    told("stream", "create", name, "--admin-key", "admin.key")
    told(
        "cap", "issue", "--issuer", "issuer.key", "--subject", "alice", "--stream", name,
        "--rate", "1000,1000", "--out", "alice.cap",
    )  # fmt: skip
    told("cap", "authorize", "alice.cap")


@pytest.fixture
def stream(
    state: Path, told: Told, real_hub: RealHub, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> str:  # fmt: skip
    (state / "secrets" / "passphrase").write_text("correct horse\n")
    (state / "secrets" / "passphrase").chmod(0o600)
    name = f"test/{request.node.name.replace('[', '-').rstrip(']').replace('_', '-')[:60]}"
    make_stream(told, name)
    token = state.parent / "read.token"
    told(
        "hub", "token", "add", "--name", name.replace("/", "-"), "--stream", name,
        "--data-dir", real_hub.data_dir, "--out", token,
    )  # fmt: skip
    monkeypatch.setenv("VEEN_TOKEN_FILE", str(token))
    return name


def test_send_stream_and_verify(stream: str, told: Told, veen: Veen, tmp_path: Path) -> None:
    sent = told("send", "--client", "alice", "--stream", stream, "--body", "hello", "--out", "ev")
    assert sent["stream_seq"] == 1
    assert Receipt.decode(base64.b64decode(sent["receipt"])).stream_seq == 1
    assert Msg.decode(base64.b64decode(sent["msg"])).client_seq == 1
    told("send", "--client", "alice", "--stream", stream, "--body", "again")

    code, out, _ = veen("stream", "--stream", stream, "--with-proof", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["text"] for row in rows] == ["hello", "again"]
    assert all(row["verified"] and row["proof"] for row in rows)

    told("proof", "--stream", stream, "--seq", "1", "--out", "ev/one.proof")
    report = told("verify", "ev")
    assert report["valid"]
    assert report["verdicts"]["position"] == "holds"

    veen("stream", "--stream", stream, "--save", "all.stream")
    report = told("verify", "all.stream")
    assert report["verdicts"]["completeness"] == "holds"
    assert (tmp_path / "state" / "client" / "keys" / "alice.key").stat().st_mode & 0o777 == 0o600


def test_verify_works_where_no_socket_can_be_made(
    stream: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "x", "--out", "ev")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("verify touched the network")

    monkeypatch.setattr(socket, "socket", refuse)
    assert told("verify", "ev")["valid"]


def test_damaged_evidence_ends_with_seven(stream: str, told: Told, veen: Veen) -> None:
    sent = told("send", "--client", "alice", "--stream", stream, "--body", "x", "--out", "ev")
    path = Path(sent["files"]["receipt"])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, out, _ = veen("verify", "ev", "--json")
    assert code == 7
    assert json.loads(out)["verdicts"]["integrity"] == "fails"


def test_a_refused_message_is_taken_back(stream: str, told: Told, veen: Veen) -> None:
    told("keygen", "--name", "mallory")
    code, _, err = veen("send", "--client", "mallory", "--stream", stream, "--body", "x")
    assert code == 4
    assert "E.AUTH" in err
    code, _, err = veen("send", "--client", "mallory", "--stream", stream, "--body", "x")
    assert "earlier messages" not in err


def test_a_message_without_answer_is_kept_and_sent_later(
    stream: str, told: Told, veen: Veen
) -> None:
    """The address is a closed port first, and the real hub afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    told("send", "--client", "alice", "--stream", stream, "--body", "1")
    code, _, err = veen(
        "send", "--client", "alice", "--stream", stream, "--body", "2", "--retries", "0",
        "--hub-url", f"http://127.0.0.1:{port}",
    )  # fmt: skip
    assert code == 2
    code, _, err = veen("send", "--client", "alice", "--stream", stream, "--body", "3")
    assert code == 0, err
    _, out, _ = veen("stream", "--stream", stream, "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["1", "2", "3"]


def test_renewal_revocation_and_explanation(
    stream: str, told: Told, veen: Veen, real_hub: RealHub
) -> None:
    shown = told("cap", "show", "alice.cap")
    renewed = told("cap", "renew", "alice.cap", "--issuer", "issuer.key")
    assert renewed["links"] == shown["links"] + 1
    told("cap", "authorize", "alice.cap")
    told("send", "--client", "alice", "--stream", stream, "--body", "renewed")
    told("cap", "revoke", "alice.cap", "--reason", "test", "--data-dir", real_hub.data_dir)
    code, out, _ = veen("send", "--client", "alice", "--stream", stream, "--body", "x", "--json")
    assert code == 4
    assert json.loads(out)["error"]["code"] == "E.CAP"
    assert "longer chain" in told("explain", "E.CAP")["meaning"]


def test_a_wrong_pin_is_never_talked_around(stream: str, veen: Veen) -> None:
    code, _, err = veen(
        "send", "--client", "alice", "--stream", stream, "--body", "x", "--hub-pk", "ab" * 32
    )
    assert code == 7
    assert "V.TRUST" in err


def test_reads_without_a_token_are_refused(
    stream: str, told: Told, veen: Veen, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "x")
    monkeypatch.delenv("VEEN_TOKEN_FILE")
    code, _, err = veen("stream", "--stream", stream)
    assert code == 4
    assert "E.AUTH" in err


def test_attachments_travel_sealed(stream: str, told: Told, veen: Veen, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x00\x01" * 500)
    told("send", "--client", "alice", "--stream", stream, "--file", "a.bin", "--attach", "a.bin")
    _, out, _ = veen("stream", "--stream", stream, "--json")
    row = json.loads(out)
    assert len(row["att_root"]) == 64
    assert base64.b64decode(row["body"]) == b"\x00\x01" * 500


def test_control_characters_reach_no_terminal(stream: str, told: Told, veen: Veen) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "\x1b]0;owned\x07\x1b[31m")
    _, out, _ = veen("stream", "--stream", stream)
    assert "\x1b" not in out
    assert "\\x1b" in out


def test_a_rotated_reader_key_still_opens_the_past(stream: str, told: Told, veen: Veen) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "old key")
    keys = told("stream", "keys", stream, "--rotate", "--admin-key", "admin.key")["keys"]
    assert [key["key_id"] for key in keys] == [2, 1]
    told("send", "--client", "alice", "--stream", stream, "--body", "new key")
    _, out, _ = veen("stream", "--stream", stream, "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["old key", "new key"]


def test_label_classes_are_recorded_and_shown(stream: str, told: Told, real_hub: RealHub) -> None:
    where = ("--stream", stream, "--data-dir", real_hub.data_dir)
    told("label-class", "set", *where, "--class", "log", "--retention", "long_term")
    assert told("label-class", "show", *where)["retention_hint"] == 315_360_000
    listed = told("label-class", "list", "--data-dir", real_hub.data_dir)["classes"]
    assert "log" in {row["class"] for row in listed}


def test_inspect_names_every_object_at_hand(stream: str, told: Told) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "x", "--out", "ev")
    told("proof", "--stream", stream, "--seq", "1", "--out", "ev/one.proof")
    kinds = {path.suffix: told("inspect", path)["kind"] for path in Path("ev").iterdir()}
    assert kinds == {
        ".msg": "MSG",
        ".receipt": "RECEIPT",
        ".proof": "mmr_proof",
        ".root": "RECEIPT",
    }
    assert told("inspect", "alice.cap")["kind"] == "cap_token"


def test_hub_acts_answer_over_the_control_socket(
    stream: str, told: Told, real_hub: RealHub
) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "x", "--out", "ev")
    status = told("hub", "status", "--data-dir", real_hub.data_dir)
    assert status["hub_pk"] == real_hub.hub_pk.hex()
    made = told("hub", "checkpoint", "--data-dir", real_hub.data_dir, "--out", "ev/m.manifest")
    assert made["manifest_id"]
    told("proof", "--stream", stream, "--seq", "1", "--out", "ev/one.proof")
    assert told("verify", "ev")["valid"]
    names = [
        row["name"]
        for row in told("hub", "token", "list", "--data-dir", real_hub.data_dir)["tokens"]
    ]
    assert stream.replace("/", "-") in names
    assert told("hub", "profile")["hub_pk"] == real_hub.hub_pk.hex()


@pytest.mark.usefixtures("state")
def test_a_data_directory_is_checked_rebuilt_and_its_damage_named(
    told: Told, veen: Veen, tmp_path: Path
) -> None:
    with running_hub(tmp_path, "--open-admission", "--open-reads") as hub:
        reach = ("--hub-url", hub.url, "--hub-pk", hub.hub_pk.hex())
        told("keygen", "--out", "a.key", "--plain")
        reader = told("keygen", "--out", "r.key", "--plain", "--reader")["dh_pk"]
        for body in ("one", "two", "three"):
            told(
                "send", "--client", "./a.key", "--label", "ab" * 32, "--body", body,
                "--reader-pk", reader, *reach,
            )  # fmt: skip
        record = told("hub", "key", "rotate", "--data-dir", hub.data_dir, "--out", "r.rotation")
        checked = told(
            "hub", "verify-rotation", "r.rotation", "--hub-pk", hub.hub_pk.hex(),
            "--new-pk", record["new_pk"],
        )  # fmt: skip
        assert checked["current_pk"] == record["new_pk"]
        told("hub", "stop", "--data-dir", hub.data_dir)
    assert told("hub", "rebuild", "--data-dir", hub.data_dir)["entries"] >= 3
    assert told("hub", "fsck", "--data-dir", hub.data_dir)["ok"]
    assert told("verify", hub.data_dir, "--hub-pk", hub.hub_pk.hex())["ok"]
    assert veen("verify", hub.data_dir, "--hub-pk", "ab" * 32)[0] == 7
    segment = hub.data_dir / "log" / "00000001.seg"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4
    segment.write_bytes(data)
    code, out, _ = veen("hub", "fsck", "--data-dir", hub.data_dir, "--json")
    assert code == 7
    assert "00000001.seg" in json.loads(out)["findings"][0]["file"]


def pin_by_trust_file(state: Path, *keys: TrustedKey) -> None:
    """What `veen up` leaves in its directory."""
    hub = TrustedHub(hub_id=hub_id_of(keys[0].pk), keys=keys)
    trust = TrustFile(serial=1, realm="test", hubs=(hub,))
    (state / "trust.json").write_bytes(trust.encode())
    (state / "trust.json.sig").write_bytes(trust.sign(TRUST_KEY))
    (state / "trust.pk").write_text(TRUST_KEY.public.hex() + "\n")


def test_the_trust_file_of_the_directory_is_the_pin_when_nothing_runs(
    stream: str, told: Told, veen: Veen, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("send", "--client", "alice", "--stream", stream, "--body", "x", "--out", "ev")
    hub_pk = PublicKey(bytes.fromhex(os.environ["VEEN_HUB_PK"]))
    monkeypatch.delenv("VEEN_HUB_PK")
    monkeypatch.delenv("VEEN_HUB_URL")
    assert veen("verify", "ev")[0] == 7
    pin_by_trust_file(state, TrustedKey(pk=hub_pk, status=KeyStatus.ACTIVE))
    assert told("verify", "ev")["valid"]
    # A superseded key counts no further than its last manifest, which this evidence lacks.
    other = SigningKey(b"\x0a" * 32).public
    pin_by_trust_file(
        state,
        TrustedKey(
            pk=hub_pk,
            status=KeyStatus.SUPERSEDED,
            superseded_by=other,
            last_manifest_id=ManifestId(bytes(32)),
        ),
        TrustedKey(pk=other, status=KeyStatus.ACTIVE),
    )
    assert veen("verify", "ev")[0] == 7
    (state / "trust.json.sig").write_bytes(bytes(64))
    code, _, err = veen("verify", "ev")
    assert code == 7
    assert "V.TRUST" in err


def test_a_client_command_starts_fast_and_without_django() -> None:
    code = (
        "import sys, time; started = time.perf_counter()\n"
        "from config.cli import run\n"
        "run(['send', '--help'])\n"
        "heavy = {'django', 'asyncio', 'uvloop', 'httptools', 'rich', 'cbor2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(time.perf_counter() - started, file=sys.stderr)"
    )
    times = []
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True
        )
        times.append(float(ended.stderr))
    assert min(times) < 0.3
