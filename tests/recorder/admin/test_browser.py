"""The recorder's admin in a real browser, under the real policy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from recorder.auth import sha256_of
from recorder.models import Act, ApiToken, EventType, Producer, ReaderKey, Stream
from tests.recorder.admin.conftest import PASSWORD
from tests.support.office import Office

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
# Where to put pictures of the pages, for people who want to look at them.
PICTURES = os.environ.get("TEST_PICTURES")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
    pytest.mark.django_db(transaction=True),
]
WORRIES = ("error", "warning")
TABLES = (
    "stream", "eventtype", "producer", "apitoken", "reader", "readerkey", "readergrant", "act",
    "authoredevent", "anchor", "lakejob",
)  # fmt: skip


@pytest.fixture
def complaints() -> list[str]:
    """Everything the browser reported: script errors and violations of the policy."""
    return []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # Playwright keeps an event loop in this thread, which Django takes for asynchronous code.
    with pytest.MonkeyPatch.context() as patch, api.sync_playwright() as play:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        made: Browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(
    browser: Browser, live_server: LiveServer, olga: User, complaints: list[str]
) -> Iterator[Page]:
    context = browser.new_context(base_url=live_server.url)
    page = context.new_page()
    # A remark, as on a second field that wanted the focus, is no complaint.
    page.on("console", lambda m: complaints.append(m.text) if m.type in WORRIES else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/login/?next=/admin/")
    page.fill("#id_username", olga.username)
    page.fill("#id_password", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_selector("#content")
    yield page
    context.close()


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=True)


def done(page: Page) -> Act:
    """The act whose page is shown, once it says that it is done."""
    page.wait_for_selector(".veen-state.ok", timeout=20_000)
    return Act.objects.get(pk=page.url.rstrip("/").split("/")[-2])


def create_stream(page: Page, name: str, *event_types: str) -> Act:
    page.goto("/admin/recorder/stream/")
    page.click("text=Create a stream")
    page.fill("#id_name", name)
    page.fill("#id_event_types", "\n".join(event_types))
    picture(page, "act-form")
    page.click("text=Continue")
    page.fill("#id_reason", "the shop goes live")
    picture(page, "act-confirm")
    page.click("input[value='Create a stream']")
    return done(page)


def test_no_page_breaks_the_policy_or_a_script(
    page: Page, author: Office, complaints: list[str]
) -> None:
    for path in ("/admin/", "/admin/recorder/", "/admin/recorder/ingest/"):
        page.goto(path)
        picture(page, path.strip("/").replace("/", "-"))
    for table in TABLES:
        page.goto(f"/admin/recorder/{table}/")
        picture(page, f"table-{table}")
        row = page.query_selector("#result_list tbody th a")
        if row is not None:
            row.click()
            page.wait_for_selector("#content")
            picture(page, f"row-{table}")
    page.goto("/admin/hub/manifestrow/")
    picture(page, "table-manifestrow")
    assert complaints == []


@pytest.mark.usefixtures("olga")
def test_an_empty_table_says_the_command_that_fills_it(page: Page, complaints: list[str]) -> None:
    for table in TABLES:
        page.goto(f"/admin/recorder/{table}/")
        assert page.inner_text(".veen-empty code").startswith("veen ")
    picture(page, "empty")
    page.goto("/admin/recorder/ingest/")
    picture(page, "empty-ingest")
    assert page.inner_text(".veen-empty code").startswith("veen ")
    assert complaints == []


def test_a_stream_is_created_confirmed_and_recorded(
    page: Page, author: Office, complaints: list[str]
) -> None:
    name = f"record/app/shop-{uuid4().hex[:6]}"
    act = create_stream(page, name, "order.placed", "order.paid")
    picture(page, "act-done")
    assert (act.verb, act.actor, act.reason) == ("stream.create", "olga", "the shop goes live")
    assert Stream.objects.get(name=name).event_types.count() == 2
    [read] = [one for one in author.read() if one.payload.get("act_id") == str(act.pk)]
    assert (read.event.event_type, read.event.subject_id) == ("stream.created", "olga")
    page.goto("/admin/recorder/stream/")
    picture(page, "streams")
    page.click(f"text={name}")
    picture(page, "stream")
    page.click("text=Rotate the key")
    picture(page, "rotate")
    page.fill("#id_reason", "every quarter")
    page.click("input[value='Rotate the key']")
    assert done(page).verb == "stream.rotate_key"
    assert ReaderKey.objects.filter(stream_id=name).count() == 2
    assert complaints == []


def test_a_stream_is_split_and_the_migration_recorded(
    page: Page, author: Office, complaints: list[str]
) -> None:
    name, bills = (f"record/app/{word}-{uuid4().hex[:6]}" for word in ("shop", "bills"))
    paid, sent = f"paid-{uuid4().hex[:6]}", f"sent-{uuid4().hex[:6]}"
    author.ask("stream.create", name=bills)
    create_stream(page, name, paid, sent)
    page.goto("/admin/recorder/stream/")
    page.click(f"text={name}")
    page.click("a:text-is('Split')")
    picture(page, "split-form")
    page.select_option(f"[name='move-{sent}']", bills)
    page.click("text=Continue")
    page.fill("#id_reason", "two teams")
    page.fill("#id_typed", name)
    page.fill("#id_password", PASSWORD)
    picture(page, "split-confirm")
    page.click("input[value='Split']")
    act = done(page)
    picture(page, "split-done")
    assert EventType.objects.get(pk=sent).stream_id == bills
    assert EventType.objects.get(pk=paid).stream_id == name
    told = [one for one in author.read() if one.event.event_type == "stream.split"]
    assert told[-1].payload == {
        "from": name,
        "to": [{"stream": bills, "event_types": [sent]}],
        "reason": "two teams",
    }
    assert (told[-1].event.subject_id, act.verb) == ("olga", "stream.migrate")
    assert complaints == []


def test_what_cannot_be_done_is_said_on_the_form(page: Page, author: Office) -> None:
    page.goto("/admin/recorder/act/ask/stream.create/")
    page.fill("#id_name", "record/query/mine")
    page.click("text=Continue")
    picture(page, "act-refused")
    assert page.inner_text(".errornote")
    assert page.input_value("#id_name") == "record/query/mine"
    assert not Act.objects.filter(verb="stream.create", args__name="record/query/mine").exists()


def test_a_token_is_shown_once(page: Page, author: Office, complaints: list[str]) -> None:
    page.goto("/admin/recorder/apitoken/")
    page.click("text=Create a token")
    page.fill("#id_name", "audit")
    page.check("#id_all")
    picture(page, "token-form")
    page.click("text=Continue")
    page.fill("#id_reason", "the auditors")
    page.click("input[value='Create a token']")
    page.wait_for_selector(".veen-token")
    picture(page, "token-shown")
    text = page.inner_text(".veen-token code")
    page.click("text=Go to the act")
    done(page)
    assert ApiToken.objects.get(name="audit").sha256 == sha256_of(text)
    assert text not in page.content()
    page.goto("/admin/recorder/apitoken/")
    picture(page, "tokens")
    page.click("text=audit")
    assert text not in page.content()
    assert sha256_of(text) not in page.content()
    picture(page, "token")
    assert complaints == []


def test_revoking_asks_for_the_name_the_reason_and_the_password(
    page: Page, author: Office, complaints: list[str]
) -> None:
    stream = f"record/app/pay-{uuid4().hex[:6]}"
    author.ask("stream.create", name=stream)
    act = author.ask("producer.add", name="billing", held="gateway", streams=[stream])
    page.goto(f"/admin/recorder/act/{act.pk}/change/")
    done(page)
    page.goto("/admin/recorder/producer/")
    picture(page, "producers")
    page.click("text=billing")
    picture(page, "producer")
    page.click("a:text-is('Revoke')")
    page.fill("#id_reason", "its host was lost")
    page.fill("#id_typed", "biling")
    page.fill("#id_password", PASSWORD)
    page.click("input[value='Revoke']")
    assert "This is not billing" in page.inner_text("#content")
    page.fill("#id_typed", "billing")
    page.fill("#id_password", "wrong")
    page.click("input[value='Revoke']")
    assert "This is not your password" in page.inner_text("#content")
    picture(page, "revoke")
    assert Producer.objects.get(name="billing").ended_at is None
    page.fill("#id_password", PASSWORD)
    page.click("input[value='Revoke']")
    assert done(page).verb == "producer.revoke"
    assert Producer.objects.get(name="billing").revoked_at is not None
    page.goto("/admin/recorder/ingest/")
    picture(page, "ingest")
    assert complaints == []


def test_an_account_is_made_and_its_owner_changes_the_password(
    page: Page, author: Office, complaints: list[str]
) -> None:
    page.goto("/admin/auth/user/")
    picture(page, "accounts")
    page.click("text=Create an account")
    page.fill("#id_name", "ivan")
    page.select_option("#id_role", "staff")
    page.check("[value='recorder.view_stream']")
    picture(page, "account-form")
    page.click("text=Continue")
    page.fill("#id_reason", "she starts on Monday")
    picture(page, "account-confirm")
    page.click("input[value='Create an account']")
    page.wait_for_selector(".veen-token")
    picture(page, "account-password")
    first = page.inner_text(".veen-token code")
    page.goto(f"/admin/auth/user/{User.objects.get(username='ivan').pk}/change/")
    picture(page, "account")
    page.click("a:text-is('Change role')")
    assert page.is_checked("[value='recorder.view_stream']"), "it opens on what is"
    picture(page, "account-role")

    page.click("#logout-form button")
    page.goto("/login/?next=/admin/password_change/")
    page.fill("#id_username", "ivan")
    page.fill("#id_password", first)
    page.click("button[type=submit]")
    page.fill("#id_old_password", first)
    page.fill("#id_new_password1", "staple-battery-horse-9")
    page.fill("#id_new_password2", "staple-battery-horse-9")
    picture(page, "own-password")
    page.click("input[value='Change my password']")
    page.wait_for_selector(".messagelist .success")
    picture(page, "own-password-done")
    told = [one for one in author.read() if one.event.event_type.startswith("account.")]
    assert [one.event.subject_id for one in told[-2:]] == ["olga", "ivan"]
    assert first not in f"{[one.event.payload for one in told]}"
    assert complaints == []


def test_the_page_of_an_act_loads_itself_again_until_it_is_over(page: Page, office: Office) -> None:
    act = office.ask("checkpoint.now")
    page.goto(f"/admin/recorder/act/{act.pk}/change/")
    assert page.inner_text(".veen-state.wait") == "pending"
    office.run()
    assert done(page) == act


def test_a_checkpoint_is_made_from_its_table(page: Page, author: Office) -> None:
    page.goto("/admin/hub/manifestrow/")
    page.click("text=Checkpoint now")
    picture(page, "checkpoint")
    page.fill("#id_reason", "before the drill")
    page.click("input[value='Checkpoint now']")
    act = done(page)
    assert re.fullmatch("[0-9a-f]{64}", act.result["manifest_id"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_badges_and_buttons_have_enough_contrast(page: Page, author: Office, scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, measured on what the browser really paints."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/admin/recorder/stream/")
    picture(page, f"streams-{scheme}")
    page.goto("/admin/recorder/act/ask/checkpoint.now/")
    picture(page, f"confirm-{scheme}")
    page.goto("/admin/recorder/ingest/")
    picture(page, f"ingest-{scheme}")
    ratios = page.evaluate(CONTRAST)
    assert ratios
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


def test_a_narrow_screen_does_not_scroll_sideways(page: Page, author: Office) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    for path in ("act/ask/stream.create/", "act/ask/checkpoint.now/"):
        page.goto(f"/admin/recorder/{path}")
        picture(page, f"narrow-{path.split('/')[2]}")
        width: int = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, path


CONTRAST = """() => {
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => {
      v = v / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!c.startsWith("rgba(")) return c; } return "rgb(255, 255, 255)"; };
  const found = {};
  for (const q of [".veen-state.off", ".veen-state.bad", ".veen-facts dt", ".veen-facts dd",
                   "#result_list th", "#result_list td", "#result_list caption"]) {
    const e = document.querySelector(q);
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    found[q] = (a + 0.05) / (b + 0.05); }
  return found; }"""
