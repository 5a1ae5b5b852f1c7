"""One AdminSite: branding, zone badge, hub_id, one login door [experience 1.1]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, reverse

from console.context import shell


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPage:
    """A page of an app that is no table."""

    app_label: str
    name: str
    title: str
    view: Callable[..., HttpResponse]


class VeenAdminSite(admin.AdminSite):
    site_header = "VEEN"
    site_title = "VEEN"
    index_title = "Administration"

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self._pages: list[AdminPage] = []

    def add_page(
        self, *, app_label: str, name: str, title: str, view: Callable[..., HttpResponse]
    ) -> None:
        """Have a page listed among the tables of its app, for whoever may enter the admin."""
        self._pages.append(AdminPage(app_label=app_label, name=name, title=title, view=view))

    def get_urls(self) -> list[URLResolver | URLPattern]:
        own: list[URLResolver | URLPattern] = [
            path(
                f"{page.app_label}/{page.name.removeprefix(page.app_label + '_')}/",
                self.admin_view(page.view),
                name=page.name,
            )
            for page in self._pages
        ]
        return [*own, *super().get_urls()]

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super().get_app_list(request, app_label)
        for app in found:
            for page in self._pages:
                if page.app_label == app["app_label"]:
                    entry: dict[str, Any] = {
                        "name": page.title,
                        "object_name": page.name,
                        "admin_url": reverse(f"admin:{page.name}"),
                        "add_url": None,
                        "view_only": True,
                        "perms": {},
                    }
                    app["models"].append(entry)
        return found

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().each_context(request), **shell(request)}

    def password_change(  # type: ignore[override]  # it may redirect
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002 - Django's signature
    ) -> HttpResponse:
        """Django would write the row itself; here it is an act, like every change of an account."""
        # Only now: the page itself belongs to this site, which is being made when this is imported.
        from recorder.admin_accounts import own_password  # noqa: PLC0415

        return own_password(request)

    def login(
        self,
        request: HttpRequest,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002 - Django's signature
    ) -> HttpResponse:
        """Send people to the one login page, because only that one counts failed attempts."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
