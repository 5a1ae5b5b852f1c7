"""The pages in a real browser, under the real policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from hub.models import IndexState
from tests.console.conftest import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
WORRIES = ("error", "warning")  # a remark, as on a field that wanted the focus, is none
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("olga", "log_of_three"),
]


@pytest.fixture(autouse=True)
def _allow_queries_beside_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright keeps an event loop in this thread, which Django takes for asynchronous code."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture
def complaints() -> list[str]:
    """Everything the browser reported: script errors and violations of the policy."""
    return []


@pytest.fixture
def page(live_server: LiveServer, complaints: list[str]) -> Iterator[Page]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page: Page = browser.new_context(base_url=live_server.url).new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in WORRIES else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/")
        page.fill("#id_username", User.objects.get().username)
        page.fill("#id_password", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_selector("#overview")
        yield page
        browser.close()


def test_no_page_breaks_the_policy_or_a_script(page: Page, complaints: list[str]) -> None:
    for path in ("/", "/admin/", "/admin/hub/labelhead/", "/admin/hub/finding/"):
        page.goto(path)
    assert complaints == []


def test_the_overview_follows_the_log_without_being_loaded_again(
    page: Page, complaints: list[str]
) -> None:
    assert page.inner_text(".word").strip() == "CONSISTENT"
    page.evaluate("document.body.dataset.kept = 'yes'")
    IndexState.objects.update(problem="N.UNREACHABLE: refused")
    page.wait_for_selector(".verdict-unreachable", timeout=15_000)
    assert page.title() == "UNREACHABLE · VEEN"
    assert page.evaluate("document.body.dataset.kept") == "yes"
    assert complaints == []


def test_an_ended_session_leads_to_the_login(page: Page) -> None:
    page.context.clear_cookies()
    page.wait_for_selector("#id_password", timeout=15_000)


def test_the_skip_link_is_the_first_stop_of_the_keyboard(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page: Page, scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, measured on what the browser really paints."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/")
    ratios = page.evaluate(CONTRAST)
    assert ratios
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


def test_a_narrow_screen_does_not_scroll_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto("/")
    width: int = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360


CONTRAST = """() => {
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => {
      v = v / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!c.startsWith("rgba(")) return c; } return "rgb(255, 255, 255)"; };
  const found = {};
  for (const q of [".word", ".sentence", ".as-of", ".facts dt", ".facts dd", "th", "td", ".tag",
                   ".tag-ok", ".hint", ".brand span", ".badge", ".user span", "nav a"]) {
    const e = document.querySelector(q);
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    found[q] = (a + 0.05) / (b + 0.05); }
  return found; }"""
