"""Accounts in the admin: no page writes one, and every button leads to an act."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from recorder.models import Act
from tests.recorder.admin.conftest import PASSWORD
from tests.support.office import Office

ASK = "/admin/recorder/act/ask"
CONFIRMED = {"confirmed": "yes", "once": "n1", "reason": "she starts on Monday"}


@pytest.fixture
def operator(olga: User) -> Client:
    client = Client()
    client.force_login(olga)
    return client


def test_no_page_of_the_admin_writes_an_account(operator: Client, olga: User) -> None:
    ivan = User.objects.create_user("ivan", password=PASSWORD)
    before = User.objects.values().get(pk=ivan.pk)
    base = "/admin/auth/user"
    assert operator.get(f"{base}/add/").status_code == 403
    new = {"username": "eve", "password1": PASSWORD + "x", "password2": PASSWORD + "x"}
    assert operator.post(f"{base}/add/", new).status_code == 403
    change = f"{base}/{ivan.pk}/change/"
    shown = operator.get(change)
    assertNotContains(shown, 'name="_save"')
    assertNotContains(shown, ivan.password)
    assert operator.post(change, {"username": "ivan", "is_superuser": "on"}).status_code == 403
    assert operator.post(f"{base}/{ivan.pk}/delete/", {"post": "yes"}).status_code == 403
    # Django's own form for another person's password: its address means nothing here.
    operator.post(f"{base}/{ivan.pk}/password/", {"password1": "x", "password2": "x"})
    bulk = {"action": "delete_selected", "_selected_action": ivan.pk, "post": "yes"}
    operator.post(f"{base}/", bulk)
    assert operator.get("/admin/auth/group/").status_code == 404
    assert User.objects.values().get(pk=ivan.pk) == before
    assert set(User.objects.values_list("username", flat=True)) == {"ivan", olga.username}


def test_an_account_is_made_by_a_confirmed_act_and_its_password_shown_once(
    operator: Client, author: Office
) -> None:
    form = {"name": "ivan", "role": "staff", "permissions": ["recorder.view_stream"]}
    asked = operator.post(f"{ASK}/account.create/", form)
    assertContains(asked, "Create an account")
    assert not Act.objects.filter(verb="account.create").exists()
    shown = operator.post(f"{ASK}/account.create/", form | CONFIRMED)
    password = re.search(r"<code>([a-z0-9-]{23})</code>", shown.content.decode())
    assert password
    assert Client().login(username="ivan", password=password[1])
    act = Act.objects.get(verb="account.create")
    assertNotContains(operator.get(f"/admin/recorder/act/{act.pk}/change/"), password[1])
    table = operator.get("/admin/auth/user/")
    assertContains(table, "ivan")
    assertContains(table, "Create an account")


def test_a_shut_account_is_out_at_once(operator: Client, author: Office) -> None:
    ivan = User.objects.create_user("ivan", password=PASSWORD)
    his = Client()
    his.force_login(ivan)
    assert his.get("/").status_code == 200
    sure = CONFIRMED | {"on": "ivan", "typed": "ivan", "password": PASSWORD}
    answer = operator.post(f"{ASK}/account.deactivate/", sure)
    assert answer.status_code == 302
    assert his.get("/").status_code == 302
    assertContains(operator.get(f"/admin/auth/user/{ivan.pk}/change/"), "Activate")


def test_ones_own_password_is_an_act_too(operator: Client, olga: User, author: Office) -> None:
    path = "/admin/password_change/"
    new = "staple-battery-horse-9"
    wrong = {"old_password": "no", "new_password1": new, "new_password2": new}
    assertContains(operator.post(path, wrong), "entered incorrectly")
    weak = {"old_password": PASSWORD, "new_password1": "12345", "new_password2": "12345"}
    assertContains(operator.post(path, weak), "too short")
    assert not Act.objects.filter(verb="account.reset_password").exists()
    right = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert operator.post(path, right).status_code == 302
    olga.refresh_from_db()
    assert olga.check_password(new)
    assert operator.get("/admin/").status_code == 200, "this session goes on"
    told = author.read()[-1]
    assert (told.event.event_type, told.payload["by_owner"]) == ("account.password_reset", True)


def test_staff_without_the_right_to_act_sees_no_button(operator: Client, olga: User) -> None:
    ivan = User.objects.create_user("ivan", is_staff=True)
    his = Client()
    his.force_login(ivan)
    assert his.get("/admin/auth/user/").status_code == 403
    assert his.get(f"{ASK}/account.create/").status_code == 403
