"""The `veen` command: exit codes, one JSON document, no traceback, nothing imported early."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from config import cli
from hub.errors import ERRORS, ErrorCode, ProofError, TimedOutError, VeenError, WireError
from queryapi.contract.codes import QueryCode, QueryError
from recorder.codes import RecordCode, RecordError

ROOT = Path(__file__).resolve().parents[2]


def run_with(error: BaseException, monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    """The exit code of a command that raises error."""

    @click.command()
    @click.option("--json", "as_json", is_flag=True, expose_value=False)
    def failing() -> None:
        raise error

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: failing)
    monkeypatch.delenv("VEEN_DEBUG", raising=False)
    return cli.run(["send", *args])


@pytest.mark.parametrize("code", list(ErrorCode))
def test_the_code_of_a_refusal_decides_the_exit_code(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(VeenError(code, "because"), monkeypatch) == ERRORS[code].exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{code}: because" in captured.err


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (click.UsageError("no"), 1),
        (FileNotFoundError(2, "No such file or directory", "a.cbor"), 1),
        (ConnectionRefusedError(111, "Connection refused"), 2),
        (OSError(113, "No route to host"), 2),
        (http.client.BadStatusLine("x"), 3),
        (WireError("not canonical"), 3),
        (ProofError("not signed by it", ErrorCode.SIG), 7),
        (TimeoutError(), 9),
        (TimedOutError("no answer within 1 s"), 9),
        (RecordError(RecordCode.LAKE_BEHIND, "try again"), 9),
        (QueryError(QueryCode.RESULT_NOT_READY, "try again"), 9),
        (RecordError(RecordCode.RATE_LIMITED, "slower"), 4),
        (KeyError("x"), 70),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_every_other_exception_has_its_exit_code(
    error: BaseException,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_with(error, monkeypatch) == exit_code
    assert "Traceback" not in capsys.readouterr().err


def test_a_failed_command_with_json_prints_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(VeenError(ErrorCode.CAP, "no"), monkeypatch, "--json") == 4
    assert json.loads(capsys.readouterr().out) == {"error": {"code": "E.CAP", "message": "no"}}


def test_an_error_is_one_line_that_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "key '\x1b[31mevil\r\nveen: forged\u2028veen: too' is wrong"
    assert run_with(VeenError(ErrorCode.CONFIG, said), monkeypatch) == 1
    lines = capsys.readouterr().err.splitlines()
    expected = "veen: C.CONFIG: key '\\x1b[31mevil veen: forged veen: too' is wrong"
    assert lines == [expected, f"      {ERRORS[ErrorCode.CONFIG].remedy}"]


def test_debug_adds_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise KeyError("x")

    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: failing)
    monkeypatch.setenv("VEEN_DEBUG", "1")
    assert cli.run(["send"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("outcome", "exit_code"), [(None, 0), (7, 7), ("text", 0)])
def test_a_command_may_return_its_exit_code(
    outcome: object, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = click.Command("any", callback=lambda: outcome)
    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda *_: command)
    assert cli.run(["send"]) == exit_code


def test_an_unknown_command_suggests_and_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["keygne"]) == 1
    assert "Did you mean keygen" in capsys.readouterr().err


def test_wrong_options_are_usage_errors_and_not_clicks_own_code() -> None:
    assert cli.run(["config", "show", "--nonsense"]) == 1


def commands_below(name: str) -> Iterator[tuple[str, ...]]:
    """A command of the table and all its subcommands, as words."""
    pending: list[tuple[tuple[str, ...], click.Command | None]] = [
        ((name,), cli.veen.get_command(click.Context(cli.veen), name))
    ]
    while pending:
        words, command = pending.pop()
        assert command is not None, words
        yield words
        if isinstance(command, click.Group):
            context = click.Context(command)
            pending += [
                ((*words, below), command.get_command(context, below))
                for below in command.list_commands(context)
            ]


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_of_the_table_exists_and_shows_two_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands_below(name):
        assert cli.run([*words, "--help"]) == 0, words
        text = capsys.readouterr().out
        examples = text.partition("Examples:")[2]
        assert examples.count("veen ") >= 2, text


def test_help_and_client_commands_import_no_framework() -> None:
    code = (
        "import sys; from config import cli; cli.run(['--help']);"
        "[cli.veen.get_command(None, n) for n in ('send', 'stream', 'verify', 'keygen', 'config')];"
        "print(sorted({'django', 'rest_framework', 'pyspark'} & set(sys.modules)))"
    )
    command = (sys.executable, "-c", code)
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = (sys.executable, "-m", "config.cli", "config", "show")
    done = subprocess.run(
        command, cwd=ROOT, check=False, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
