from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import vectors


def test_every_vector_file_is_known() -> None:
    assert {path.stem for path in vectors.FOLDER.glob("*.json")} == vectors.SECTIONS.keys()


@pytest.mark.parametrize("name", sorted(vectors.SECTIONS))
def test_every_vector_file_has_exactly_the_known_sections(name: str) -> None:
    assert vectors.load(name)["status"]


@pytest.mark.parametrize("change", [{"news": []}, {"status": None}])
def test_a_file_that_gains_or_loses_a_section_is_refused(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = vectors.load("pow") | change
    content = {key: value for key, value in content.items() if value is not None}
    (tmp_path / "pow.json").write_text(json.dumps(content))
    monkeypatch.setattr(vectors, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=r"pow\.json"):
        vectors.load("pow")
