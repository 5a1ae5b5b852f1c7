"""The console's app, and the admin site in its dress [experience 1.1]."""

from __future__ import annotations

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AppConfig):
    name = "console"
    default_auto_field = "django.db.models.BigAutoField"


class VeenAdminConfig(AdminConfig):
    default_site = "console.admin_site.VeenAdminSite"
