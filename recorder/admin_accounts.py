"""Accounts in the admin: looked at here, changed by acts like everything else [experience 1.1]."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import admin, messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from hub.errors import VeenError
from recorder import services
from recorder.acts.accounts import ResetPassword, permissions_of, role_of
from recorder.admin_account_forms import OwnPasswordForm
from recorder.admin_acts import WAIT_S
from recorder.admin_tables import RecorderAdmin, badge
from recorder.models import Act
from recorder.people import reading_of
from recorder.tokens import PASSWORD_HASH


class AccountAdmin(RecorderAdmin):
    """The hash of a password is on no page."""

    list_display = ("username", "role", "state", "last_login", "date_joined")
    list_filter = ("is_active", "is_staff", "is_superuser")
    search_fields = ("username",)
    ordering = ("username",)
    fields = ("name", "role", "state", "reads", "permissions", "last_login", "date_joined")
    readonly_fields = ("name", "role", "state", "reads", "permissions")
    list_verbs = ("account.create",)
    empty_hint = "veen up"
    change_list_template = "admin/recorder/change_list.html"
    change_form_template = "admin/recorder/change_form.html"

    def object_verbs(self, row: User) -> Sequence[str]:
        if not row.is_active:
            return ("account.activate",)
        return ("account.role", "account.reset_password", "account.deactivate")

    def on(self, row: User) -> str:
        return row.username

    @admin.display(description="name")
    def name(self, row: User) -> str:
        return row.username  # without what Django advises to who would type one

    @admin.display(description="role")
    def role(self, row: User) -> str:
        return role_of(row).value

    @admin.display(description="state", ordering="is_active")
    def state(self, row: User) -> str:
        return badge("active" if row.is_active else "shut")

    @admin.display(description="reads")
    def reads(self, row: User) -> str:
        streams, everything = reading_of(row.username)
        return "all streams" if everything or row.is_superuser else ", ".join(streams) or "—"

    @admin.display(description="permissions")
    def permissions(self, row: User) -> str:
        return ", ".join(permissions_of(row)) or "—"


@never_cache
@sensitive_post_parameters()
def own_password(request: HttpRequest) -> HttpResponse:
    """One's own password, changed by an act that one asks for oneself."""
    user = request.user
    assert isinstance(user, User)  # the site has let nobody else in
    form = OwnPasswordForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        act = _ask(user, form)
        if act is not None:
            user.refresh_from_db()
            update_session_auth_hash(request, user)  # or this very session would end
            is_done = act.state == Act.State.DONE
            messages.success(
                request, f"The change of your password is {'recorded' if is_done else 'asked for'}."
            )
            return redirect("admin:index")
    shown = {
        **admin.site.each_context(request),
        "title": "Change your password",
        "form": form,
        "opts": Act._meta,  # noqa: SLF001 - Django's documented name for it
    }
    return TemplateResponse(request, "admin/recorder/own_password.html", shown)


def _ask(user: User, form: OwnPasswordForm) -> Act | None:
    """The act, or None when the form now says why there is none."""
    try:
        asked = services.submit_act(
            ResetPassword.name,
            {"name": user.username, PASSWORD_HASH: form.hashed()},
            actor=user.username,
            reason="changed by its owner",
        )
    except VeenError as refusal:
        form.add_error(None, refusal.detail)
        return None
    act = services.wait_for_act(asked.id, WAIT_S)
    if act.state == Act.State.FAILED:
        form.add_error(None, act.message)
        return None
    return act


admin.site.unregister(User)
admin.site.unregister(Group)  # rights stand on the account alone: one place to look at
admin.site.register(User, AccountAdmin)
