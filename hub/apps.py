"""The hub's Django app: an index over the data directory, rebuildable at any time [SSOT 12]."""

from __future__ import annotations

from django.apps import AppConfig


class HubConfig(AppConfig):
    """Holds no truth: dropping its tables loses nothing that the log does not give back."""

    name = "hub"
    verbose_name = "Log"
    default_auto_field = "django.db.models.BigAutoField"
