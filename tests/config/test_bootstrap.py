"""The bootstrap where Python has no pip: only the pinned wheel is ever taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from config import bootstrap_pip
from config.bootstrap_pip import Link, fetch_pip, parse_page, read_config

WHEEL = b"not really a wheel"
NAME = "pip-99.1-py3-none-any.whl"

Index = Callable[[bytes, str], Path]


@pytest.fixture(autouse=True)
def no_pip_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from a machine on which pip was never configured."""
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "CERT", "NO_INDEX", "CONFIG_FILE"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setattr(bootstrap_pip, "config_files", lambda: iter(()))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "pip.lock"
    digest = hashlib.sha256(WHEEL).hexdigest()
    path.write_text(f"# why\npip==99.1 --hash=sha256:{digest}\n", encoding="utf-8")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index in a folder, whose page has relative links as mirrors give them."""

    def make(wheel: bytes, fragment: str) -> Path:
        (tmp_path / "simple" / "pip").mkdir(parents=True)
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / NAME).write_bytes(wheel)
        page = f'<a href="../../files/{NAME}{fragment}">{NAME}</a>'
        (tmp_path / "simple" / "pip" / "index.html").write_text(page, encoding="utf-8")
        monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
        return tmp_path

    return make


def test_the_pinned_wheel_is_fetched_through_relative_links(lock: Path, index: Index) -> None:
    folder = index(WHEEL, "")
    assert fetch_pip(lock, folder).read_bytes() == WHEEL


def test_a_wheel_with_other_bytes_is_refused_whatever_the_index_claims(
    lock: Path, index: Index
) -> None:
    pinned = hashlib.sha256(WHEEL).hexdigest()
    folder = index(WHEEL + b"!", f"#sha256={pinned}")
    with pytest.raises(OSError, match="not the pinned one"):
        fetch_pip(lock, folder)
    assert not (folder / NAME).exists()


def test_a_wheel_beside_us_is_found_without_any_index(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / NAME).write_bytes(WHEEL)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    assert fetch_pip(lock, tmp_path).name == NAME


def test_an_unreachable_index_is_named_without_its_password(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:hunter2@127.0.0.1:9/simple")
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9") as refusal:
        fetch_pip(lock, tmp_path)
    assert "hunter2" not in str(refusal.value)


def test_variables_override_the_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = http://a/simple\ncert = /c.pem\n", encoding="utf-8")
    monkeypatch.setattr(bootstrap_pip, "config_files", lambda: iter((file,)))
    assert read_config().indexes == ("http://a/simple",)
    monkeypatch.setenv("PIP_INDEX_URL", "http://b/simple")
    config = read_config()
    assert config.indexes == ("http://b/simple",)
    assert config.cert == "/c.pem"


def test_json_and_html_pages_give_the_same_links() -> None:
    url = "http://host/simple/pip/"
    html = b'<a href="../../f/pip-1.whl#sha256=ab">pip-1.whl</a>'
    json = b'{"files": [{"url": "../../f/pip-1.whl", "hashes": {"sha256": "ab"}}]}'
    expected = [Link("http://host/f/pip-1.whl", "ab")]
    assert parse_page(url, "text/html; charset=utf-8", html) == expected
    assert parse_page(url, bootstrap_pip.SIMPLE_JSON, json) == expected
