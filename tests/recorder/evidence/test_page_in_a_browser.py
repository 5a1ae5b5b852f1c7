"""The page as an auditor uses it: opened from disk, a file dropped, a fingerprint typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.crypto.hashing import h
from hub.selftest.specimens import HUB, HUB_2
from hub.types import Hash
from recorder.evidence.page import render
from tests.console.test_browser import CONTRAST
from tests.recorder.evidence import packs
from tests.recorder.evidence.conftest import CHROMIUM
from tests.recorder.evidence.packs import CHAIN, event, make_pack, message

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]
PLACES = [
    ".word", ".sentence", ".badge", ".hint", ".big", "dt", "dd", ".chip.is-holds", ".chip",
    ".check b", ".check p", ".check .kind", "button.hash", "pre", ".limits li", ".note",
]  # fmt: skip
# The console's own measure, over the places of this page that are there at the moment.
MEASURE = re.sub(
    r"for \(const q of \[.*?\]\) \{",
    lambda _: f"for (const q of {PLACES!r}.filter(q => document.querySelector(q))) {{",
    CONTRAST,
    flags=re.DOTALL,
)


@pytest.fixture
def fresh(page: Page) -> Page:
    page.goto(page.url)
    return page


def word(page: Page, expected: str) -> str:
    page.wait_for_selector(f".is-{expected.replace(' ', '-')}", timeout=5000)
    return page.inner_text("#word")


def drop(page: Page, data: bytes, name: str = "one.evidence") -> None:
    kind = "application/octet-stream"
    page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": data})


def test_a_file_and_the_fingerprint_give_a_green_verdict(
    fresh: Page, complaints: list[str]
) -> None:
    assert fresh.inner_text("#word") == "WAITING"
    drop(fresh, make_pack(is_open=True).encode())
    assert word(fresh, "signer unknown") == "SIGNER UNKNOWN"
    typed = HUB.public.hex().upper()
    fresh.fill("#fingerprint", " ".join(typed[at : at + 8] for at in range(0, 64, 8)))
    assert word(fresh, "valid") == "VALID"
    assert "login.failed" in fresh.inner_text("#fields")
    assert "12345678901234567890" in fresh.inner_text("#payload")  # beyond 2^53, still exact
    assert fresh.locator(".check.is-ok").count() == fresh.locator(".check").count() > 15
    assert complaints == []


def test_a_wrong_fingerprint_stays_unknown_and_a_broken_pack_turns_red(
    fresh: Page, complaints: list[str]
) -> None:
    pack = make_pack(is_open=True)
    drop(fresh, pack.encode())
    fresh.fill("#fingerprint", HUB_2.public.hex())
    fresh.wait_for_function("document.querySelector('#sentence').textContent.includes('no key')")
    assert word(fresh, "signer unknown") == "SIGNER UNKNOWN"
    fresh.fill("#fingerprint", HUB.public.hex())
    word(fresh, "valid")
    broken = dict(packs.mutated(pack))["proof 60"]
    drop(fresh, broken)
    assert word(fresh, "not valid") == "NOT VALID"
    failed = fresh.locator(".check.is-bad b").all_inner_texts()
    assert "proof reaches the manifest's checkpoint" in failed
    assert "receipt is signed by a pinned key" not in failed  # what holds is still shown green
    assert fresh.locator(".node.root.bad").count() == 1
    assert complaints == []


def test_the_drawing_has_a_box_for_every_hash_of_the_proof(fresh: Page) -> None:
    for seq, size, hashes in ((1, 1, 1), (5, 11, 10), (8, 8, 7), (11, 11, 4), (300, 999, 27)):
        drop(fresh, make_pack(seq, size).encode())
        fresh.wait_for_function(
            "(want) => document.querySelectorAll('.tree .node').length === want", arg=hashes
        )
        frame = fresh.locator(".tree").bounding_box()
        assert frame is not None
        for node in fresh.locator(".tree .node").all():
            inside = node.bounding_box()
            assert inside is not None
            assert frame["x"] - 1 <= inside["x"]
            assert inside["x"] + inside["width"] <= frame["x"] + frame["width"] + 1
            assert frame["y"] - 1 <= inside["y"]


def test_a_page_that_carries_its_evidence_opens_with_it(page: Page, tmp_path: Path) -> None:
    carrying = render(make_pack(is_open=True, keys=CHAIN, signer=1).encode())
    (tmp_path / "event.html").write_text(carrying, encoding="utf-8")
    home = page.url
    page.goto((tmp_path / "event.html").as_uri())
    assert word(page, "signer unknown") == "SIGNER UNKNOWN"
    assert "drop this very file" in page.inner_text(".embedded-note")
    page.goto(home)
    drop(page, carrying.encode(), "event.html")  # on the auditor's own copy
    page.fill("#fingerprint", CHAIN[2].public.hex())
    assert word(page, "valid") == "VALID"


def test_fields_of_an_event_are_text_and_never_markup(fresh: Page, complaints: list[str]) -> None:
    evil = "<img src=x onerror=alert(1)><b>bold</b>\u202e"
    body = event(5, f'"{evil}"').encode().replace(b"user:5", b"<i>x<i")
    drop(fresh, make_pack(msg=message(5, body=body), is_open=True).encode(), f"{evil}.evidence")
    word(fresh, "signer unknown")
    assert "<img src=x" in fresh.inner_text("#payload")
    assert fresh.locator("#fields i, #payload b, main img").count() == 0
    assert complaints == []


def test_other_content_is_shown_as_bytes(fresh: Page) -> None:
    msg = message(5, schema=Hash(h(b"another")), body=b"\x01\x02\x03")
    drop(fresh, make_pack(msg=msg, is_open=True).encode())
    fresh.wait_for_function("document.querySelector('#payload').textContent === '010203'")
    assert "not an event of the recorder" in fresh.inner_text("#content-note")


def test_the_page_can_connect_nowhere(fresh: Page, complaints: list[str]) -> None:
    outcome = fresh.evaluate("fetch('data:text/plain,x').then(() => 'connected', () => 'refused')")
    assert outcome == "refused"
    assert any("Content Security Policy" in said for said in complaints)
    complaints.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(fresh: Page, scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, measured on what the browser really paints."""
    fresh.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for data in (make_pack(is_open=True).encode(), make_pack().encode()):
        drop(fresh, data)
        word(fresh, "signer unknown")
        ratios = fresh.evaluate(MEASURE)
        assert len(ratios) > 12
        assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


def test_a_narrow_screen_does_not_scroll_sideways(fresh: Page) -> None:
    fresh.set_viewport_size({"width": 360, "height": 700})
    drop(fresh, make_pack(300, 999, is_open=True).encode())
    word(fresh, "signer unknown")
    assert fresh.evaluate("document.documentElement.scrollWidth") <= 360
    fresh.set_viewport_size({"width": 1280, "height": 900})


def test_the_keyboard_reaches_file_and_fingerprint(fresh: Page) -> None:
    stops = []
    for _ in range(3):
        fresh.keyboard.press("Tab")
        stops.append(
            fresh.evaluate("document.activeElement.id || document.activeElement.className")
        )
    assert stops == ["skip", "file", "fingerprint"]
