from __future__ import annotations

import json

import pytest

from hub.cli.output import b64, emit, escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \u65e5", "plain \u00e9 \u65e5"),
        ("a\nb", "a\nb"),
        ("\x1b[2J\r\x07\x00", "\\x1b[2J\\x0d\\x07\\x00"),
        ("\x9b31m", "\\x9b31m"),  # the one-byte form of ESC [
        ("\u202efdp.exe", "\\u202efdp.exe"),  # turns the writing direction around
    ],
)
def test_nothing_stored_steers_the_terminal(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": "\x1b", "b": [1, {"c": None}]}, as_json=True)
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": "\x1b", "b": [1, {"c": None}]}
    assert "\x1b" not in out
    assert out.count("\n") == 1


def test_fields_stand_one_to_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"short": "x", "longer": [1]}, as_json=False)
    assert capsys.readouterr().out == "short   x\nlonger  [1]\n"


def test_bytes_are_padded_base64() -> None:
    assert b64(b"\xff\xfe") == "//4="
