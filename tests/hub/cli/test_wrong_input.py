"""What a person gets wrong is said as such, and not as a refusal of the hub."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from hub import keystore
from hub.crypto.signing import SigningKey
from hub.types import Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.captoken import CapToken
from hub.wire.receipt import Receipt
from hub.wire.rotation import hub_id_of
from hub.wire.trust import KeyStatus, TrustedHub, TrustedKey, TrustFile
from tests.hub.cli.conftest import Veen

PK = "ab" * 32
HUB, REALM, OTHER = (SigningKey(bytes((number,)) * 32) for number in (1, 2, 3))


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path / "state"))
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n")
    return path


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("verify", "--hub-pk", PK), 7),
        (("inspect",), 3),
        (("cap", "show"), 3),
        (("hub", "verify-rotation", "--hub-pk", PK), 3),
    ],
    ids=["verify", "inspect", "cap-show", "verify-rotation"],
)
def test_a_file_that_is_no_object(
    words: tuple[str, ...], exit_code: int, text: Path, veen: Veen
) -> None:
    code, out, err = veen(*words, text)
    assert (code, out) == (exit_code, "")
    assert "Traceback" not in err


@pytest.mark.usefixtures("text")
@pytest.mark.parametrize("command", ["fsck", "rebuild"])
def test_a_directory_that_is_not_there_is_a_usage_error(command: str, veen: Veen) -> None:
    code, _, err = veen("hub", command, "--data-dir", "./nowhere")
    assert code == 1
    assert "there is no directory" in err


@pytest.mark.usefixtures("text")
def test_a_key_that_is_not_there_names_the_command_that_makes_it(veen: Veen) -> None:
    reach = ("--hub-url", "http://127.0.0.1:1", "--hub-pk", PK)
    code, _, err = veen("send", "--client", "bob", "--label", PK, "--body", "x", *reach)
    assert code == 1
    assert "veen keygen --name bob" in err


@pytest.mark.usefixtures("text")
@pytest.mark.parametrize(
    "words",
    [
        ("cap", "issue", "--subject", PK, "--stream", "BAD", "--out", "x.cap"),
        ("stream", "create", "BAD"),
        ("stream", "keys", "a/b"),
        ("send", "--client", "bob", "--stream", "BAD", "--body", "x"),
    ],
    ids=["cap-issue", "stream-create", "stream-keys", "send"],
)
def test_a_stream_mistyped_or_unknown_here_is_a_usage_error(
    words: tuple[str, ...], tmp_path: Path, veen: Veen
) -> None:
    keystore.write_key_file(tmp_path / "state" / "secrets" / "routing.key", bytes(32))
    code, out, err = veen(*words)
    assert (code, out) == (1, ""), err


@pytest.fixture
def token(text: Path) -> CapToken:
    keystore.write_key_file(text.with_name("issuer.key"), HUB.seed)
    keystore.write_key_file(text.with_name("other.key"), OTHER.seed)
    return CapToken.issue(HUB, subject_pk=REALM.public, stream_ids=[bytes(32)], ttl=60)


def test_a_chain_that_its_issuer_did_not_sign_fails_verification(
    token: CapToken, tmp_path: Path, veen: Veen
) -> None:
    data = bytearray(token.encode())
    data[-1] ^= 1
    path = tmp_path / "forged.cap"
    path.write_bytes(data)
    for words in (("show",), ("renew", "--issuer", tmp_path / "issuer.key")):
        code, _, err = veen("cap", words[0], path, *words[1:])
        assert (code, "link 1" in err) == (7, True), err
    assert path.read_bytes() == data


def test_renewal_by_another_issuer_is_against_policy(
    token: CapToken, tmp_path: Path, veen: Veen
) -> None:
    path = tmp_path / "one.cap"
    path.write_bytes(token.encode())
    assert veen("cap", "renew", path, "--issuer", tmp_path / "other.key")[0] == 6
    assert path.read_bytes() == token.encode()


@pytest.mark.parametrize("flaw", ["forged", "missing", "other-bytes"])
def test_a_trust_file_not_signed_by_the_realm_is_a_listed_check_that_fails(
    flaw: str, text: Path, veen: Veen
) -> None:
    receipt = Receipt.sign(
        HUB,
        Label(b"\x02" * 32),
        StreamSeq(1),
        LeafHash(b"\x03" * 32),
        MmrRoot(b"\x03" * 32),
        UnixSeconds(1),
    )
    evidence = text.with_name("r.receipt")
    evidence.write_bytes(receipt.encode())
    key = TrustedKey(pk=HUB.public, status=KeyStatus.ACTIVE)
    hubs = (TrustedHub(hub_id=hub_id_of(HUB.public), keys=(key,)),)
    trust = TrustFile(serial=1, realm="test", hubs=hubs)
    path, signature = text.with_name("t.json"), text.with_name("t.json.sig")
    path.write_bytes(trust.encode())
    signature.write_bytes(trust.sign(REALM))
    words = ("--trust-pk", REALM.public.hex(), "--json")
    assert veen("verify", evidence, "--trust", path, *words)[0] == 0
    if flaw == "missing":
        signature.unlink()
    elif flaw == "forged":
        signature.write_bytes(trust.sign(OTHER))
    else:
        path.write_bytes(trust.encode() + b" ")
    for asked in ((evidence, "--trust", path), (path,)):
        code, out, _ = veen("verify", *asked, *words)
        said = json.loads(out)
        assert (code, said["valid"]) == (7, False)
        assert [check["ok"] for check in said["checks"]].count(False) == 1


@pytest.mark.usefixtures("text")
def test_a_hub_that_does_not_answer_in_time_ends_with_nine(veen: Veen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        reach = ("--hub-url", url, "--hub-pk", PK, "--timeout", "0.1")
        code, out, err = veen("receipt", "--label", PK, "--seq", "1", *reach, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (9, "timeout"), err
