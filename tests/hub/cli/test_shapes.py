"""Every command has a help of one sentence, two examples, and --json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hub.cli import cap, evidence, hub, keys, labelclass, messages
from hub.crypto.signing import SigningKey
from hub.types import Label, LeafHash, MmrRoot, StreamSeq, UnixSeconds
from hub.wire.receipt import Receipt
from tests.hub.cli.conftest import Veen

ROOTS: tuple[click.Command, ...] = (
    keys.keygen,
    keys.identity_card,
    hub.hub,
    cap.cap,
    messages.send,
    messages.stream,
    messages.receipt,
    messages.proof,
    evidence.verify,
    evidence.inspect,
    evidence.explain,
    labelclass.label_class,
)


def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from leaves(child, f"{path} {name}")


COMMANDS = [pair for root in ROOTS for pair in leaves(root, str(root.name))]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_help_has_a_sentence_two_examples_and_json(path: str, command: click.Command) -> None:
    first = (command.help or "").split("\n\n")[0]
    assert first.endswith(".")
    assert (command.epilog or "").count("veen ") >= 2, path
    assert any("--json" in option.opts for option in command.params)


def test_the_commands_of_the_contract_exist() -> None:
    found = {path for path, _ in COMMANDS}
    hub_verbs = [
        "start",
        "stop",
        "status",
        "profile",
        "checkpoint",
        "fsck",
        "rebuild",
        "prune",
        "verify-rotation",
    ]
    assert {f"hub {verb}" for verb in hub_verbs} <= found
    assert {"hub key rotate", "hub token add", "hub token list", "hub token revoke"} <= found
    assert "hub clock accept" in found
    assert {f"cap {verb}" for verb in ["issue", "renew", "authorize", "show", "revoke"]} <= found
    assert {f"stream {verb}" for verb in ["create", "list", "keys"]} <= found
    assert {f"label-class {verb}" for verb in ["set", "list", "show"]} <= found
    flags = {flag for option in hub.start.params for flag in option.opts}
    assert flags >= {
        "--data-dir", "--port", "--bind", "--tls-cert", "--tls-key", "--open-admission",
        "--open-reads", "--trusted-issuer", "--routing-key-file", "--routing-key",
        "--heads-file", "--take-over", "--fork", "--daemon",
    }  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        ("send", "--client", "x", "--label", "zz", "--body", "x", "--reader-pk", "00" * 32),
        ("send", "--client", "x", "--body", "x"),
        ("verify", "no-such-file"),
        ("inspect", "no-such-file"),
        ("explain", "E.NONSENSE"),
        ("keygen",),
        ("keygen", "--name", "../escape", "--plain"),
        ("cap", "issue", "--subject", "ab" * 32, "--stream", "a/b", "--out", "x.cap"),
        ("hub", "token", "add", "--name", "x"),
    ],
)
def test_a_wrong_command_line_ends_with_one(
    veen: Veen, args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("VEEN_HUB_PK", raising=False)
    code, out, err = veen(*args)
    assert code == 1, err
    assert out == ""
    assert "Traceback" not in err


def test_without_a_running_hub_its_acts_end_with_two(
    veen: Veen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path))
    assert veen("hub", "status")[0] == 2


def test_without_a_pinned_key_nothing_is_verified(
    veen: Veen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VEEN_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("VEEN_HUB_PK", raising=False)
    hub_key = SigningKey(b"\x01" * 32)
    receipt = Receipt.sign(
        hub_key,
        Label(b"\x02" * 32),
        StreamSeq(1),
        LeafHash(b"\x03" * 32),
        MmrRoot(b"\x03" * 32),
        UnixSeconds(1),
    )
    (tmp_path / "x.receipt").write_bytes(receipt.encode())
    code, _, err = veen("verify", tmp_path / "x.receipt")
    assert (code, "V.TRUST" in err) == (7, True)
    assert veen("verify", tmp_path / "x.receipt", "--hub-pk", hub_key.public.hex())[0] == 0
