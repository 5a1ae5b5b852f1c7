"""What `veen test` makes of pytest's exit codes: a failed run is never 0."""

from __future__ import annotations

from pathlib import Path

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
