"""What `veen test` makes of pytest's exit codes: a failed run is never 0."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from config import cli


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("def test_one() -> None:\n    assert True\n", 0),
        ("def test_one() -> None:\n    assert False\n", 5),
        ("raise RuntimeError\n", 5),
        ("", 1),
    ],
    ids=["passes", "fails", "does-not-load", "is-empty"],
)
def test_the_exit_code_of_a_test_run(text: str, exit_code: int, tmp_path: Path) -> None:
    path = tmp_path / "test_given.py"
    path.write_text(text)
    assert cli.run(["test", "-n", "0", "-q", str(path)]) == exit_code


def test_an_option_pytest_does_not_know_is_a_usage_error() -> None:
    assert cli.run(["test", "-n", "0", "--no-such-option"]) == 1


@pytest.mark.parametrize(("assertion", "exit_code"), [("True", 0), ("False", 5)])
def test_json_is_one_document_and_the_rest_is_on_stderr(
    assertion: str, exit_code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test_given.py"
    path.write_text(f"def test_one() -> None:\n    assert {assertion}\n")
    assert cli.run(["test", "-n", "0", "--json", str(path)]) == exit_code
    out, err = capfd.readouterr()
    assert json.loads(out) == {"ok": exit_code == 0, "exit_code": exit_code}
    assert "test_given.py" in err


def test_a_search_without_time_says_that_nothing_was_found(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["fuzz", "--minutes", "0", "--seed", "7", "--json"]) == 0
    out = capfd.readouterr().out
    assert json.loads(out) == {"ok": True, "first_seed": 7, "failed_seed": None}


def test_the_table_of_settings_is_json_asked_or_not(capfd: pytest.CaptureFixture[str]) -> None:
    tables = []
    for words in (["config", "schema"], ["config", "schema", "--json"]):
        assert cli.run(words) == 0
        tables.append(json.loads(capfd.readouterr().out))
    assert tables[0] == tables[1]
    assert "data_dir" in tables[0]


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_takes_json(name: str) -> None:
    """Every command that does something itself, and not through its subcommands."""
    context = click.Context(cli.veen)
    pending = [cli.veen.get_command(context, name)]
    while pending:
        command = pending.pop()
        assert command is not None
        if isinstance(command, click.Group):
            pending += [command.get_command(context, one) for one in command.list_commands(context)]
        if not isinstance(command, click.Group) or command.invoke_without_command:
            assert any("--json" in option.opts for option in command.params), command.name
