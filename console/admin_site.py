"""One AdminSite: branding, zone badge, hub_id, one login door [experience 1.1]."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.context import shell


class VeenAdminSite(admin.AdminSite):
    site_header = "VEEN"
    site_title = "VEEN"
    index_title = "Administration"

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), **shell(request)}

    def login(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002 - Django's signature
    ) -> HttpResponse:
        """Send people to the one login page, because only that one counts failed attempts."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
