"""Every path of the web process [interfaces]."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from console import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.overview, name="overview"),
    path("overview/part", views.overview_part, name="overview-part"),
    path("overview.json", views.overview_json, name="overview-json"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("healthz", views.healthz, name="healthz"),
    path("admin/", admin.site.urls),
    path("api/", include("config.urls_api")),
]

handler400 = "config.errors.bad_request"
handler403 = "config.errors.permission_denied"
handler404 = "config.errors.page_not_found"
handler500 = "config.errors.server_error"
