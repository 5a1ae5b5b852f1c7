"""Forms of acts on accounts, and of one's own password [experience 1.1]."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.hashers import get_hasher, make_password
from django.contrib.auth.models import Permission, User

from hub.canonical_json import Value
from recorder.acts.accounts import MAY_ACT, Role, permissions_of, role_of
from recorder.admin_forms import ActForm, OnName, StreamChoice
from recorder.people import reading_of
from recorder.tokens import PASSWORD_HASH

_ROLES: Final = (
    (Role.ADMINISTRATOR.value, "administrator: everything, acts included"),
    (Role.STAFF.value, "staff: these pages, as far as the permissions below go"),
    (Role.VIEWER.value, "viewer: the console alone"),
)


def _permissions() -> list[tuple[str, str]]:
    rows = Permission.objects.filter(codename__startswith="view_").select_related("content_type")
    looks = [
        (f"{one.content_type.app_label}.{one.codename}", f"look at: {one.content_type.name}")
        for one in rows
        if one.content_type.app_label in {"hub", "recorder"} or one.codename == "view_user"
    ]
    return [(MAY_ACT, "ask for acts of administration, accounts among them"), *sorted(looks)]


class _WithRights(ActForm):
    role = forms.ChoiceField(choices=_ROLES)
    permissions = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=_permissions,
        help_text="Of staff only.",
    )
    streams = StreamChoice(
        required=False, label="Reads", help_text="Streams to ask about in the console."
    )
    all = forms.BooleanField(
        required=False, label="Reads all streams", help_text="An administrator does anyway."
    )


class _WithPassword(ActForm):
    def planned_args(self) -> dict[str, Value]:
        """The hash is that of a text nobody has seen yet."""
        return {**self.args(), PASSWORD_HASH: f"{get_hasher().algorithm}$"}


class CreateAccount(_WithPassword, _WithRights):
    name = forms.CharField(max_length=128, help_text="Acts and queries will say it.")
    field_order = ("name", "role", "streams", "all", "permissions")


class ChangeRole(OnName, _WithRights):
    field_order = CreateAccount.field_order

    def __init__(self, *args: Any, on: str = "", **kwargs: Any) -> None:  # noqa: ANN401
        """The form opens on what the account is now."""
        user = User.objects.filter(username=on).first()
        if user is not None:
            streams, everything = reading_of(user.username)
            now = {"role": role_of(user).value, "permissions": permissions_of(user)}
            kwargs.setdefault("initial", {**now, "streams": streams, "all": everything})
        super().__init__(*args, on=on, **kwargs)


class ResetPassword(_WithPassword, OnName):
    """Nothing more is asked: the new password is made, and shown once."""


class OwnPasswordForm(PasswordChangeForm):
    """As Django judges it; what it becomes is an act, and the author writes the row."""

    required_css_class = "required"

    def hashed(self) -> str:
        """The hash of the new password."""
        return make_password(self.cleaned_data["new_password1"])
