"""The token file: hashes only, re-read live, never half believed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hub.errors import ErrorCode, VeenError
from hub.server import tokens
from hub.server.tokens import TokenFile
from hub.storage.disk import Disk
from hub.types import Label

LABEL, OTHER = Label(b"\x01" * 32), Label(b"\x02" * 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def add(path: Path, name: str, labels: list[Label] | None) -> str:
    return tokens.add(path, Disk(), name, labels, [])


def test_a_token_is_found_by_its_secret_and_opens_its_labels(path: Path) -> None:
    bearer = add(path, "one", [LABEL])
    found = TokenFile(path).find(bearer)
    assert found.name == "one"
    found.check(LABEL)
    with pytest.raises(VeenError) as refused:
        found.check(OTHER)
    assert refused.value.code is ErrorCode.CAP
    with pytest.raises(VeenError):
        found.check_all()


def test_a_token_for_all_opens_everything(path: Path) -> None:
    found = TokenFile(path).find(add(path, "all", None))
    found.check(LABEL)
    found.check_all()


def test_secrets_are_long_different_and_not_stored(path: Path) -> None:
    bearers = [add(path, f"n{number}", None) for number in range(20)]
    assert len(set(bearers)) == 20
    assert all(len(bearer) >= 43 for bearer in bearers)
    stored = path.read_text()
    assert not any(bearer in stored or bearer[4:] in stored for bearer in bearers)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("bearer", ["", "vrt_", "nonsense", "\u00e9", "vrt_" + "A" * 43])
def test_an_unknown_secret_is_e_auth(path: Path, bearer: str) -> None:
    add(path, "one", None)
    with pytest.raises(VeenError) as refused:
        TokenFile(path).find(bearer)
    assert refused.value.code is ErrorCode.AUTH


def test_changes_are_seen_without_a_restart(path: Path) -> None:
    file = TokenFile(path)
    with pytest.raises(VeenError):
        file.find("x")
    first, second = add(path, "first", None), add(path, "second", None)
    assert file.find(first).name == "first"
    tokens.revoke(path, Disk(), "first")
    with pytest.raises(VeenError):
        file.find(first)
    assert file.find(second).name == "second"
    path.unlink()
    with pytest.raises(VeenError):
        file.find(second)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b'{"a": 1}', b'{"a": {}}', b'{"a": {"sha256": 1, "all": true}}',
        b'{"a": {"sha256": "00"}}', b'{"a": {"sha256": "00", "labels": ["zz"]}}',
        b'{"a": {"sha256": "00", "labels": 7}}', b'{"a": {"sha256": "00", "all": "yes"}}',
    ],
)  # fmt: skip
def test_a_damaged_file_opens_nothing_and_says_so(path: Path, text: bytes) -> None:
    bearer = add(path, "one", None)
    file = TokenFile(path)
    file.find(bearer)
    path.write_bytes(text)
    os.utime(path, ns=(1, 1))
    with pytest.raises(VeenError) as refused:
        file.find(bearer)
    assert refused.value.code is ErrorCode.DAMAGE


def test_a_name_is_used_once_and_can_be_shown(path: Path) -> None:
    add(path, "one", None)
    for name in ("one", "", "a\nb", "\x1b[2J", "x" * 129):
        with pytest.raises(VeenError) as refused:
            add(path, name, None)
        assert refused.value.code is ErrorCode.FORMAT
    assert list(json.loads(path.read_bytes())) == ["one"]


def test_a_listing_has_no_hashes(path: Path) -> None:
    tokens.add(path, Disk(), "one", [LABEL], ["test/one"])
    reach = {"all": False, "streams": ["test/one"], "labels": [LABEL.hex()]}
    assert tokens.listing(path) == [{"name": "one", **reach}]


def test_only_a_token_that_is_known_can_be_revoked(path: Path) -> None:
    add(path, "one", None)
    tokens.check_known(path, "one")
    tokens.revoke(path, Disk(), "one")
    for act in (tokens.check_known, lambda path, name: tokens.revoke(path, Disk(), name)):
        with pytest.raises(VeenError) as refused:
            act(path, "one")
        assert refused.value.code is ErrorCode.NOTFOUND
