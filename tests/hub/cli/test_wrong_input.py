"""What a person gets wrong is said as such, and not as a refusal of the hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hub.cli.conftest import Veen

PK = "ab" * 32


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
