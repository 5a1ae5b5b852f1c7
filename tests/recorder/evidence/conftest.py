"""The verifying page in a real browser, opened from disk."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recorder.evidence.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
Judge = Callable[[Sequence[bytes], str | None], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """Everything the browser reported: script errors and violations of the policy."""
    return []


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, complaints: list[str]) -> Iterator[Page]:
    """veen-verify.html, as an auditor opens it."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path: Path = tmp_path_factory.mktemp("page") / "veen-verify.html"
    path.write_text(render(), encoding="utf-8")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened: Page = browser.new_context(offline=True).new_page()
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(path.as_uri())
        yield opened
        browser.close()


JUDGE = """async ([packs, fingerprint]) => {
  const found = [];
  for (const text of packs) {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const o = await veen.verifyPack(bytes, fingerprint);
    const e = o.event;
    found.push({
      checks: o.report.checks.map((check) => [check.verdict, check.name, check.ok]),
      verdicts: o.report.verdicts(), word: o.report.word(), signer: o.signer, content: o.content,
      event: e === null || e === undefined ? null
        : [e.subject_id, e.event_type, e.event_time, e.origin, e.payload],
    });
  }
  return found; }"""


@pytest.fixture
def judge(page: Page) -> Judge:
    """What the page says of packs, with a fingerprint or without."""

    def call(packs: Sequence[bytes], fingerprint: str | None) -> list[dict[str, Any]]:
        texts = [base64.b64encode(pack).decode() for pack in packs]
        found: list[dict[str, Any]] = page.evaluate(JUDGE, [texts, fingerprint])
        return found

    return call
