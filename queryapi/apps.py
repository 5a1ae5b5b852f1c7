"""The query layer's Django app [Query 7]."""

from __future__ import annotations

from django.apps import AppConfig


class QueryApiConfig(AppConfig):
    """Questions, their executions and their replays."""

    name = "queryapi"
    verbose_name = "Queries"
    default_auto_field = "django.db.models.BigAutoField"
