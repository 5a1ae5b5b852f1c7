from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from console import services
from console.models import LoginFailure
from recorder.models import AuthoredEvent
from recorder.streams import CHANGES
from tests.console.conftest import PASSWORD


def attempt(client: Client, password: str, name: str = "olga", **extra: str) -> int:
    data = {"username": name, "password": password}
    return client.post("/login/", data, REMOTE_ADDR=extra.get("address", "127.0.0.1")).status_code


def test_the_right_password_leads_to_the_overview(visitor: Client, olga: User) -> None:
    answer = visitor.post("/login/", {"username": olga.username, "password": PASSWORD})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    cookie = answer.cookies["veen_session"]
    assert (cookie["samesite"], cookie["httponly"]) == ("Strict", True)


def test_a_wrong_password_is_refused_without_saying_which_part_is_wrong(
    visitor: Client, olga: User
) -> None:
    known = visitor.post("/login/", {"username": olga.username, "password": "wrong"})
    unknown = visitor.post("/login/", {"username": "nobody", "password": "wrong"})
    sentence = b"Name and password do not match."
    assert sentence in known.content
    assert sentence in unknown.content


@pytest.mark.usefixtures("olga")
def test_after_five_failures_even_the_right_password_must_wait(visitor: Client) -> None:
    assert [attempt(visitor, "wrong") for _ in range(5)] == [200] * 5
    answer = visitor.post("/login/", {"username": "olga", "password": PASSWORD})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 15 * 60 + 1
    assert b"Too many failed attempts" in answer.content


@pytest.mark.usefixtures("olga")
def test_a_lockout_is_recorded_once_and_tells_no_name_that_is_no_account(visitor: Client) -> None:
    for _ in range(8):
        attempt(visitor, "wrong")
    [event] = AuthoredEvent.objects.all()
    assert (event.stream, event.event_type, event.subject_id) == (CHANGES, "login.locked", "olga")
    told = json.loads(event.payload_text)
    assert (told["address"], told["is_account"]) == ("127.0.0.1", True)
    assert 0 < told["wait_s"] <= 15 * 60 + 1
    for _ in range(8):
        attempt(visitor, "x", name="my-secret-password", address="10.9.8.7")
    [_, stranger] = AuthoredEvent.objects.order_by("created_at")
    assert stranger.subject_id == ""
    assert "my-secret-password" not in str(AuthoredEvent.objects.values())


@pytest.mark.usefixtures("olga")
def test_spelling_the_name_otherwise_does_not_reset_the_count(visitor: Client) -> None:
    for name in ("olga", "OLGA", "Olga", "oLga", "olgA"):
        attempt(visitor, "wrong", name)
    assert attempt(visitor, PASSWORD) == 429


@pytest.mark.usefixtures("olga")
def test_a_stranger_elsewhere_cannot_lock_the_operator_out(visitor: Client) -> None:
    for _ in range(6):
        attempt(visitor, "wrong", address="10.9.8.7")
    assert attempt(visitor, PASSWORD) == 302


@pytest.mark.usefixtures("olga")
def test_an_address_that_guesses_many_names_must_wait(visitor: Client) -> None:
    for number in range(services.FAILURES_PER_ADDRESS_MAX):
        attempt(visitor, "wrong", f"user{number}")
    assert attempt(visitor, PASSWORD) == 429


@pytest.mark.django_db
def test_the_wait_ends_when_the_oldest_failure_leaves_the_window() -> None:
    start = timezone.now()
    for number in range(services.FAILURES_PER_NAME_MAX):
        services.record_failed_login(
            name="olga", address="127.0.0.1", now=start + timedelta(seconds=number)
        )
    who = {"name": "olga", "address": "127.0.0.1"}
    last = start + timedelta(seconds=services.FAILURES_PER_NAME_MAX)
    wait_s = services.login_wait_s(**who, now=last)
    assert wait_s > 0
    assert services.login_wait_s(**who, now=last + timedelta(seconds=wait_s)) == 0


@pytest.mark.usefixtures("olga")
def test_success_forgets_the_failures_and_old_ones_are_removed(visitor: Client) -> None:
    long_ago = timezone.now() - services.WINDOW - timedelta(seconds=1)
    services.record_failed_login(name="ivan", address="127.0.0.1", now=long_ago)
    attempt(visitor, "wrong")
    assert LoginFailure.objects.count() == 1
    attempt(visitor, PASSWORD)
    assert LoginFailure.objects.count() == 0


@pytest.mark.usefixtures("olga")
def test_what_was_typed_as_a_name_is_not_stored(visitor: Client) -> None:
    attempt(visitor, "x", name="my-secret-password")
    assert "my-secret-password" not in str(list(LoginFailure.objects.values()))


def test_logging_out_needs_a_post(operator: Client) -> None:
    assert operator.get("/logout/").status_code == 405
    assert operator.post("/logout/").status_code == 302
    assert operator.get("/").status_code == 302


def test_a_login_form_without_csrf_token_is_refused(olga: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/login/", {"username": olga.username, "password": PASSWORD})
    assert answer.status_code == 403
    assert b"came from elsewhere" in answer.content


def test_login_does_not_lead_to_another_site(visitor: Client, olga: User) -> None:
    data = {"username": olga.username, "password": PASSWORD, "next": "https://evil.example/"}
    assert visitor.post("/login/", data)["Location"] == "/"
