from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django import Settings as DjangoSettings
from pytest_django.asserts import assertContains

from console.ladder import age, draw
from hub.models import Finding, IndexState, LabelHead, ManifestRow


@pytest.mark.parametrize("path", ["/", "/admin/", "/admin/hub/labelhead/"])
def test_pages_lead_a_visitor_to_the_login(visitor: Client, path: str) -> None:
    answer = visitor.get(path, follow=True)
    assert answer.redirect_chain[-1] == (f"/login/?next={path}", 302)
    assertContains(answer, 'name="password"')


def test_the_polled_part_answers_401_instead_of_a_login_form(visitor: Client) -> None:
    assert visitor.get("/overview/part").status_code == 401


def test_healthz_needs_no_login_and_no_database(client: Client) -> None:
    answer = client.get("/healthz")  # without the db fixture a query would fail the test
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.usefixtures("log_of_three")
def test_a_whole_log_is_consistent_with_fingerprint_counts_and_heads(operator: Client) -> None:
    answer = operator.get("/")
    assertContains(answer, "CONSISTENT")
    assertContains(answer, f'title="{"ab" * 32}">abababab…ababab<', html=False)
    assertContains(answer, "<dd>2</dd>", html=False)
    assertContains(answer, "<dd>307</dd>", html=False)
    assertContains(answer, "+7 since")


@pytest.mark.usefixtures("log_of_three")
def test_an_open_finding_outweighs_everything(operator: Client) -> None:
    now = timezone.now()
    Finding.objects.create(
        code="V.EQUIVOCATION",
        severity="critical",
        object=f"label {'01' * 32}",
        detail="<script>alert(1)</script>",
        first_seen=now,
        last_seen=now,
    )
    answer = operator.get("/")
    assertContains(answer, "DIVERGED")
    assertContains(answer, "&lt;script&gt;alert(1)")


@pytest.mark.usefixtures("log_of_three")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"problem": "N.UNREACHABLE: refused"}, "UNREACHABLE"),
        ({"checked_at": timezone.now() - timedelta(minutes=5)}, "STALE"),
        ({"checked_at": None}, "UNKNOWN"),
    ],
)
def test_the_word_is_not_consistent_when_nobody_looked(
    operator: Client, change: dict[str, object], word: str
) -> None:
    IndexState.objects.update(**change)
    assertContains(operator.get("/"), f"</span>{word}</p>", html=False)


def test_an_empty_log_says_the_command_that_fills_it(operator: Client) -> None:
    answer = operator.get("/")
    assertContains(answer, "veen hub checkpoint")
    assertContains(answer, "veen send")


@pytest.mark.usefixtures("log_of_three")
def test_the_page_costs_the_same_queries_for_many_labels(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    template = LabelHead.objects.first()
    assert template is not None
    for number in range(300):
        template.pk = f"{number + 1000:064x}"
        template.save(force_insert=True)
    with django_assert_num_queries(8):  # session, user, and six for the page
        answer = operator.get("/overview/part")
    assertContains(answer, "200 with the newest change of 302")


@pytest.mark.usefixtures("log_of_three")
def test_pages_carry_no_inline_code_or_style(operator: Client) -> None:
    for path in ("/", "/overview/part", "/nowhere"):
        text = operator.get(path).content.decode()
        assert not re.search(r"<style|style=|<script(?![^>]*\ssrc=)|\son\w+=|javascript:", text)


@pytest.mark.usefixtures("log_of_three")
def test_the_page_can_be_read_without_seeing_it(operator: Client) -> None:
    text = operator.get("/").content.decode()
    assert '<a class="skip" href="#main">' in text
    assert "<caption>Labels</caption>" in text
    assert 'role="img" aria-labelledby="ladder-text"' in text
    assert "3 checkpoint(s); the newest of" in text
    assert all('scope="col"' in tag for tag in re.findall(r"<th\b[^>]*>", text))


def test_the_first_rung_of_a_log_shows_all_it_covers(log_of_three: list[ManifestRow]) -> None:
    assert [r.added for r in draw(log_of_three, now=timezone.now()).rungs] == [100, 100, 100]


def test_a_ladder_that_begins_later_does_not_guess(log_of_three: list[ManifestRow]) -> None:
    assert [r.added for r in draw(log_of_three[1:], now=timezone.now()).rungs] == [0, 100]


def test_rungs_stay_on_the_rail_and_their_words_apart(log_of_three: list[ManifestRow]) -> None:
    ladder = draw(log_of_three * 8, now=timezone.now())
    xs = [rung.x for rung in ladder.rungs]
    assert xs == sorted(set(xs))
    assert ladder.left < xs[0] < xs[-1] < ladder.right
    labelled = [rung.x for rung in ladder.rungs if rung.is_labelled]
    assert min(b - a for a, b in pairwise(labelled)) >= 96


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (90_000, "1 d ago")]
)
def test_ages_are_told_in_one_unit(seconds: int, words: str) -> None:
    assert age(timedelta(seconds=seconds)) == words


@pytest.mark.usefixtures("log_of_three")
def test_the_admin_token_opens_the_json_and_nothing_else_does(
    visitor: Client, tmp_path: Path, settings: DjangoSettings
) -> None:
    settings.VEEN_ADMIN_TOKEN_FILE = tmp_path / "admin.token"
    assert visitor.get("/overview.json").status_code == 401
    settings.VEEN_ADMIN_TOKEN_FILE.write_text("s3cret\n")
    for bad in ("Bearer", "Bearer ", "Bearer s3cre", "Basic s3cret", "s3cret", "Bearer s3crét"):
        assert visitor.get("/overview.json", HTTP_AUTHORIZATION=bad).status_code == 401
    answer = visitor.get("/overview.json", HTTP_AUTHORIZATION="Bearer s3cret")
    assert answer.json()["state"] == "CONSISTENT"
    assert visitor.get("/", HTTP_AUTHORIZATION="Bearer s3cret").status_code == 302
