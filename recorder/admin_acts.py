"""The way of every write in the admin: asked, confirmed with a reason, executed, watched.

(1) a form, where the act needs more than its object; (2) a page that says what will happen and asks
why, and for what cannot be undone the name and the password again; (3) the same service as the API
and the command line takes the act; (4) its page shows how far it is [experience 1; assurance 2.5].
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from hub.errors import VeenError
from recorder import services
from recorder.acts.table import find_verb
from recorder.admin_forms import FIELDS, ActForm, ConfirmForm
from recorder.admin_verbs import ADMIN_VERBS, AdminVerb, name_of
from recorder.codes import ApiError
from recorder.models import Act

WAIT_S: Final = 2.0  # most acts are over by then, and their page shows it at once
PASSWORD_FAILURES_MAX: Final = 5
_FAILURES: Final = "confirm_failures"
_DONE: Final = "confirmed"
_REMEMBERED_MAX: Final = 50


def ask_act(request: HttpRequest, verb: str) -> HttpResponse:
    """GET shows the form or the confirmation; only a confirmed POST asks for the act."""
    found = ADMIN_VERBS.get(verb)
    if found is None:
        raise Http404
    if not request.user.has_perm("recorder.add_act"):
        raise PermissionDenied
    return _Asking(request, found).answer()


class _Asking:
    """One request on the way of one act."""

    def __init__(self, request: HttpRequest, verb: AdminVerb) -> None:
        self._request = request
        self._verb = verb
        self._given = request.POST if request.method == "POST" else request.GET
        self._on = self._given.get("on", "")[:200]
        try:
            self._name = name_of(verb, self._on)
        except ValidationError as flaw:
            raise Http404 from flaw
        if verb.form.on_field is not None and not self._on:
            raise Http404

    def answer(self) -> HttpResponse:
        if self._request.method != "POST" and self._verb.has_fields:
            return self._show_form(self._verb.form(on=self._on))
        form = self._verb.form(self._given, on=self._on)
        if not form.is_valid() or not self._is_possible(form):
            return self._show_form(form)
        if "confirmed" not in self._request.POST:
            return self._show_confirmation(form, self._confirmation())
        confirmation = self._confirmation(self._request.POST)
        if not confirmation.is_valid() or not self._is_password_right(confirmation):
            if not self._request.user.is_authenticated:
                return redirect("login")
            return self._show_confirmation(form, confirmation)
        return self._submit(form, confirmation)

    def _is_possible(self, form: ActForm) -> bool:
        """Whether the verb takes these arguments now; what it says stands on the form."""
        verb = find_verb(self._verb.verb)
        try:
            verb.plan(verb.check(form.planned_args()))
        except VeenError as refusal:
            _explain(form, refusal)
            return False
        return True

    def _confirmation(self, given: Any = None) -> ConfirmForm:  # noqa: ANN401 - form data
        return ConfirmForm(given, name=self._name, is_destructive=self._verb.is_destructive)

    def _is_password_right(self, confirmation: ConfirmForm) -> bool:
        if not self._verb.is_destructive:
            return True
        if self._request.user.check_password(confirmation.cleaned_data["password"]):
            self._request.session.pop(_FAILURES, None)
            return True
        confirmation.add_error("password", "This is not your password.")
        failures = self._request.session.get(_FAILURES, 0) + 1
        self._request.session[_FAILURES] = failures
        if failures >= PASSWORD_FAILURES_MAX:
            logout(self._request)  # the one login door counts further guesses
        return False

    def _submit(self, form: ActForm, confirmation: ConfirmForm) -> HttpResponse:
        once = self._request.POST.get("once", "")[:64]
        done: list[list[str]] = self._request.session.get(_DONE, [])
        for known, act_id in done:
            if known == once:
                messages.warning(self._request, "This was asked for already.")
                return _to_act(act_id)
        try:
            taken = services.submit(
                self._verb.verb,
                form.args(),
                actor=self._request.user.get_username(),
                reason=confirmation.cleaned_data["reason"],
            )
        except VeenError as refusal:
            _explain(form, refusal)
            return self._show_form(form)
        done.append([once, str(taken.act.id)])
        self._request.session[_DONE] = done[-_REMEMBERED_MAX:]
        act = services.wait_for_act(taken.act.id, WAIT_S)
        if taken.token is not None:
            return self._page("admin/recorder/token_shown.html", act=act, token=taken.token)
        if taken.password is not None:
            shown = {"account": taken.act.args["name"], "password": taken.password}
            return self._page("admin/recorder/password_shown.html", act=act, **shown)
        return _to_act(str(act.id))

    def _show_form(self, form: ActForm) -> HttpResponse:
        return self._page("admin/recorder/act_form.html", form=form)

    def _show_confirmation(self, form: ActForm, confirmation: ConfirmForm) -> HttpResponse:
        summary = [
            (form.fields[name].label or name.replace("_", " ").capitalize(), _shown(value))
            for name, value in form.cleaned_data.items()
            if value not in ("", None, [], False)
        ]
        return self._page(
            "admin/recorder/act_confirm.html",
            form=form,
            confirmation=confirmation,
            summary=summary,
            once=self._request.POST.get("once") or secrets.token_hex(8),
        )

    def _page(self, template: str, **context: object) -> HttpResponse:
        shown = {
            **admin.site.each_context(self._request),
            "title": self._verb.button,
            "verb": self._verb,
            "on": self._on,
            "name": self._name,
            "opts": Act._meta,  # noqa: SLF001 - Django's documented name for it
            **context,
        }
        return TemplateResponse(self._request, template, shown)


def _to_act(act_id: str) -> HttpResponse:
    return redirect(reverse("admin:recorder_act_change", args=[act_id]))


def _explain(form: ActForm, refusal: VeenError) -> None:
    """What the service says, beside the field it speaks of where there is one."""
    if isinstance(refusal, ApiError) and refusal.details:
        for one in refusal.details:
            said = one.pointer.removeprefix("/args/").partition("/")[0]
            name = FIELDS.get(said, said)
            form.add_error(name if name in form.fields else None, one.reason)
        return
    form.add_error(None, refusal.message if isinstance(refusal, ApiError) else refusal.detail)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def pretty(value: object) -> str:
    """JSON as people read it."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
