"""The recorder's Django app [SDR0]."""

from __future__ import annotations

from django.apps import AppConfig


class RecorderConfig(AppConfig):
    """Streams, producers, readers, tokens, and the acts that change them."""

    name = "recorder"
    verbose_name = "Recorder"
    default_auto_field = "django.db.models.BigAutoField"
