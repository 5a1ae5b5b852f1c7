"""Pages of the console [experience 1.5: P1]."""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_safe

from console import services
from console.ladder import Ladder, draw
from hub import queries


def _context(now: datetime) -> dict[str, Any]:
    found = queries.overview(now)
    ladder: Ladder | None = draw(found.manifests, now=now) if found.manifests else None
    return {"overview": found, "ladder": ladder, "now": now}


@login_required
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Answers: is it whole, is it moving, what needs me."""
    return render(request, "console/overview.html", _context(timezone.now()))


@require_GET
def overview_part(request: HttpRequest) -> HttpResponse:
    """The changing part of the overview, polled by the page."""
    if not request.user.is_authenticated:
        return HttpResponse(status=401)  # a redirect would put the login form into the page
    return render(request, "console/overview_part.html", _context(timezone.now()))


def has_admin_token(request: HttpRequest) -> bool:
    """Whether the request carries the administrator's token of this state directory."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    try:
        expected = settings.VEEN_ADMIN_TOKEN_FILE.read_text().strip()
    except OSError:
        return False
    return scheme == "Bearer" and hmac.compare_digest(given.encode(), expected.encode())


@require_GET
def overview_json(request: HttpRequest) -> HttpResponse:
    """The same facts for a script or a monitor, with a session or the administrator's token."""
    if not (request.user.is_authenticated or has_admin_token(request)):
        message = "Give the administrator's token as a bearer."
        return JsonResponse({"error_code": "unauthorized", "message": message}, status=401)
    found = queries.overview(timezone.now())
    newest = found.newest
    return JsonResponse({
        "state": found.verdict.word,
        "sentence": found.verdict.sentence,
        "as_of": found.as_of,
        "hub_pk": found.hub_pk,
        "hub_id": found.hub_id,
        "labels": found.label_count,
        "messages": found.message_count,
        "last_manifest_id": newest.manifest_id if newest else None,
        "open_findings": len(found.findings),
    })  # fmt: skip


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view's signature
    """Alive: this process answers. It says nothing about the hub."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


class Login(auth_views.LoginView):
    """The one door for people; failed attempts are counted before a password is looked at."""

    template_name = "console/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # noqa: ANN401
        wait_s = services.login_wait_s(**self._who(), now=timezone.now())
        if wait_s:
            context = self.get_context_data(form=self.get_form_class()(request), wait_s=wait_s)
            response = self.render_to_response(context, status=429)
            response["Retry-After"] = str(wait_s)
            return response
        return super().post(request, *args, **kwargs)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        services.record_failed_login(**self._who(), now=timezone.now())
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        services.forget_failed_logins(**self._who())
        return super().form_valid(form)

    def _who(self) -> dict[str, str]:
        name = self.request.POST.get("username", "")
        return {"name": name, "address": self.request.META["REMOTE_ADDR"]}


class Logout(auth_views.LogoutView):
    """By POST only, as Django has it."""
