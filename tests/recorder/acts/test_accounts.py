"""Accounts change by recorded acts alone, and nothing of a password is in the log."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User

from hub.errors import ErrorCode, VeenError
from recorder import services
from recorder.api_admin import shown_act
from recorder.models import Act
from recorder.people import caller_of_person, name_of_principal
from tests.support.office import ALICE, Office

LOOK = "recorder.view_stream"


@pytest.fixture
def root(office: Office) -> User:
    """The administrator that the first `up` makes."""
    return User.objects.create_superuser("root", password="a-password-of-root")


def make(office: Office, name: str, **args: Any) -> tuple[Act, str]:
    asked = services.submit("account.create", {"name": name, **args}, actor=ALICE, reason="hired")
    assert asked.password is not None
    office.run()
    return Act.objects.get(pk=asked.act.id), asked.password


def test_an_account_is_made_and_recorded_without_its_password(office: Office, root: User) -> None:
    asked = services.submit(
        "account.create",
        {"name": "ivan", "role": "staff", "permissions": [LOOK]},
        actor=ALICE,
        reason="hired",
    )
    assert asked.password is not None
    assert not User.objects.filter(username="ivan").exists(), "not before the author did it"
    assert "$" not in str(shown_act(asked.act)["args"]), "a waiting act shows no hash"
    office.run()
    ivan = User.objects.get(username="ivan")
    assert ivan.check_password(asked.password)
    assert (ivan.is_staff, ivan.is_superuser, ivan.has_perm(LOOK)) == (True, False, True)
    told = office.read()[-1]
    assert (told.event.event_type, told.event.subject_id) == ("account.created", ALICE)
    assert told.payload["account"] == "ivan"
    assert told.payload["reason"] == "hired"
    assert (told.payload["role"], told.payload["permissions"]) == ("staff", [LOOK])
    act = Act.objects.get(pk=asked.act.id)
    kept = f"{act.args}{act.result}{told.event.payload}"
    assert act.state == Act.State.DONE
    assert asked.password not in kept
    assert ivan.password not in kept


def test_a_role_says_all_that_an_account_may_do(office: Office, root: User) -> None:
    make(office, "ivan", role="staff", permissions=["recorder.add_act", LOOK])
    ivan = User.objects.get(username="ivan")
    group = Group.objects.create(name="everything")
    group.permissions.set(Permission.objects.all())
    ivan.groups.add(group)
    office.do("account.role", name="ivan", role="viewer")
    ivan = User.objects.get(username="ivan")
    assert (ivan.is_staff, ivan.is_superuser, ivan.get_all_permissions()) == (False, False, set())
    told = office.read()[-1]
    assert told.event.event_type == "account.role_changed"
    assert told.payload["before"] == {
        "role": "staff", "permissions": ["recorder.add_act", LOOK], "streams": [], "all": False,
    }  # fmt: skip
    assert (told.payload["role"], told.payload["permissions"]) == ("viewer", [])
    office.do("account.role", name="ivan", role="administrator")
    assert User.objects.get(username="ivan").is_superuser


def test_what_an_account_reads_is_said_by_its_role_and_recorded(office: Office, root: User) -> None:
    office.do("stream.create", name="record/app/orders")
    office.do("stream.create", name="record/app/bills")
    make(office, "ivan", role="viewer", streams=["record/app/orders"])
    ivan = User.objects.get(username="ivan")
    caller = caller_of_person(ivan)
    assert caller is not None
    assert [one.name for one in caller.readable()] == ["record/app/orders"]
    assert office.read()[-1].payload["streams"] == ["record/app/orders"]
    principal = caller.token.principal_id
    assert name_of_principal(principal) == "ivan"
    office.do("account.role", name="ivan", role="viewer", all=True)
    caller = caller_of_person(ivan)
    assert caller is not None
    assert caller.readable().filter(name="record/app/bills").exists()
    assert caller.token.principal_id == principal, "what was asked stays the asker's"
    office.do("account.role", name="ivan", role="viewer")
    assert caller_of_person(ivan) is None
    everything = caller_of_person(root)
    assert everything is not None
    assert everything.token.role == "admin"
    with pytest.raises(VeenError):
        office.ask("account.role", name="ivan", role="viewer", streams=["record/app/no"])


def test_a_shut_account_opens_again_and_both_are_recorded(office: Office, root: User) -> None:
    make(office, "ivan", role="viewer")
    office.do("account.deactivate", name="ivan")
    assert not User.objects.get(username="ivan").is_active
    with pytest.raises(VeenError, match="already"):
        office.ask("account.deactivate", name="ivan")
    office.do("account.activate", name="ivan")
    assert User.objects.get(username="ivan").is_active
    types = [one.event.event_type for one in office.read()[-2:]]
    assert types == ["account.deactivated", "account.activated"]


def test_the_last_administrator_stays(office: Office, root: User) -> None:
    for verb, more in (("account.deactivate", {}), ("account.role", {"role": "viewer"})):
        with pytest.raises(VeenError, match="last administrator") as refusal:
            office.ask(verb, name="root", **more)
        assert refusal.value.code is ErrorCode.POLICY
    make(office, "olga", role="administrator")
    office.do("account.deactivate", name="root")
    with pytest.raises(VeenError, match="last administrator"):
        office.ask("account.deactivate", name="olga")


def test_a_new_password_ends_the_old_one(office: Office, root: User) -> None:
    _, first = make(office, "ivan", role="viewer")
    asked = services.submit("account.reset_password", {"name": "ivan"}, actor=ALICE)
    office.run()
    ivan = User.objects.get(username="ivan")
    assert asked.password is not None
    assert (ivan.check_password(asked.password), ivan.check_password(first)) == (True, False)
    told = office.read()[-1]
    assert told.event.event_type == "account.password_reset"
    assert (told.payload["account"], told.payload["by_owner"]) == ("ivan", False)
    assert asked.password not in f"{told.event.payload}"
    assert Act.objects.get(pk=asked.act.id).args == {"name": "ivan"}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"name": "ivan", "role": "boss"}, "E.FORMAT"),
        ({"name": "iv an", "role": "viewer"}, "E.FORMAT"),
        ({"name": "ROOT", "role": "viewer"}, "P.POLICY"),
        ({"name": "ivan", "role": "viewer", "permissions": [LOOK]}, "E.FORMAT"),
        ({"name": "ivan", "role": "staff", "permissions": ["auth.change_user"]}, "E.NOTFOUND"),
        ({"name": "ivan", "role": "viewer", "password_hash": "hunter2"}, "E.FORMAT"),
        ({"name": "ivan", "role": "viewer", "password": "hunter2"}, "E.FORMAT"),
    ],
)
def test_what_makes_no_account_is_refused(
    office: Office, root: User, args: dict[str, Any], code: str
) -> None:
    with pytest.raises(VeenError) as refusal:
        services.submit("account.create", args, actor=ALICE)
    assert refusal.value.code == code
    assert not Act.objects.filter(verb="account.create").exists()
