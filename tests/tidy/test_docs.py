"""Every command that the documents tell a reader to type exists, with those options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from config import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
SPAN = re.compile(r"`([^`]+)`")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[\s(])(?:\./)?veen ((?:[^#\n|&;)]|\n +)+)")


def commands(text: str) -> Iterator[list[str]]:
    """The words behind each `veen` of the code in a document."""
    code = [*BLOCK.findall(text), *SPAN.findall(FENCED.sub("", text))]
    for piece in code:
        for found in COMMAND.findall(piece):
            yield re.sub(r"'[^']*'|<[^>]*>", "x", found).split()


def check(words: list[str]) -> None:
    command: click.Command = cli.veen
    rest = list(words)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        below = command.get_command(click.Context(command), rest[0])
        assert below is not None, words
        command = below
        rest.pop(0)
    if command.ignore_unknown_options:
        return  # the rest is pytest's
    known = {"--help", *(name for one in command.params for name in one.opts)}
    assert {word for word in rest if word.startswith("--")} <= known, words


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_in_the_documents_exists(path: Path) -> None:
    for words in commands(path.read_text("utf-8")):
        check(words)


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    text = "Say `./veen up --port 1`.\n\n```sh\nunshare -rn ./veen verify a  # all\n```\n"
    assert list(commands(text)) == [["verify", "a"], ["up", "--port", "1"]]


@pytest.mark.parametrize("words", [["hubb"], ["hub", "nonsense"], ["up", "--nonsense"]])
def test_a_command_that_does_not_exist_is_noticed(words: list[str]) -> None:
    with pytest.raises(AssertionError):
        check(words)
